"""Check the output of the near-duplicate job against exact pairs; exit 1 when a promise is broken.

Input, the corpus and the folders that the job wrote, JSON lines in part-* files:
    pairs/     {"id_a": "d1", "id_b": "d7", "jaccard": 0.9313, "bands": 14}
    clusters/  {"survivor": "d1", "size": 2,
                "members": [{"id": "d7", "jaccard": 0.9313, "linked_to": "d1"}], ...}
    kept/      the lines of the surviving documents
Output, a line for each check:
    recall of the clusters                 0.9979

Promised are: nearly all exact pairs lie in one cluster; a written pair, and a member with the one
it is linked to, reach the threshold; a reported Jaccard is the exact one, rounded; a pair is
written once, in order, and lies in one cluster; a cluster is connected by its links and shares no
document with another; kept/ holds the lines of the corpus without the removed members.
Similarities are measured here from the texts, by code that the job does not use.
"""

import argparse
import hashlib
import sys
from collections import Counter
from functools import lru_cache
from pathlib import Path

from exact_pairs import exact_pairs, read_documents, read_lines, read_record, tokens

LEAST_RECALL = 0.995
TOLERANCE = 1e-4


def read_folder(folder, fields):
    """Yield the records of the part-* files of a folder."""
    for path in sorted(folder.glob("part-*")):
        for number, line in enumerate(read_lines(path), 1):
            yield read_record(line, f"line {number} of {path}", fields)


def read_exact(path, threshold):
    """Yield (id_a, id_b) of every line of a pairs file that reaches the threshold."""
    for number, line in enumerate(read_lines(path), 1):
        try:
            id_a, id_b, jaccard = line.decode().split("\t")
            reached = float(jaccard) >= threshold
        except ValueError as error:
            place = f"line {number} of {path}"
            raise ValueError(f"{place} must be id, id, jaccard, got {line[:60]!r}") from error
        if reached:
            yield id_a, id_b


def shingle_set(text, size, bag=False):
    """The set of the word shingles of a text, fewer words than the size being one shingle.

    Of a bag, the set of (shingle, number of the occurrence): the Jaccard similarity of two such
    sets is that of the bags.

    >>> sorted(shingle_set("a b a b", 2))
    [('a', 'b'), ('b', 'a')]
    >>> sorted(shingle_set("a b a b", 2, bag=True))
    [(('a', 'b'), 0), (('a', 'b'), 1), (('b', 'a'), 0)]
    """
    words = tuple(tokens(text))
    starts = range(max(len(words) - size + 1, min(len(words), 1)))
    shingles = Counter(words[start : start + size] for start in starts)
    if not bag:
        return set(shingles)
    return {(shingle, number) for shingle, count in shingles.items() for number in range(count)}


def jaccard(a, b):
    """The Jaccard similarity of two sets; 0 where both are empty."""
    overlap = len(a & b)
    return overlap / (len(a) + len(b) - overlap) if a or b else 0.0


def cluster_fault(survivor, size, links):
    """What is wrong with the shape of a cluster, or None; links are (member, the one linked to).

    >>> cluster_fault("a", 3, [("b", "a"), ("c", "b")])
    >>> cluster_fault("a", 3, [("b", "c"), ("c", "b")])
    'connects 1 of 3 documents'
    """
    documents = {survivor, *(id for id, _ in links)}
    if not len(documents) == len(links) + 1 == size >= 2:
        return f"has size {size}, {len(links)} members and {len(documents)} documents"
    neighbours = {id: set() for id in documents}
    for id, other in links:
        if other not in documents:
            return f"links {id!r} to {other!r} outside"
        neighbours[id].add(other)
        neighbours[other].add(id)
    reached, border = {survivor}, [survivor]
    while border:
        fresh = neighbours[border.pop()] - reached
        reached |= fresh
        border.extend(fresh)
    return None if reached == documents else f"connects {len(reached)} of {size} documents"


def digest(line):
    """What stands for a line where lines are counted."""
    return hashlib.blake2b(line, digest_size=16).digest()


class Output:
    """What the job wrote: the cluster of each document, the removed ids, claims, faults of form.

    A claim is (id_a, id_b, reported jaccard or None, whether the pair must reach the threshold).
    """

    def __init__(self, folder):
        self.cluster_of, self.removed, self.claims, self.faults = {}, set(), [], []
        self.kept, self.clusters, self.pairs = folder / "kept", 0, 0
        for cluster in read_folder(folder / "clusters", ("survivor", "size", "members")):
            self.add_cluster(cluster)
        for pair in read_folder(folder / "pairs", ("id_a", "id_b")):
            self.add_pair(str(pair["id_a"]), str(pair["id_b"]), pair.get("jaccard"))
        written = Counter(claim[:2] for claim in self.claims[len(self.claims) - self.pairs :])
        twice = [pair for pair, count in written.items() if count > 1]
        self.faults += [f"pair {pair} is written {written[pair]} times" for pair in twice]

    def add_cluster(self, cluster):
        survivor, links = str(cluster["survivor"]), []
        for member in cluster["members"]:
            if not member.keys() >= {"id", "linked_to"}:
                raise ValueError(f'a member must have "id" and "linked_to", got {member}')
            id, linked_to = str(member["id"]), str(member["linked_to"])
            links.append((id, linked_to))
            self.claims.append((id, linked_to, None, True))
            self.claims.append((id, survivor, member.get("jaccard"), False))
        fault = cluster_fault(survivor, cluster["size"], links)
        if fault:
            self.faults.append(f"cluster of {survivor!r} {fault}")
        for id in [survivor] + [id for id, _ in links]:
            if self.cluster_of.setdefault(id, self.clusters) != self.clusters:
                self.faults.append(f"{id!r} is in two clusters")
        self.removed.update(id for id, _ in links)
        self.clusters += 1

    def add_pair(self, id_a, id_b, jaccard):
        self.claims.append((id_a, id_b, jaccard, True))
        self.pairs += 1
        if not id_a < id_b:
            self.faults.append(f"pair {id_a!r}, {id_b!r} is not in order")
        if not self.together(id_a, id_b):
            self.faults.append(f"pair {id_a!r}, {id_b!r} is not in one cluster")

    def together(self, id_a, id_b):
        """Whether two documents are in one cluster."""
        return id_a in self.cluster_of and self.cluster_of[id_a] == self.cluster_of.get(id_b)


