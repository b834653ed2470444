"""Running the jobs, made corpora, and the plain truth about them."""

import contextlib
import io
import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SCRIPT = TOP / "jobs" / "dedup.py"
SAMPLES = TOP / "data-samples"
DATA = TOP.parent / "shared" / "data"
FOLDERS = "pairs", "clusters", "kept"
COUNTS = (
    *("documents", "empty", "skipped", "clusters", "removed", "kept"),
    *("candidate_pairs", "verified_pairs", "pairs_left_out"),
)

sys.path.insert(0, str(TOP / "scripts"))


def command(*arguments, script=SCRIPT):
    return [sys.executable, str(script), *map(str, arguments)]


def run_script(*arguments, script=SCRIPT, stdin=b"", timeout=100, **settings):
    """A job as a user runs it: its CompletedProcess, with bytes."""
    return subprocess.run(
        command(*arguments, script=script), input=stdin, capture_output=True, timeout=timeout, **settings
    )


def run_here(*arguments):
    """jobs/dedup.py within this process, to the very end: its CompletedProcess, but for the output."""
    from dedup import Dedup

    errors, before = io.StringIO(), sys.argv
    sys.argv = [str(SCRIPT), *map(str, arguments)]
    try:
        with contextlib.redirect_stderr(errors):
            Dedup.run()
        code = 0
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):  # as the interpreter does
            errors.write(code + "\n")
            code = 1
    finally:
        sys.argv = before
    return subprocess.CompletedProcess(arguments, code, b"", errors.getvalue().encode())


def deduplicate(folder, *arguments):
    """jobs/dedup.py, within this process where that may be: its output folder."""
    from dedup import Dedup

    arguments = [*map(str, arguments), "--output-dir", str(folder), "--quiet"]
    if threading.active_count() > 1 and "-r" not in arguments:
        # a task that is forked here might wait for what another thread holds
        result = run_script(*arguments)
        assert result.returncode == 0, result.stderr.decode()
    else:
        Dedup(arguments).run_job()
    return folder


def run_job(job_class, *arguments):
    """(output lines, counters) of one job with its default runner."""
    job = job_class(["--no-conf", *map(str, arguments)])
    with job.make_runner() as runner:
        runner.run()
        lines = b"".join(runner.cat_output()).split(b"\n")[:-1]
        counters = {}
        for step in runner.counters():
            counters.update(step.get("lsh", {}))
        return lines, counters


def blocks(lines, key):
    """The columns of all blocks with this key among lines, in one dict of lists."""
    from lshlib.blocks import BlockProtocol, is_block

    columns = defaultdict(list)
    for found, block in map(BlockProtocol().read, filter(is_block, lines)):
        if found == key:
            for name, values in block.items():
                columns[name] += values.tolist()
    return columns


def refusal(result):
    """The one line on standard error that a run which must fail says why with."""
    text = result.stderr.decode()
    assert result.returncode not in (0, None), text
    assert "Traceback" not in text and "unexpected" not in text, text
    *_, last, end = text.split("\n")
    assert not end and text.count("error: ") == 1, text
    return last.partition("error: ")[2]


def part_lines(folder):
    """The lines of a folder's part files, as bytes without their ends, in order."""
    data = b"".join(path.read_bytes() for path in sorted(Path(folder).iterdir()))
    assert not data or data.endswith(b"\n")
    return data.split(b"\n")[:-1]


def records(folder):
    return [json.loads(line) for line in part_lines(folder)]


def summary(folder):
    return json.loads((Path(folder) / "summary.json").read_text(encoding="utf-8"))


def outcome(folder):
    """All that may not depend on how a run was made: the sorted lines and the counts."""
    lines = {name: sorted(part_lines(Path(folder) / name)) for name in FOLDERS}
    counts = summary(folder)
    return lines, {name: counts[name] for name in COUNTS}


def assert_same(one, other):
    """Compare outcomes, with a message that stays readable."""
    for name in FOLDERS:
        more, fewer = (sorted((Counter(x) - Counter(y)).elements()) for x, y in _both_ways(one, other, name))
        assert (more[:3], fewer[:3]) == ([], []), f"{name}: {len(more)} and {len(fewer)} lines differ"
    assert one[1] == other[1]


