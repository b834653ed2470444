"""Write a made-up corpus of JSON lines that strains one part of a near-duplicate search.

Output, a document a line, ids in the order of their numbers:
    {"id": "d000017", "text": "Trea kotha, ou strupi ..."}
and with --truth the planted pairs, tab-separated, id_a < id_b, sorted, as of exact_pairs.py:
    d000003	d000017	0.8641975308641975

Kinds:
    same    one text of about 3 kB, N times: a single bucket in every band
    footer  words that no other document has (--body), then the same words in all (--footer): one
            huge component of pairs that meet and are not similar
    titles  3 to 12 words, 10 % exact or near repeats of others; --truth holds the exact ones
    mixed   log-normal lengths of 3 kB on average, Zipf's words, 20 % near-duplicates of others;
            --truth holds them with the exact Jaccard similarity of their word shingles, however low
    long    one document of --bytes in the middle of N ordinary ones

Equal arguments give equal bytes. Words are made of letters only, so that any tokenizer of words
agrees on them; their capitals and the punctuation between them vary.
"""

import argparse
import bz2
import gzip
import itertools
import sys
from contextlib import nullcontext

import numpy as np

ONSETS = [*"bcdfghjklmnprstvwz", "br", "ch", "cl", "dr", "fl", "gr", "pl", "pr", "sh", "sl", "st"]
ONSETS += ["str", "th", "tr"]
VOWELS = [*"aeiou", "ai", "ea", "ou"]
WORDS = 50_000
# Of the 26 looks of a word two end a clause, two end a sentence (one of these a line too) and two
# have a capital.
MARKS = ["{}"] * 20 + ["{},"] * 2 + ["{}.", "{}.\\n"]
CAPITALS = 2
TEXT_WORDS = 620
BATCH_WORDS = 1_000_000
SLOTS = 1 << 21


def made_up_words(count):
    """Distinct words, the shorter first; onset and vowel alternate, so that none comes twice.

    >>> made_up_words(257)[0], made_up_words(257)[255], made_up_words(257)[256]
    ('ba', 'trou', 'baba')
    """
    syllables = [onset + vowel for onset in ONSETS for vowel in VOWELS]
    lengths = itertools.chain.from_iterable(
        map("".join, itertools.product(syllables, repeat=length)) for length in itertools.count(1)
    )
    return list(itertools.islice(lengths, count))


class Language:
    """Words by Zipf's law: the word of rank r is drawn in proportion to r^-exponent.

    A document is an array of pieces; a piece is a word and its look, piece % WORDS is the word.
    """

    def __init__(self, draw, exponent=1.0):
        self.draw = draw
        words = made_up_words(WORDS)
        looks = [[mark.format(word) for word in words] for mark in MARKS]
        looks += [[word.capitalize() for word in words]] * CAPITALS
        self.looks = len(looks)
        self.spellings = np.array(looks, object).ravel()
        chances = np.arange(1, WORDS + 1) ** -exponent
        # A draw is a look into a table of equally likely slots; every word has one at least.
        shares = np.cumsum(chances) / chances.sum()
        firsts = np.arange(1, WORDS) + np.rint(shares[:-1] * (SLOTS - WORDS)).astype(np.int64)
        steps = np.zeros(SLOTS, np.int32)
        steps[firsts] = 1
        self.slots = np.cumsum(steps, dtype=np.int32)

    def pieces(self, count):
        """An array of this many pieces, drawn independently."""
        words = self.slots[self.draw.integers(0, SLOTS, count, dtype=np.int32)]
        return words + WORDS * self.draw.integers(0, self.looks, count, dtype=np.int32)

    def text(self, pieces):
        """The text of a document, as it stands between the quotes of a JSON string."""
        return " ".join(self.spellings[pieces].tolist())

    def documents(self, lengths):
        """Yield a document of each length; the words of many are drawn at a time."""
        lengths = np.asarray(lengths)
        stops = np.cumsum(lengths)
        first = 0
        while first < len(lengths):
            before = stops[first] - lengths[first]
            last = max(first + 1, int(np.searchsorted(stops, before + BATCH_WORDS, side="right")))
            pieces = self.pieces(int(stops[last - 1] - before))
            yield from np.split(pieces, stops[first : last - 1] - before)
            first = last