def check_claims(claims, texts, threshold, size, bag):
    """(claims under the threshold, claims with a wrong Jaccard), each as lines to show."""

    @lru_cache(maxsize=10_000)
    def shingles_of(text):
        return shingle_set(text, size, bag)

    under, wrong = [], []
    for id_a, id_b, reported, linked in claims:
        exact = jaccard(shingles_of(texts[id_a]), shingles_of(texts[id_b]))
        if linked and exact < threshold:
            under.append(f"{id_a!r}, {id_b!r} linked at {exact:.6f}")
        if reported is not None and not abs(exact - reported) <= TOLERANCE:
            wrong.append(f"{id_a!r}, {id_b!r} reported {reported}, exact {exact:.6f}")
    return under, wrong


def check_kept(corpus, output):
    """(lines kept that should not be, lines missing) in kept/, by their bytes, in any order."""
    surplus = Counter()
    for path in sorted(output.kept.glob("part-*")):
        surplus.update(digest(line) for line in read_lines(path) if line.strip())
    for number, line in enumerate(read_lines(corpus), 1):
        if line.strip():
            record = read_record(line, f"line {number} of {corpus}", ("id",))
            if str(record["id"]) not in output.removed:
                surplus[digest(line)] -= 1
    counts = surplus.values()
    return sum(max(count, 0) for count in counts), sum(max(-count, 0) for count in counts)


def compare(corpus, output, exact, threshold, size, bag):
    """Yield (label, figure, whether it is as promised, lines to show) for each check."""
    together = total = 0
    missed = []
    for id_a, id_b in exact:
        total += 1
        if output.together(id_a, id_b):
            together += 1
        else:
            missed.append(f"{id_a!r}, {id_b!r} apart")
    recall = together / total if total else 1.0
    yield f"exact pairs >= {threshold}", total, True, []
    yield "of them in one cluster", together, True, []
    yield "recall of the clusters", f"{recall:.4f}", recall >= LEAST_RECALL, missed

    named = {id for claim in output.claims for id in claim[:2]}
    texts = {id: text for id, text in read_documents([corpus]) if id in named}
    unknown = [f"{id!r} is not in the corpus" for id in sorted(named - texts.keys())]
    claims = [claim for claim in output.claims if claim[0] in texts and claim[1] in texts]
    under, wrong = check_claims(claims, texts, threshold, size, bag)
    yield "pairs written", output.pairs, True, []
    yield "clusters written", output.clusters, True, []
    yield "linked pairs under the threshold", len(under), not under, under
    yield f"reported Jaccard off by > {TOLERANCE}", len(wrong), not wrong, wrong
    faults = output.faults + unknown
    yield "faults of form", len(faults), not faults, faults
    surplus, missing = check_kept(corpus, output)
    yield "kept lines that should not be", surplus, not surplus, []
    yield "kept lines missing", missing, not missing, []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("corpus", help="JSON lines with id and text, plain, .gz or .bz2")
    parser.add_argument("output_dir", type=Path, help="the folder of pairs/, clusters/ and kept/")
    parser.add_argument("--threshold", type=float, default=0.8, help="the job's threshold (default 0.8)")
    parser.add_argument("--exact", help="what exact_pairs.py printed for this threshold or a lower one")
    parser.add_argument(
        "--shingle-size", type=int, default=5, help="the job's words in a shingle (default 5)"
    )
    parser.add_argument("--bag", action="store_true", help="the job compared bags of shingles")
    parser.add_argument(
        "--show", type=int, default=5, help="lines to show of each broken promise (default 5)"
    )
    options = parser.parse_args()
    threshold, size, bag = options.threshold, options.shingle_size, options.bag
    if not 0 < threshold <= 1:
        parser.error(f"--threshold must be above 0 and at most 1, got {threshold}")
    if size < 1:
        parser.error(f"--shingle-size must be a positive number, got {size}")
    for folder in ("pairs", "clusters", "kept"):
        if not (options.output_dir / folder).is_dir():
            parser.error(f"OUTPUT_DIR must hold {folder}/, got {options.output_dir}")
    promised = True
    try:
        output = Output(options.output_dir)
        if options.exact:
            exact = read_exact(options.exact, threshold)
        else:
            documents = read_documents([options.corpus])
            exact = (pair[:2] for pair in exact_pairs(documents, threshold, size, bag))
        checks = compare(options.corpus, output, exact, threshold, size, bag)
        for label, figure, good, lines in checks:
            print(f"{label:38} {figure:>10}{'' if good else '  BROKEN'}")
            for line in lines[: options.show] if not good else []:
                print(f"    {line}")
            promised = promised and good
    except (OSError, ValueError) as error:
        parser.error(str(error))
    sys.exit(0 if promised else 1)


if __name__ == "__main__":
    main()
