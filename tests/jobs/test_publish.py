import pytest
from running import run_job, write_lines

from publish import Publish

LINES = [
    b'pair\t{"id_a": "a\\tb", "id_b": "pair"}',
    b'cluster\t{"survivor": "cluster\\tx"}',
    b"=block\tremoved\tpair\tcluster",
    b'pairs\t{"id_a": 1}',
    b'pair\t{"id_a": "\xc3\xa9",\t"id_b":\r"pair\t"}',
    b'cluster\t{"survivor": 2}',
]


@pytest.mark.parametrize("kind, chosen", [("pair", [0, 4]), ("cluster", [1, 5])])
def test_lines_of_one_kind_come_out_in_their_order(tmp_path, kind, chosen):
    lines, _ = run_job(Publish, write_lines(tmp_path / "in", LINES), f"--kind={kind}")
    assert lines == [LINES[n].partition(b"\t")[2] for n in chosen]


@pytest.mark.parametrize("lines", [[], LINES[1:3], [b""]])
def test_no_line_of_the_kind(tmp_path, lines):
    assert run_job(Publish, write_lines(tmp_path / "in", lines), "--kind=pair") == ([], {})


def test_more_lines_than_a_batch(tmp_path):
    lines = [
        b'%s\t{"n": %d, "text": "%s"}' % ((b"pair", b"cluster")[n % 2], n, b"x" * 999) for n in range(2000)
    ]
    found, _ = run_job(Publish, write_lines(tmp_path / "in", lines), "--kind=cluster")
    assert found == [line.partition(b"\t")[2] for line in lines[1::2]]


@pytest.mark.parametrize("arguments", [[], ["--kind=block"]])
def test_kind_must_be_one_that_there_is(arguments):
    with pytest.raises(ValueError, match="--kind"):
        Publish(arguments)
