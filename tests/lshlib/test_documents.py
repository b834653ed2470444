import json

import numpy as np
import pytest

from lshlib.documents import (
    Document,
    Layout,
    RecordError,
    id_json,
    id_keys,
    id_order,
    portable,
    record_keys,
)

TSV = Layout(tsv=True)
BOM = b"\xef\xbb\xbf"
TRICKY_IDS = [
    "",
    "1",
    "01",
    "a",
    "A",
    "é",
    "e\u0301",
    "日本",
    "🚀",
    '"',
    "\\",
    "\n",
    "\0",
    "null",
    "1.0",
    " 1",
    "-1",
]
TRICKY_IDS += [0, 1, -1, 10, 2**63, 2**64, -(2**70)]


def read(record, layout=None):
    line = record if isinstance(record, bytes) else json.dumps(record, ensure_ascii=False).encode()
    return (layout or Layout()).read(line)


def refusal(record, layout=None):
    with pytest.raises(RecordError) as caught:
        read(record, layout)
    return str(caught.value)


# JSON


@pytest.mark.parametrize("id_", TRICKY_IDS, ids=repr)
def test_ids_are_strings_or_integers(id_):
    document = read({"id": id_, "text": "a"})
    assert document == Document(id_, "a", None)
    assert type(document.id) is type(id_)


@pytest.mark.parametrize("text", ["", " ", "a b", "a\nb\tc\r", "\0", "äöü 東京 🚀", "\u2028", "\ufeffa"])
def test_texts_come_as_they_are(text):
    assert read({"id": 1, "text": text}).text == text


@pytest.mark.parametrize(
    "line",
    [
        b'{"id": 1, "text": "a"}',
        b'{"text":"a","id":1,"more":[{},null,1.5,NaN]}',
        b'  {"id": 1, "text": "a"}',
        b'{"id": 1, "text": "a"} \t\r',
        BOM + b'{"id": 1, "text": "a"}',
        b'{"id": 2, "text": "a", "id": 1}',
        b'{"\\u0069d": 1, "text": "\\u0061"}',
    ],
    ids=["plain", "more fields", "indented", "blanks after", "byte order mark", "field twice", "escapes"],
)
def test_any_json_of_a_document_is_read(line):
    assert Layout().read(line) == Document(1, "a", None)


def test_escaped_pairs_of_surrogates_are_one_character():
    assert Layout().read(b'{"id": "\\ud83d\\ude80", "text": "\\uD83D\\uDE80"}')[:2] == ("🚀", "🚀")


@pytest.mark.parametrize(
    "record, message",
    [
        ({"id": "d3"}, 'no "text" in {"id": "d3"}'),
        ({"text": "a"}, 'no "id" in {"text": "a"}'),
        ({}, 'no "id" in {}'),
        ([1], "not a JSON object: [1]"),
        ("a", 'not a JSON object: "a"'),
        (None, "not a JSON object: null"),
        ({"id": None, "text": "a"}, '"id" is neither a string nor an integer in {"id": null, "text": "a"}'),
        ({"id": 1.5, "text": "a"}, '"id" is neither a string nor an integer in {"id": 1.5, "text": "a"}'),
        ({"id": True, "text": "a"}, '"id" is neither a string nor an integer in {"id": true, "text": "a"}'),
        ({"id": [1], "text": "a"}, '"id" is neither a string nor an integer in {"id": [1], "text": "a"}'),
        ({"id": 1, "text": None}, '"text" is not a string in {"id": 1, "text": null}'),
        ({"id": 1, "text": 5}, '"text" is not a string in {"id": 1, "text": 5}'),
        ({"id": 1, "text": ["a"]}, '"text" is not a string in {"id": 1, "text": ["a"]}'),
    ],
    ids=lambda value: json.dumps(value) if not isinstance(value, str) else None,
)
def test_records_that_are_no_documents_are_refused(record, message):
    assert refusal(record) == message


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" ",
        b"{",
        b'{"id": 1, "text": "a"',
        b'{"id": 1, "text": "a"} x',
        b'{"id": 1, "text": "a"}{}',
        b"{'id': 1, 'text': 'a'}",
        b'{"id": 1, "text": "a\0b"}',
        b'{"id": 1, "text": "a\tb"}',
        b'{"id": 1, "text": "a\\x"}',
        b'{"id": 1, "text": "\\ud8"}',
        b"\0",
        BOM,
        BOM + BOM + b'{"id": 1, "text": "a"}',
        b"[" * 100_000,
        b'{"id": 1, "text": "a", "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' * 100_000,
    ],
    ids=lambda line: repr(line[:30]),
)
def test_lines_that_are_no_json_are_refused(line):
    shown = line.decode("utf-8-sig")
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
    message = refusal(line)
    assert message.startswith("not JSON (")
    assert message.endswith(f"): {shown}")


