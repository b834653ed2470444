"""Find near-duplicates with another library, to measure it beside jobs/dedup.py: see scripts/benchmark.

    python peers.py NAME CORPUS CLUSTERS PAIRS    do it with the library of this name
    python peers.py                               print the names whose libraries can be imported

Input, JSON lines, plain: {"id": "d1", "text": "..."}
Output, tab-separated: CLUSTERS of id and cluster, for the clusters of two and more, and PAIRS of the ids
that the library took for duplicates.

All have the same task: shingles of 5 words, signatures of 128 numbers, 16 bands of 8 rows, candidates
taken where the signatures estimate 0.8 or more. Each in the fastest of the ways that its documentation
shows for that. Needs nothing of this project, so that it runs in any Python that has the library.
"""

import json
import os
import re
import sys
from importlib.util import find_spec
from multiprocessing import Pool

try:
    from orjson import loads
except ImportError:
    loads = json.loads

WORD = re.compile(r"[^\W_]+")
LENGTH, BANDS, ROWS, THRESHOLD = 128, 16, 8, 0.8
PART = 1 << 22  # bytes of the corpus that a process takes at a time


def shingles(text):
    """The runs of 5 words of a text, fewer words being one."""
    words = WORD.findall(text.lower())
    if len(words) < 5:
        return [" ".join(words)]
    return list(map(" ".join, zip(words, words[1:], words[2:], words[3:], words[4:])))


def parts(path):
    """(path, start) of each part of a file."""
    return [(path, start) for start in range(0, os.path.getsize(path), PART)]


def read_part(part):
    """(ids, texts) of the lines that start in a part."""
    path, start = part
    with open(path, "rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()
        ids, texts = [], []
        while file.tell() < start + PART and (line := file.readline()):
            if line.strip():
                record = loads(line)
                ids.append(record["id"])
                texts.append(record["text"])
    return ids, texts


def in_processes(sign, path):
    """(ids, signatures) of a corpus, signed part by part on all cores."""
    ids, signatures = [], []
    with Pool() as pool:
        for part_ids, part_signatures in pool.imap(sign, parts(path)):
            ids += part_ids
            signatures += part_signatures
        # end the processes rather than kill them, so that their time is counted
        pool.close()
        pool.join()
    return ids, signatures


def similar(signatures, candidates):
    """The pairs of places among the candidates of each place that are estimated to be similar."""
    for place, others in enumerate(candidates):
        for other in others:
            if other < place and signatures[place].jaccard(signatures[other]) >= THRESHOLD:
                yield place, other


def sign_rensa(part):
    from rensa import RMinHash

    ids, texts = read_part(part)
    return ids, RMinHash.from_token_sets(map(shingles, texts), num_perm=LENGTH, seed=42)


def rensa(path):
    from rensa import RMinHashLSH

    ids, signatures = in_processes(sign_rensa, path)
    index = RMinHashLSH(threshold=THRESHOLD, num_perm=LENGTH, num_bands=BANDS)
    index.insert_many(signatures)
    return ids, similar(signatures, index.query_all(signatures))


def sign_datasketch(part):
    from datasketch import LeanMinHash, MinHash

    try:  # the default is SHA-1
        from xxhash import xxh32_intdigest as hash_function
    except ImportError:
        try:
            from farmhash import hash32 as hash_function
        except ImportError:
            hash_function = None
    ids, texts = read_part(part)
    sets = ([shingle.encode() for shingle in set(shingles(text))] for text in texts)
    settings = {"hashfunc": hash_function} if hash_function else {}
    return ids, [LeanMinHash(one) for one in MinHash.generator(sets, num_perm=LENGTH, **settings)]


def datasketch(path):
    from datasketch import MinHashLSH

    ids, signatures = in_processes(sign_datasketch, path)
    index = MinHashLSH(threshold=THRESHOLD, num_perm=LENGTH, params=(BANDS, ROWS))
    with index.insertion_session() as session:
        for place, signature in enumerate(signatures):
            session.insert(place, signature, check_duplication=False)
    return ids, similar(signatures, map(index.query, signatures))


def gaoya(path):
    """Cuts the words itself, at white space and ASCII punctuation, and works on all cores in threads."""
    from gaoya.minhash import MinHashStringIndex

    index = MinHashStringIndex(
        hash_size=32,
        jaccard_threshold=THRESHOLD,
        num_bands=BANDS,
        band_size=ROWS,
        num_hashes=LENGTH,
        analyzer="word",
        lowercase=True,
        ngram_range=(5, 5),
        id_container="smallvec",
    )
    ids, pairs = [], []
    for part_ids, texts in map(read_part, parts(path)):
        places = range(len(ids), len(ids) + len(texts))
        ids += part_ids
        index.par_bulk_insert_docs(list(places), texts)
        # those of later parts will find these
        for place, others in zip(places, index.par_bulk_query(texts)):
            pairs += [(place, other) for other in others if other < place]
    return ids, pairs


PEERS = {"rensa": rensa, "datasketch": datasketch, "gaoya": gaoya}


def least_members(count, pairs):
    """For each place the least one that pairs connect it to."""
    parents = list(range(count))

    def root(place):
        while parents[place] != place:
            parents[place] = place = parents[parents[place]]
        return place

    for a, b in pairs:
        a, b = root(a), root(b)
        parents[max(a, b)] = min(a, b)
    return [root(place) for place in range(count)]


def main():
    if len(sys.argv) == 1:
        print(*filter(find_spec, PEERS))
        return
    name, corpus, clusters, pairs = sys.argv[1:]
    ids, found = PEERS[name](corpus)
    found = list(found)
    clusters_of = least_members(len(ids), found)
    sizes = [0] * len(ids)
    for cluster in clusters_of:
        sizes[cluster] += 1
    with open(clusters, "w", encoding="utf-8") as file:
        for id, cluster in zip(ids, clusters_of):
            if sizes[cluster] > 1:
                file.write(f"{id}\t{ids[cluster]}\n")
    with open(pairs, "w", encoding="utf-8") as file:
        file.writelines(f"{ids[a]}\t{ids[b]}\n" for a, b in found)


if __name__ == "__main__":
    main()
