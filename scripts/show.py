"""Show what a run of jobs/dedup.py found: clusters, verified pairs, and how many documents stay.

Input: the --output-dir of the run, with its folders clusters/, pairs/ and kept/.
Output: text, at most --limit clusters and --limit pairs.
"""

import json
from argparse import ArgumentParser
from itertools import islice
from pathlib import Path


def lines(folder):
    """The lines of the part files of a folder, as bytes."""
    for part in sorted(folder.glob("part-*")):
        with part.open("rb") as file:
            yield from file


def count(folder):
    return sum(1 for _ in lines(folder))


def print_clusters(folder, limit):
    print(f"{count(folder)} clusters")
    for cluster in map(json.loads, islice(lines(folder), limit)):
        print(f"  {cluster['survivor']} stays, in place of")
        for member in cluster["members"]:
            print(f"    {member['id']}  {member['jaccard']:.3f} similar to it")


def print_pairs(folder, limit):
    print(f"{count(folder)} pairs")
    for pair in map(json.loads, islice(lines(folder), limit)):
        print(f"  {pair['jaccard']:.3f}  {pair['id_a']}  {pair['id_b']}")


def main():
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("output_dir", type=Path)
    parser.add_argument("--limit", type=int, default=20, help="clusters and pairs shown (%(default)s)")
    args = parser.parse_args()
    if not args.output_dir.is_dir():
        parser.error(f"output_dir must be a folder that jobs/dedup.py wrote, got {args.output_dir}")

    print_clusters(args.output_dir / "clusters", args.limit)
    print_pairs(args.output_dir / "pairs", args.limit)
    print(f"{count(args.output_dir / 'kept')} documents stay")


if __name__ == "__main__":
    main()
