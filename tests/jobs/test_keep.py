import random

import numpy as np
import pytest
from running import run_job, write_lines

from keep import Keep
from lshlib.documents import record_keys

LINES = [b'{"id": %d, "text": "\xc3\xa9 %d"}' % (n, n) for n in range(200)]


def run(tmp_path, lines, removed):
    np.save(tmp_path / "removed.npy", np.sort(record_keys(removed)))
    return run_job(Keep, write_lines(tmp_path / "in", lines), f"--removed={tmp_path / 'removed.npy'}")


def test_removed_lines_are_left_out_and_the_order_stays(tmp_path):
    removed = random.Random(1).sample(LINES, 70)
    lines, counters = run(tmp_path, LINES, removed)
    assert lines == [line for line in LINES if line not in removed]
    assert counters == {"kept": 130}


def test_nothing_removed(tmp_path):
    assert run(tmp_path, LINES, []) == (LINES, {"kept": 200})


def test_everything_removed(tmp_path):
    lines, counters = run(tmp_path, LINES, LINES)
    assert (lines, counters.get("kept", 0)) == ([], 0)


def test_keys_that_no_line_has_do_no_harm(tmp_path):
    assert run(tmp_path, LINES[:5], [b"absent", b"other"])[0] == LINES[:5]


def test_blank_lines_are_no_documents(tmp_path):
    lines, counters = run(tmp_path, [b"", LINES[0], b" \t", LINES[1], b"", b""], [LINES[1]])
    assert (lines, counters) == ([LINES[0]], {"kept": 1})


@pytest.mark.parametrize("line", [b"x" * 3_000_000, b"\x00\x01\xff", b" {} ", b"\xef\xbb\xbf{}", b"a\tb"])
def test_any_line_is_kept_byte_for_byte(tmp_path, line):
    assert run(tmp_path, [LINES[0], line, LINES[1]], [LINES[0]])[0] == [line, LINES[1]]
