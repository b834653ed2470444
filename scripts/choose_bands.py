"""Print the bands and rows for a threshold, the choice that jobs/dedup.py makes, and its S-curve.

    python scripts/choose_bands.py --threshold 0.8 --documents 1000000 --bytes-per-document 3000

Each choice has, for its number of rows, the fewest bands that find a pair at the threshold with the
wanted chance. Two texts of similarity s meet with chance 1 - (1 - s^rows)^bands (Mining of Massive
Datasets, 3.4).
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lshlib.banding import best_choice, choices, collision_chance, curve_threshold  # noqa: E402

BAR = 40
ROW_BYTES = 24  # bucket, mark, key and size, as candidates.py sends them
BASE64 = 4 / 3


def choice_lines(threshold, recall):
    """A line for each choice, the best one marked."""
    best = best_choice(threshold, recall)
    yield f"bands  rows  length  at {threshold:<6g}  at {threshold / 2:<6g}  mean below {threshold:g}"
    for choice in choices(threshold, recall):
        mark = "  <- chosen" if choice == best else ""
        yield (
            f"{choice.bands:5}  {choice.rows:4}  {choice.length:6}  {choice.recall:9.4f}  "
            f"{choice.at_half:9.4f}  {choice.false_area:10.4f}{mark}"
        )


def curve_lines(bands, rows):
    """The S-curve as rows of similarity, chance and bar."""
    yield "similarity  chance"
    for step in range(2, 21):
        similarity = step / 20
        chance = collision_chance(similarity, bands, rows)
        yield f"{similarity:10.2f}  {chance:.4f}  {'#' * round(BAR * chance)}".rstrip()


def shuffle_bytes(documents, bands):
    """Bytes of bucket rows that the candidates stage sends from mappers to reducers, about.

    >>> shuffle_bytes(1000, bands=14)
    448000
    """
    return round(documents * bands * ROW_BYTES * BASE64)


def shuffle_line(documents, bands, bytes_per_document):
    shuffled = shuffle_bytes(documents, bands)
    line = f"shuffle: {documents:,} documents x {bands} bands are about {shuffled / 1e6:,.1f} MB"
    if bytes_per_document is None:
        return line
    corpus = documents * bytes_per_document
    return f"{line}, {shuffled / corpus:.1%} of the {corpus / 1e6:,.1f} MB of documents"


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threshold", type=float, default=0.8, metavar="S", help="(default: 0.8)")
    parser.add_argument(
        "--recall",
        type=float,
        default=0.995,
        metavar="P",
        help="wanted chance to find a pair exactly at the threshold (default: 0.995)",
    )
    parser.add_argument("--documents", type=int, metavar="N", help="estimate the bytes of the shuffle")
    parser.add_argument("--bytes-per-document", type=int, metavar="B", help="and compare them with the input")
    options = parser.parse_args()
    if not 0 < options.threshold <= 1:
        parser.error(f"--threshold must be above 0 and at most 1, got {options.threshold}")
    if not 0 < options.recall < 1:
        parser.error(f"--recall must be above 0 and below 1, got {options.recall}")
    for name in ("documents", "bytes_per_document"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} must be a positive number, got {value}")
    if options.bytes_per_document and not options.documents:
        parser.error(
            f"--bytes-per-document must come with --documents, got only {options.bytes_per_document}"
        )
    try:
        best_choice(options.threshold, options.recall)
    except ValueError as error:
        parser.error(str(error))
    return options


def main():
    options = parse_options()
    best = best_choice(options.threshold, options.recall)
    print(*choice_lines(options.threshold, options.recall), sep="\n")
    print()
    print(f"{best.bands} bands of {best.rows} rows, steepest near", end=" ")
    print(f"{curve_threshold(best.bands, best.rows):.2f}:")
    print(*curve_lines(best.bands, best.rows), sep="\n")
    if options.documents:
        print()
        print(shuffle_line(options.documents, best.bands, options.bytes_per_document))


if __name__ == "__main__":
    main()
