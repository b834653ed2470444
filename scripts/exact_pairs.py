"""Print every pair of documents whose exact Jaccard similarity reaches a threshold.

Input, JSON lines, plain, .gz or .bz2:
    {"id": "d1", "text": "the quick brown fox jumps over the lazy dog"}
Output, tab-separated, id_a < id_b, sorted:
    d1	d7	0.9312977099236641

The exact twin of the jobs that find pairs by hashing. It shares no code with them, so that each
checks the other, and it hashes nothing: equal numbers here mean equal shingles.

The method is prefix filtering (Bayardo, Ma, Srikant 2007, "Scaling up all pairs similarity search";
the Jaccard bounds as in Xiao, Wang, Lin, Yu 2008, "Efficient similarity joins for near duplicate
detection"). Two documents of similarity t or more share at least t * n shingles, where n is the
larger size, so the smaller has at least t * n. With the shingles of every document sorted the same
way, rarest first, the first one that two such documents share is among the first
n - ceil(t * n) + 1 of each: only those are indexed and looked up.
"""

import argparse
import bz2
import gzip
import itertools
import json
import re
import sys
import time
import unicodedata
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np

# Thai, Lao; Burmese; Khmer; Kana and Chinese: scripts in which each character is a token
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f\u1780-\u17ff\u3005-\u3007\u3021-\u3029"
    "\u3041-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U0001aff0-\U0001b16f\U00020000-\U000323af]"
)
OPENERS = {"gz": gzip.open, "bz2": bz2.open}
NO_TOKEN = 0


class Spacing(dict):
    """A table for str.translate: blanks for what separates words, and around characters that are words."""

    def __missing__(self, code):
        character = chr(code)
        if unicodedata.category(character)[0] not in "LNM":
            self[code] = " "
        else:
            self[code] = f" {character} " if UNSPACED.match(character) else character
        return self[code]


SPACING = Spacing()


def tokens(text):
    """The words of a text: runs of letters, digits and marks, compatibility forms and case folded.

    >>> tokens("Straße_12, ﬁn! 東京")
    ['strasse', '12', 'fin', '東', '京']
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded).translate(SPACING).split()


def read_lines(path):
    """The lines of a file as bytes without their line ends; .gz and .bz2 are unpacked."""
    with OPENERS.get(str(path).rsplit(".", 1)[-1], open)(path, "rb") as file:
        for line in file:
            yield line.rstrip(b"\r\n")


def read_record(line, place, fields):
    """The JSON object of a line; ValueError names the place when it is none or lacks a field."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{place} must be JSON, got {line[:60]!r}") from error
    for field in fields:
        if not isinstance(record, dict) or record.get(field) is None:
            raise ValueError(f'{place} must have "{field}", got {line[:60]!r}')
    return record


def read_documents(paths):
    """Yield (id, text) of every line that is not blank; a number as id becomes its digits."""
    for path in paths:
        for number, line in enumerate(read_lines(path), 1):
            if line.strip():
                place = f"line {number} of {path}"
                record = read_record(line, place, ("id", "text"))
                id, text = record["id"], record["text"]
                if not isinstance(text, str):
                    raise ValueError(f'{place} must have a string as "text", got {text!r}')
                yield str(id), text