def lengths_of_texts(draw, count):
    """Log-normal numbers of words with mean TEXT_WORDS, 8 or more."""
    spread = 0.8
    lengths = draw.lognormal(np.log(TEXT_WORDS) - spread**2 / 2, spread, count)
    return np.maximum(lengths, 8).astype(np.int64)


def jaccard(a, b):
    """The Jaccard similarity of two sets.

    >>> jaccard({1, 2, 3}, {2, 3, 4})
    0.5
    """
    overlap = len(a & b)
    return overlap / (len(a) + len(b) - overlap)


def shingle_set(pieces, size):
    """The set of the word shingles of a document; fewer words than the size are one shingle."""
    words = (pieces % WORDS).tolist()
    size = min(size, len(words))
    return set(zip(*(words[start:] for start in range(size))))


def plant(draw, originals, count, share, edit, report=None):
    """Yield `count` documents, originals from an iterator and this share of edits of earlier ones.

    An original and its copies are a family. When the last of it is out, report([(number,
    document), ...]) is called. Memory holds the families that are not complete.
    """
    copies = np.zeros(count, bool)
    copies[1 + draw.permutation(count - 1)[: round(share * count)]] = True
    positions = np.flatnonzero(~copies)
    # Of the originals before a copy, each is its source with equal chance.
    before = np.cumsum(~copies)[copies]
    sources = np.arange(count)
    sources[copies] = positions[(draw.random(len(before)) * before).astype(np.int64)]
    waiting = np.bincount(sources, minlength=count)
    families = {}
    for number, source in enumerate(sources.tolist()):
        if source == number:
            document = next(originals)
            if waiting[source] > 1:
                # Not the slice of a batch, which would keep the batch.
                families[source] = [(number, document.copy())]
        else:
            document = edit(families[source][0][1])
            if report:
                families[source].append((number, document))
        yield document
        waiting[source] -= 1
        if not waiting[source] and source in families:
            family = families.pop(source)
            if report:
                report(family)


class Truth:
    """The planted pairs of complete families, as (number_a, number_b, jaccard)."""

    def __init__(self, shingle_size, least):
        self.shingle_size, self.least, self.pairs = shingle_size, least, []

    def add(self, family):
        sets = [(number, shingle_set(document, self.shingle_size)) for number, document in family]
        for (a, shingles_a), (b, shingles_b) in itertools.combinations(sets, 2):
            similarity = jaccard(shingles_a, shingles_b)
            if similarity >= self.least:
                self.pairs.append((a, b, similarity))


def same(draw, options):
    language = Language(draw)
    text = language.text(language.pieces(TEXT_WORDS))
    return itertools.repeat(text, options.documents)