def _both_ways(one, other, name):
    return (one[0][name], other[0][name]), (other[0][name], one[0][name])


def clusters_of(folder):
    """The clusters as a set of frozensets of ids."""
    return {
        frozenset([cluster["survivor"], *(member["id"] for member in cluster["members"])])
        for cluster in records(Path(folder) / "clusters")
    }


def components_of(pairs):
    """Connected components of (a, b) pairs, as a set of frozensets."""
    linked, components = neighbours(pairs), set()
    while linked:
        members, near = set(), {next(iter(linked))}
        while near:
            members |= near
            near = {other for one in near for other in linked.pop(one)} - members
        components.add(frozenset(members))
    return components


def neighbours(pairs):
    """{node: set of the nodes that it has a pair with}"""
    linked = defaultdict(set)
    for a, b, *_ in pairs:
        linked[a].add(b)
        linked[b].add(a)
    return linked


# documents


def write_lines(path, lines):
    Path(path).write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def write_documents(path, documents):
    return write_lines(path, [json.dumps(document).encode() for document in documents])


def write_texts(path, *texts):
    """Documents with the ids d1, d2, ..."""
    return write_documents(path, [{"id": f"d{n}", "text": text} for n, text in enumerate(texts, 1)])


def invented_text(draw, words):
    return " ".join(f"w{draw.randrange(3000)}" for _ in range(words))


def edited(draw, text, edits):
    words = text.split()
    for _ in range(edits):
        words[draw.randrange(len(words))] = f"w{draw.randrange(3000)}"
    return " ".join(words)


def family_corpus(count=400, seed=1):
    """Documents of which about half are in families of edited copies, in no order; some are empty."""
    draw = random.Random(seed)
    texts = []
    while len(texts) < count:
        text = invented_text(draw, draw.choice((1, 3, 5, 8, 40, 90, 150, 300)))
        texts.append(text)
        for _ in range(draw.choice((0, 0, 0, 1, 2, 5))):
            # copies of copies, so that families have members that are linked by way of others only
            texts.append(edited(draw, draw.choice((text, texts[-1])), draw.randrange(5)))
    texts = texts[: count - 4] + ["", "  ", "...", texts[0].upper()]
    draw.shuffle(texts)
    numbers = list(range(count))
    draw.shuffle(numbers)
    return [
        {"id": f"{'äß' if number % 5 == 0 else 'd'}-{number}", "text": text, "date": f"2024-{number % 12:02}"}
        for number, text in zip(numbers, texts)
    ]


def footer_corpus(count, body, footer, seed=2):
    """Documents of `body` words of their own and one footer that all share."""
    draw = random.Random(seed)
    end = " ".join(f"footer{n}" for n in range(footer))
    return [
        {"id": n, "text": " ".join(f"body{draw.getrandbits(40)}" for _ in range(body)) + " " + end}
        for n in range(count)
    ]


def same_corpus(count):
    text = invented_text(random.Random(3), 60)
    return [{"id": f"s{n}", "text": text} for n in range(count)]


def true_pairs(documents, threshold=0.8, size=5, bag=False):
    """{(id, id): exact Jaccard} of all pairs from the threshold on, both ways round."""
    from exact_pairs import exact_pairs

    ids = {str(document["id"]): document["id"] for document in documents}
    texts = [(str(document["id"]), document["text"]) for document in documents]
    truth = {}
    for a, b, similarity in exact_pairs(texts, threshold, size, bag):
        truth[ids[a], ids[b]] = truth[ids[b], ids[a]] = similarity
    return truth


def shingle_sets(documents, size=5):
    """{id: set of shingles} of texts of ASCII words, by the definition."""
    sets = {}
    for document in documents:
        words = "".join(c if c.isalnum() else " " for c in document["text"].lower()).split()
        runs = range(max(1, len(words) - size + 1)) if words else ()
        sets[document["id"]] = {tuple(words[start : start + size]) for start in runs}
    return sets


def jaccard(a, b):
    return len(a & b) / len(a | b) if a | b else 0.0


def tree(folder):
    """{path: (size, time of change)} of all files below a folder."""
    return {
        os.path.join(parent, name): (info.st_size, info.st_mtime_ns)
        for parent, _, names in os.walk(folder)
        for name in names
        for info in [os.stat(os.path.join(parent, name))]
    }