def exact_pairs(documents, threshold, size=5, bag=False):
    """Yield (id_a, id_b, jaccard), id_a < id_b, sorted, for every pair that reaches the threshold.

    A document is an (id, text), compared as the set of its word shingles of this size, or with
    `bag` as the bag, whose Jaccard similarity is the sum of the lesser counts over the sum of the
    greater. A text of fewer words is one shingle of all of them; a text without words is in no
    pair. The threshold is taken as the decimal number it prints as.

    >>> list(exact_pairs([("b", "To be, or not"), ("a", "or not to be?")], 0.5, size=2))
    [('a', 'b', 0.5)]
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold must be above 0 and at most 1, got {threshold}")
    if size < 1:
        raise ValueError(f"size must be a positive number, got {size}")
    ids, owners, names = number_shingles(documents, size)
    if bag:
        owners, names = number_occurrences(owners, names)
    numerator, denominator = Fraction(str(threshold)).as_integer_ratio()
    found = []
    for a, b, overlap, union in join(owners, names, len(ids), numerator, denominator):
        found.append((*sorted((ids[a], ids[b])), overlap / union))
    yield from sorted(found)


def number_shingles(documents, size):
    """Number the shingles of (id, text) documents exactly: (ids, owners, names).

    owners and names have an entry for each occurrence; an owner is a position in ids. Equal
    shingles, and only they, have equal names: the name of a run of j words is its place among the
    distinct pairs of (name of its first j - 1 words, its last word).
    """
    ids, rows = [], []
    words = defaultdict(itertools.count(NO_TOKEN + 1).__next__)
    for id, text in documents:
        row = [words[token] for token in tokens(text)]
        # Padding turns a short text into the one shingle that only the same short text has.
        row += [NO_TOKEN] * (size - len(row) if row else 0)
        ids.append(id)
        rows.append(np.array(row, np.int64))
    if len(set(ids)) < len(ids):
        twice = next(id for id, count in Counter(ids).items() if count > 1)
        raise ValueError(f"ids must differ, got {twice!r} twice")
    lengths = [len(row) for row in rows]
    stream = np.concatenate([np.zeros(0, np.int64), *rows])
    owners = np.repeat(np.arange(len(ids)), lengths)
    ends = np.repeat(np.cumsum(lengths, dtype=np.int64), lengths)
    names = stream
    for shift in range(1, size):
        names = np.unique(names[:-1] << 32 | stream[shift:], return_inverse=True)[1]
    whole = np.flatnonzero(np.arange(len(names)) + size <= ends[: len(names)])
    return ids, owners[whole], names[whole]


def number_occurrences(owners, names):
    """(owners, names) by which the i-th occurrence of a shingle meets the i-th in another document.

    So the set of the new names stands for the bag of the old ones: the overlap of two sets is the
    sum of the lesser counts.
    """
    order = np.lexsort((names, owners))
    owners, names = owners[order], names[order]
    positions = np.arange(len(names))
    first = np.ones(len(names), bool)
    first[1:] = (np.diff(owners) != 0) | (np.diff(names) != 0)
    occurrences = positions - np.maximum.accumulate(np.where(first, positions, 0))
    return owners, np.unique(names << 32 | occurrences, return_inverse=True)[1]


def join(owners, names, documents, numerator, denominator):
    """Yield (a, b, overlap, union) where overlap / union >= t = numerator / denominator.

    Only shingles of two or more documents are kept in the lists. Those of one document would come
    first in its prefix and meet nothing, so of its m kept ones the prefix is the first
    m - ceil(t * n) + 1.
    """
    rows = np.unique(owners << 32 | names)
    owners, names = rows >> 32, rows & 0xFFFFFFFF
    sizes = np.bincount(owners, minlength=documents)
    frequencies = np.bincount(names)
    ranks = np.empty(len(frequencies), np.int64)
    ranks[np.argsort(frequencies, kind="stable")] = np.arange(len(frequencies))
    kept = frequencies[names] > 1
    owners, names = owners[kept], ranks[names[kept]]
    names = names[np.lexsort((names, owners))]
    stops = np.cumsum(np.bincount(owners, minlength=documents))
    by_size = np.argsort(sizes, kind="stable").tolist()
    sizes, starts, stops = sizes.tolist(), [0, *stops.tolist()], stops.tolist()

    postings = defaultdict(list)
    for b in by_size:
        needed = -(-sizes[b] * numerator // denominator)
        prefix_length = stops[b] - starts[b] - needed + 1
        if needed < 1 or prefix_length < 1:
            continue
        row = names[starts[b] : stops[b]].tolist()
        candidates = set()
        for name in row[:prefix_length]:
            candidates.update(postings[name])
            postings[name].append(b)
        row = set(row)
        for a in candidates:
            if sizes[a] >= needed:
                overlap = len(row.intersection(names[starts[a] : stops[a]].tolist()))
                union = sizes[a] + sizes[b] - overlap
                if overlap * denominator >= union * numerator:
                    yield a, b, overlap, union


def write_pair(id_a, id_b, jaccard, file):
    """Write one line of the output; ValueError when an id would break it."""
    for id in (id_a, id_b):
        if set(id) & set("\t\r\n"):
            raise ValueError(f"an id must be free of tabs and line ends, got {id!r}")
    file.write(f"{id_a}\t{id_b}\t{jaccard}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("corpus", nargs="+", help="JSON lines with id and text, plain, .gz or .bz2")
    parser.add_argument(
        "--threshold", type=float, default=0.8, help="the least similarity to print (default 0.8)"
    )
    parser.add_argument("--shingle-size", type=int, default=5, help="words in a shingle (default 5)")
    parser.add_argument("--bag", action="store_true", help="count repeated shingles: bags instead of sets")
    options = parser.parse_args()
    if not 0 < options.threshold <= 1:
        parser.error(f"--threshold must be above 0 and at most 1, got {options.threshold}")
    if options.shingle_size < 1:
        parser.error(f"--shingle-size must be a positive number, got {options.shingle_size}")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    start, count = time.monotonic(), 0
    try:
        documents = read_documents(options.corpus)
        for pair in exact_pairs(documents, options.threshold, options.shingle_size, options.bag):
            write_pair(*pair, sys.stdout)
            count += 1
    except (OSError, ValueError) as error:
        sys.exit(f"exact_pairs.py: {error}")
    print(f"{count} pairs in {time.monotonic() - start:.1f} seconds", file=sys.stderr)


if __name__ == "__main__":
    main()