@pytest.mark.parametrize(
    "line, place",
    [
        (b"\xff", 0),
        (b'{"id": 1, "text": "\xe9"}', 19),
        (b'{"id": 1, "text": "\xed\xa0\x80"}', 19),
        (b'{"id": 1, "text": "a\xc3', 20),
    ],
    ids=["no byte of UTF-8", "Latin-1", "a surrogate", "cut"],
)
@pytest.mark.parametrize("layout", [Layout(), TSV], ids=["json", "tsv"])
def test_bytes_that_are_not_utf8_are_refused_with_their_place(layout, line, place):
    message = refusal(line, layout)
    assert message.startswith("not UTF-8: ")
    assert message.endswith(f" at byte {place}")


@pytest.mark.parametrize("surrogate", ["\\ud800", "\\udfff", "\\uDE80\\uD83D", "é\\ud83d"])
@pytest.mark.parametrize("field", ["id", "text"])
def test_lone_surrogates_are_refused(field, surrogate):
    record = json.dumps({"id": "a", "text": "b", field: "?"}).replace("?", surrogate)
    assert refusal(record.encode()) == f"a lone surrogate in {record}"


def test_lone_surrogates_of_other_fields_do_not_matter():
    assert Layout().read(b'{"id": 1, "text": "a", "more": "\\ud800"}').text == "a"


def test_lone_surrogates_of_the_value_field_are_refused():
    line = b'{"id": 1, "text": "a", "date": "\\ud800"}'
    assert refusal(line, Layout(value_field="date")) == f"a lone surrogate in {line.decode()}"


def test_long_records_are_shown_in_part():
    message = refusal({"id": 1, "words": "a" * 1000})
    assert message == 'no "text" in {"id": 1, "words": "' + "a" * 57 + "..."
    assert len(message) == len('no "text" in ') + 80


# fields


def test_fields_may_have_other_names():
    layout = Layout(id_field="url", text_fields=("body",))
    assert read({"url": "u", "body": "b", "id": 1, "text": "t"}, layout) == Document("u", "b", None)
    assert refusal({"id": 1, "text": "t"}, layout) == 'no "url" in {"id": 1, "text": "t"}'


def test_several_texts_are_joined_by_line_breaks_in_the_order_asked_for():
    layout = Layout(text_fields=("title", "body", "title"))
    assert read({"id": 1, "body": "b", "title": "t"}, layout).text == "t\nb\nt"


def test_each_of_several_texts_must_be_a_string():
    layout = Layout(text_fields=("title", "body"))
    assert refusal({"id": 1, "title": "t"}, layout) == 'no "body" in {"id": 1, "title": "t"}'
    assert refusal({"id": 1, "title": "t", "body": 2}, layout).startswith('"body" is not a string in ')


def test_lone_surrogates_of_any_text_are_refused():
    line = b'{"id": 1, "title": "t", "body": "\\ud800"}'
    assert "a lone surrogate" in refusal(line, Layout(text_fields=("title", "body")))


@pytest.mark.parametrize("value", ["", "2024-01-01", 0, -5, 2**70, 0.5, -1e300])
def test_values_are_strings_or_numbers(value):
    assert read({"id": 1, "text": "a", "date": value}, Layout(value_field="date")).value == value


