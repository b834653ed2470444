"""Options that several jobs share: how documents are read and how their texts become signatures."""

import contextlib
import math
import re

from lshlib.banding import LENGTH_LIMIT, best_choice, describe
from lshlib.documents import Layout
from lshlib.minhash import SIGNATURES
from lshlib.shingles import shingle
from lshlib.texts import tokenize, tokenize_characters

from .errors import JobError
from .inputs import expand


def add_document_options(job):
    """How a line is read, and what of it is compared."""
    group = job.arg_parser.add_argument_group("documents")
    add = _adder(job, group)
    add(
        "--input-format",
        choices=("auto", "jsonl", "tsv"),
        default="auto",
        help="one JSON object a line, or id TAB text; auto goes by the files' names (default: auto)",
    )
    add("--id-field", default="id", metavar="FIELD", help='JSON field with the id (default: "id")')
    add(
        "--text-field",
        action="append",
        metavar="FIELD",
        help='JSON field with the text; given more than once, the texts are joined (default: "text")',
    )
    add(
        "--skip-bad-records",
        action="store_true",
        help="leave bad lines out and list them in skipped/ (without it they stop the run)",
    )


def add_text_options(job):
    """What of a text is compared."""
    group = job.arg_parser.add_argument_group("shingles")
    add = _adder(job, group)
    add(
        "--shingle-size",
        type=int,
        default=5,
        metavar="K",
        help="compare runs of K words or characters (default: 5)",
    )
    add(
        "--shingle-unit",
        choices=("words", "characters"),
        default="words",
        help="what a shingle is made of (default: words)",
    )
    add("--bag", action="store_true", help="count repeated shingles, not only which occur")
    add(
        "--no-normalize",
        action="store_true",
        help="take upper and lower case and the forms of Unicode as different",
    )
    add("--seed", type=int, default=0, help="for all that is random (default: 0)")


def add_signature_options(job):
    """How similar texts are made to meet."""
    group = job.arg_parser.add_argument_group("signatures")
    add = _adder(job, group)
    add(
        "--threshold",
        type=float,
        default=0.8,
        metavar="S",
        help="texts of this Jaccard similarity or more are duplicates (default: 0.8)",
    )
    add(
        "--recall",
        type=float,
        default=0.995,
        metavar="P",
        help="wanted chance to find a pair exactly at the threshold; sets bands and rows (default: 0.995)",
    )
    add("--bands", type=int, metavar="N", help="number of bands, instead of --recall; with --rows")
    add("--rows", type=int, metavar="N", help="numbers of the signature in a band; with --bands")
    add(
        "--signature",
        choices=tuple(SIGNATURES),
        default="fast",
        help="Fast Similarity Sketching, or the textbook's universal hashing (default: fast)",
    )


def add_resolve_options(job):
    """What becomes of candidate pairs."""
    group = job.arg_parser.add_argument_group("pairs and clusters")
    add = _adder(job, group)
    add(
        "--verify",
        choices=("exact", "signature", "none"),
        default="exact",
        help="measure candidate pairs on their shingles, on signatures, or take all (default: exact)",
    )
    add(
        "--keep",
        default="smallest-id",
        metavar="RULE",
        help="the survivor of a cluster: smallest-id, longest, shortest, max:FIELD or min:FIELD; "
        "ties by id (default: smallest-id)",
    )


def add_bucket_cap(job):
    add = _adder(job, job.arg_parser.add_argument_group("buckets"))
    add(
        "--bucket-cap",
        type=int,
        default=20,
        metavar="N",
        help="texts of one bucket that each further one is paired with, at most (default: 20)",
    )


def _adder(job, group):
    """add_argument on a group that also hands the option to every task."""

    def add(*names, **settings):
        action = group.add_argument(*names, **settings)
        job._passthru_arg_dests.add(action.dest)

    return add


def layout(options, value_field=None):
    """The `Layout` of the documents; the input format must be settled by then."""
    tsv = options.input_format == "tsv"
    return Layout(options.id_field, tuple(options.text_field or ("text",)), value_field, tsv)


def settle_format(options, paths):
    """jsonl or tsv, by the names of the files; ValueError where they disagree."""
    if options.input_format == "auto":
        with contextlib.suppress(JobError):  # a path that is none stops the run later
            paths = expand([path for path in paths if path != "-"])
        kinds = {"tsv" if re.search(r"\.tsv(\.gz|\.bz2)?$", path) else "jsonl" for path in paths}
        if len(kinds) > 1:
            raise ValueError("all input files must be of one format, got both .tsv and others")
        options.input_format = kinds.pop() if kinds else "jsonl"


def check_text_options(options):
    """ValueError with one line for the first option that is out of range."""
    _require(options.shingle_size >= 1, "--shingle-size must be at least 1", options.shingle_size)


def check_signature_options(options):
    threshold, recall = options.threshold, options.recall
    _require(0 < threshold <= 1, "--threshold must be above 0 and at most 1", threshold)
    _require(0 < recall < 1, "--recall must be above 0 and below 1", recall)
    for name in ("bands", "rows"):
        value = getattr(options, name)
        _require(value is None or value >= 1, f"--{name} must be at least 1", value)
    if (options.bands is None) != (options.rows is None):
        given = "--bands" if options.rows is None else "--rows"
        raise ValueError(f"--bands and --rows must be given together, got only {given}")
    if options.bands is not None:
        length = options.bands * options.rows
        _require(length <= LENGTH_LIMIT, f"--bands x --rows must be at most {LENGTH_LIMIT}", length)

    for name in ("bucket_cap", "edges_in_memory", "num_cores"):
        value = getattr(options, name, None)
        _require(value is None or value >= 1, f"--{name.replace('_', '-')} must be at least 1", value)


def value_field(options):
    """The field that --keep compares, if any; ValueError for a rule that is none."""
    rule, colon, field = options.keep.partition(":")
    if (rule in ("max", "min") and field) or (rule in ("smallest-id", "longest", "shortest") and not colon):
        if field and options.input_format == "tsv":
            raise ValueError(f"--keep {options.keep} needs JSON documents, got TSV")
        return field or None
    raise ValueError(
        f"--keep must be smallest-id, longest, shortest, max:FIELD or min:FIELD, got {options.keep}"
    )


def arguments(job, dests):
    """The options of a job with these names that differ from their defaults, as a command line."""
    line = []
    for action in job.arg_parser._actions:
        value = getattr(job.options, action.dest, None)
        if action.dest not in dests or value == action.default:
            continue
        name = action.option_strings[0]
        if value is True:
            line.append(name)
        else:
            values = value if isinstance(value, list) else [value]
            line += [f"{name}={value}" for value in values]
    return line


def _require(holds, what, value):
    if not holds or (isinstance(value, float) and math.isnan(value)):
        raise ValueError(f"{what}, got {value}")


def banding(options):
    """The `Choice` of bands and rows that the options ask for."""
    if options.bands is not None:
        return describe(options.threshold, options.bands, options.rows)
    return best_choice(options.threshold, options.recall)


def shingles_of(options, texts):
    """The `Shingles` of a batch of texts."""
    split = tokenize if options.shingle_unit == "words" else tokenize_characters
    tokens = split(texts, normalize=not options.no_normalize)
    return shingle(tokens, options.shingle_size, bag=options.bag)


def signatures_of(options, shingles):
    choice = banding(options)
    return SIGNATURES[options.signature](shingles, choice.length, options.seed)