def footer(draw, options):
    language = Language(draw)
    shared = language.text(draw.permutation(WORDS)[: options.footer])
    first, step = (int(number) for number in draw.integers(1 << 36, size=2))
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
    places = 26 ** np.arange(8)
    for number in range(options.documents):
        # An odd factor permutes the numbers below 2^37, and 26^8 > 2^37, so no word comes twice.
        words = first + np.arange(number * options.body, (number + 1) * options.body)
        words = words * (2 * step + 1) & (1 << 37) - 1
        # With q in front they are no words of the language, which has no q.
        spelled = np.full((options.body, 10), ord(" "), np.uint8)
        spelled[:, 0] = ord("q")
        spelled[:, 1:9] = letters[words[:, None] // places % 26]
        yield spelled.tobytes().decode() + shared


def titles(draw, options, report=None):
    # With the exponent 1 two titles of three words agree by chance in 10^-6 of the pairs, which
    # --truth would miss; with 1/2 in 10^-13.
    language = Language(draw, exponent=0.5)

    def edit(title):
        if draw.random() < 0.5:
            return title
        place = draw.integers(len(title))
        if len(title) > 3 and draw.random() < 0.5:
            return np.delete(title, place)
        title = title.copy()
        title[place] = (title[place] + draw.integers(1, WORDS)) % WORDS
        return title

    originals = language.documents(draw.integers(3, 13, options.documents))
    return map(language.text, plant(draw, originals, options.documents, 0.1, edit, report))


def mixed(draw, options, report=None):
    language = Language(draw)

    def edit(document):
        """A quarter are exact; the others lose up to 1 word in 15, and half a tenth of the end."""
        chances = draw.random(4)
        if chances[0] < 0.25:
            return document
        cut = chances[1] * 0.2 if chances[1] < 0.5 else 0
        document = document[: len(document) - int(cut * len(document))].copy()
        places = draw.integers(0, len(document), int(chances[2] * len(document) / 15))
        document[places] = language.pieces(len(places))
        return document

    originals = language.documents(lengths_of_texts(draw, options.documents))
    return map(language.text, plant(draw, originals, options.documents, 0.2, edit, report))


def long(draw, options):
    """Texts, of which the long one is itself an iterator of its parts."""
    language = Language(draw)
    ordinary = map(language.text, language.documents(lengths_of_texts(draw, options.documents)))
    yield from itertools.islice(ordinary, options.documents // 2)
    yield long_text(language, options.bytes)
    yield from ordinary


def long_text(language, size):
    """Yield the parts of a text of this many bytes as they stand in the file."""
    while size > 0:
        part = (language.text(language.pieces(BATCH_WORDS)) + " ")[:size]
        # The last part may end on half of an escape.
        yield part[:-1] + " " if part.endswith("\\") else part
        size -= len(part)


KINDS = {"same": same, "footer": footer, "titles": titles, "mixed": mixed, "long": long}
LEAST_TRUE = {"titles": 1.0, "mixed": 0.0}


def open_output(path):
    """A binary file to write, compressed by its ending; "-" is standard output."""
    if path == "-":
        return nullcontext(sys.stdout.buffer)
    if path.endswith(".gz"):
        # No time and no name in the header, so that equal arguments give equal bytes.
        return gzip.GzipFile(path, "wb", compresslevel=1, mtime=0)
    return bz2.open(path, "wb") if path.endswith(".bz2") else open(path, "wb")


def write_corpus(texts, name, file):
    """Write each text, a string or an iterator of parts, with the name of its number."""
    for number, text in enumerate(texts):
        if isinstance(text, str):
            file.write(f'{{"id": "{name(number)}", "text": "{text}"}}\n'.encode())
        else:
            file.write(f'{{"id": "{name(number)}", "text": "'.encode())
            for part in text:
                file.write(part.encode())
            file.write(b'"}\n')


def parse_options(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("documents", type=int, metavar="N", help="number of documents")
    parser.add_argument("output", metavar="OUT", help="file, maybe .gz or .bz2; - is standard output")
    parser.add_argument("--truth", metavar="FILE", help="file for the planted pairs: titles, mixed")

    def add_number(option, default, help):
        parser.add_argument(option, type=int, default=default, help=f"{help} (default {default})")

    add_number("--seed", 1, "of every random choice")
    add_number("--shingle-size", 5, "words in a shingle of --truth")
    add_number("--body", 150, "footer: words that each document has for itself")
    add_number("--footer", 600, "footer: words that all documents share")
    add_number("--bytes", 100_000_000, "long: length of the long text as it stands in the file")
    options = parser.parse_args(arguments)
    for option in ("seed", "body", "footer"):
        if getattr(options, option) < 0:
            parser.error(f"--{option} must be 0 or more, got {getattr(options, option)}")
    positive = {"N": options.documents, "--bytes": options.bytes}
    positive["--shingle-size"] = options.shingle_size
    for option, number in positive.items():
        if number < 1:
            parser.error(f"{option} must be a positive number, got {number}")
    if options.footer > WORDS:
        parser.error(f"--footer must be at most {WORDS}, got {options.footer}")
    if options.truth and options.kind not in LEAST_TRUE:
        parser.error(f"--truth must come with {' or '.join(LEAST_TRUE)}, got {options.kind}")
    return options


def main():
    options = parse_options()
    draw = np.random.default_rng(options.seed)
    width = len(str(options.documents))

    def name(number):
        return f"d{number:0{width}}"

    if options.truth:
        truth = Truth(options.shingle_size, LEAST_TRUE[options.kind])
        texts = KINDS[options.kind](draw, options, truth.add)
    else:
        texts = KINDS[options.kind](draw, options)
    try:
        with open_output(options.output) as file:
            write_corpus(texts, name, file)
        if options.truth:
            with open(options.truth, "w", newline="\n") as file:
                file.writelines(
                    f"{name(a)}\t{name(b)}\t{similarity}\n" for a, b, similarity in sorted(truth.pairs)
                )
    except OSError as error:
        sys.exit(f"make_corpus.py: {error}")


if __name__ == "__main__":
    main()
