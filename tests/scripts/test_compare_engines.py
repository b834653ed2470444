import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "scripts"))

import compare_engines as module  # noqa: E402

NEWS = TOP / "data-samples" / "news.jsonl"


def run_script(*arguments):
    command = [sys.executable, TOP / "scripts" / "compare_engines.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
def test_engines_are_told_with_their_stages():
    result = run_script(NEWS, "--engine", "local", "--threshold", "0.7")
    assert result.returncode == 0, result.stderr
    head, _, *rows = [line.strip("| ").split(" | ") for line in result.stdout.splitlines()]
    assert head == [
        "engine",
        "seconds",
        *"candidates components resolve pairs clusters keep".split(),
        "lines",
    ]
    assert [(row[0], row[-1]) for row in rows] == [("inline", "same"), ("local", "same")]
    for row in rows:
        seconds, *stages = map(float, row[1:-1])
        assert 0 < sum(stages) <= seconds + 0.05 * len(stages)


def test_different_lines_are_told(monkeypatch, capsys):
    lines = {"inline": [b"a\n", b"b\n"], "local": [b"b\n", b"a\n"], "spark": [b"a\n", b"a\n"]}
    monkeypatch.setattr(
        module, "measure", lambda engine, *_: (1, {"keep": 1}, [module.digest(lines[engine])])
    )
    monkeypatch.setattr(sys, "argv", ["", str(NEWS), "--engine", "local", "--engine", "spark"])
    with pytest.raises(SystemExit) as end:
        module.main()
    assert end.value.code == 1
    rows = [row.strip("| ").split(" | ") for row in capsys.readouterr().out.splitlines()[2:]]
    assert [row[-1] for row in rows] == ["same", "same", "different"]


@pytest.mark.parametrize("one, other", [([b"a", b"a"], [b"a"]), ([b"a", b"b"], [b"ab"]), ([b""], [])])
def test_digest_tells_lines_apart(one, other):
    assert module.digest(one) != module.digest(other)


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["none.jsonl"], "FILE must be a file, got none.jsonl"),
        ([NEWS, "--engine", "abacus"], "invalid choice: 'abacus'"),
        ([NEWS, "--threshold", "7"], "compare_engines.py: inline: "),
    ],
)
def test_mistakes_are_told_in_a_line(arguments, told):
    result = run_script(*arguments)
    assert result.returncode and told in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