@pytest.mark.parametrize(
    "value", [b"null", b"true", b"NaN", b"Infinity", b"-Infinity", b"1e999", b"[]", b"{}"]
)
def test_values_that_cannot_be_compared_are_refused(value):
    line = b'{"id": 1, "text": "a", "date": ' + value + b"}"
    message = refusal(line, Layout(value_field="date"))
    assert message == f'"date" is neither string nor number in {line.decode()}'


def test_a_record_without_the_value_is_refused():
    message = refusal({"id": 1, "text": "a"}, Layout(value_field="date"))
    assert message == 'no "date" in {"id": 1, "text": "a"}'


# TSV


@pytest.mark.parametrize(
    "line, id_, text",
    [
        (b"d1\tGood night", "d1", "Good night"),
        (b"1\ta\tb\t", "1", "a\tb\t"),
        (b"d1\t", "d1", ""),
        (b"\ttext", "", "text"),
        ("ä\t東京\0".encode(), "ä", "東京\0"),
        (BOM + b"d1\ta", "d1", "a"),
        (b'd1\t{"\\ud800"}', "d1", '{"\\ud800"}'),
    ],
    ids=["plain", "tabs", "no text", "no id", "wide", "byte order mark", "escape"],
)
def test_tsv_is_id_tab_text(line, id_, text):
    assert TSV.read(line) == Document(id_, text, None)


@pytest.mark.parametrize("line", [b"", b"d1 text", BOM])
def test_tsv_without_a_tab_is_refused(line):
    assert refusal(line, TSV) == f"no tab between id and text in {line.decode('utf-8-sig')}"


# keys


def test_record_keys_tell_lines_apart():
    lines = [b"", b" ", b"a", b"b", b"a ", BOM + b"a", "ä".encode(), b"a" * 10_000, b"a" * 10_001]
    keys = record_keys(lines)
    assert (len(set(keys.tolist())), keys.dtype) == (len(lines), np.uint64)


def test_record_keys_depend_on_the_line_alone():
    lines = [b"a", b"b", b"a"]
    assert record_keys(lines).tolist() == [record_keys([line])[0] for line in lines]


def test_record_keys_differ_between_seeds():
    assert record_keys([b"a"], seed=1)[0] != record_keys([b"a"], seed=2)[0]


def test_no_lines_have_no_keys():
    assert (record_keys([]).tolist(), record_keys([]).dtype) == ([], np.uint64)


def test_a_carriage_return_is_a_blank():
    assert portable(b"a\rb\r") == b"a b "
    assert portable(b"a b") == b"a b"
    assert record_keys([b"a\rb"]).tolist() == record_keys([b"a b"]).tolist()


def test_golden_record_keys():
    lines = [b'{"id": "d1", "text": "Good night"}', b"d1\tGood night"]
    assert record_keys(lines).tolist() == [12854030445852993874, 16673360751766630359]


# ids


@pytest.mark.parametrize("seed", [0, 7])
def test_keys_of_ids_tell_them_apart(seed):
    keys = id_keys(TRICKY_IDS, seed)
    assert len(set(keys.tolist())) == len(TRICKY_IDS)


@pytest.mark.parametrize("start", ["", "\0", "\xff", '"'])
def test_no_string_has_the_key_of_an_integer(start):
    assert id_keys([start + "1"])[0] != id_keys([1])[0]


def test_golden_keys_of_ids():
    assert id_keys(["d1", 1]).tolist() == [719885378924453181, 12981324902617904274]


@pytest.mark.parametrize("id_", TRICKY_IDS, ids=repr)
def test_json_of_an_id_is_read_as_the_id(id_):
    data = id_json(id_)
    assert json.loads(data) == id_
    assert b"\n" not in data and b"\t" not in data


def test_json_of_an_id_keeps_its_letters():
    assert id_json("é日🚀") == '"é日🚀"'.encode()


def test_ids_are_ordered_as_integers_and_then_as_strings():
    ids = ["b", "10", 10, "9", 9, "é", -1, "a", "🚀", "\uffff"]
    assert sorted(ids, key=id_order) == [-1, 9, 10, "10", "9", "a", "b", "é", "\uffff", "🚀"]
