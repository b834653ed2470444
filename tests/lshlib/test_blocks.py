import string

import numpy as np
import pytest

from lshlib.blocks import (
    BlockProtocol,
    concatenate,
    deal,
    decode,
    encode,
    is_block,
    main,
    pack,
    take,
    unpack,
)

DTYPES = ["bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8", ">u2", ">u8", ">f8", "S5"]


def column(dtype, count=50):
    bits = np.random.default_rng(1).integers(0, 256, count * 8, dtype=np.uint8)
    if dtype == "bool":
        return bits[:count] > 127
    if dtype == "S5":
        return np.array([b"a%d" % n for n in range(count)], "S5")
    return bits[: count * np.dtype(dtype).itemsize].view(dtype)


def lists(columns):
    return {name: array.tolist() for name, array in columns.items()}


@pytest.mark.parametrize("count", [0, 1, 50])
@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_come_back_with_their_bits(dtype, count):
    array = column(dtype, count)
    result = decode(encode({"key": array}))["key"]
    assert result.dtype == array.dtype.newbyteorder("<")
    assert result.tobytes() == array.astype(result.dtype).tobytes()
    assert len(result) == count


def test_columns_come_back_in_their_order():
    columns = {dtype: column(dtype.strip(">")) for dtype in DTYPES}
    columns = {name.strip(">") + "x": array for name, array in columns.items()}
    result = decode(encode(columns))
    assert list(result) == list(columns)


def test_columns_may_differ_in_length():
    columns = {"count": np.array([2, 1]), "number": np.array([5, 6, 7]), "none": np.zeros(0)}
    assert lists(decode(encode(columns))) == {"count": [2, 1], "number": [5, 6, 7], "none": []}


def test_a_block_without_columns_comes_back():
    assert decode(encode({})) == {}


def test_columns_may_be_views():
    assert lists(decode(encode({"key": np.arange(6)[::2]}))) == {"key": [0, 2, 4]}


def test_what_is_decoded_is_read_only():
    with pytest.raises(ValueError, match="read-only"):
        decode(encode({"key": np.arange(3)}))["key"][0] = 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_block_is_printable_in_one_line(dtype):
    data = encode({"key": column(dtype), "other": column("u1")})
    assert set(data.decode()) <= set(string.ascii_letters + string.digits + "+/=:|<> ")


# lines


def test_a_line_comes_back_as_key_and_columns():
    protocol, columns = BlockProtocol(), {"key": np.array([1, 2**64 - 1], np.uint64)}
    key, result = protocol.read(protocol.write("buckets 3 ü", columns))
    assert key == "buckets 3 ü"
    assert lists(result) == lists(columns)


@pytest.mark.parametrize("value", [b"", b"a\tb = c", "{é: 1}".encode(), b"key:|u1:AQI=", b"=="])
def test_a_line_comes_back_as_key_and_bytes(value):
    protocol = BlockProtocol()
    assert protocol.read(protocol.write("document", value)) == ("document", value)


def test_blocks_are_told_from_documents():
    assert is_block(BlockProtocol().write("key", {"a": np.zeros(0)}))
    documents = [b"", b"{}", b'{"id": "#block "}', b"#blockade\tx", b"#block 1\tone two"]
    assert not any(map(is_block, documents))


def test_a_line_is_golden():
    line = BlockProtocol().write("b 1", {"key": np.array([1, 258], np.uint16), "s": np.array([0.5])})
    assert line == b"#block b 1\tkey:<u2:AQACAQ== s:<f8:AAAAAAAA4D8="


def test_main_prints_a_row_a_line(tmp_path, capsys):
    block = {"key": np.array([5, 6]), "score": np.array([0.5])}
    lines = [BlockProtocol().write("a", block), b'{"id": 1}', BlockProtocol().write("b", {})]
    (tmp_path / "part").write_bytes(b"\n".join(lines) + b"\n")
    main([tmp_path / "part"])
    assert capsys.readouterr().out == "a\tkey=5\tscore=0.5\na\tkey=6\n"


def test_main_prints_bytes_too(tmp_path, capsys):
    (tmp_path / "part").write_bytes(BlockProtocol().write("document", b'{"id": 1}') + b"\n")
    main([tmp_path / "part"])
    assert '{"id": 1}' in capsys.readouterr().out


# rows


def test_concatenated_blocks_have_the_rows_of_all():
    blocks = [{"a": np.array([n]), "b": np.array([n, n])} for n in range(3)]
    assert lists(concatenate(iter(blocks))) == {"a": [0, 1, 2], "b": [0, 0, 1, 1, 2, 2]}


def test_one_block_is_its_own_concatenation():
    assert lists(concatenate([{"a": np.array([3])}])) == {"a": [3]}


def test_no_blocks_are_none():
    assert concatenate(iter([])) is None


@pytest.mark.parametrize(
    "rows", [[0, 2], np.array([True, False, True]), slice(0, 3, 2)], ids=["numbers", "mask", "slice"]
)
def test_rows_are_taken_of_all_columns(rows):
    columns = {"a": np.array([5, 6, 7]), "b": np.array([0.5, 0.6, 0.7])}
    assert lists(take(columns, rows)) == {"a": [5, 7], "b": [0.5, 0.7]}


@pytest.mark.parametrize("dtype", [np.uint64, np.int64, np.uint8])
def test_rows_are_dealt_to_their_numbers(dtype):
    numbers = np.random.default_rng(2).integers(0, 7, 100).astype(dtype)
    columns = {"row": np.arange(100), "number": numbers}
    dealt = list(deal(columns, numbers))
    assert [number for number, _ in dealt] == sorted(set(numbers.tolist()))
    for number, block in dealt:
        assert type(number) is int
        assert block["row"].tolist() == np.flatnonzero(numbers == number).tolist()
        assert set(block["number"].tolist()) == {number}


def test_huge_numbers_are_dealt_exactly():
    numbers = np.array([2**64 - 1, 2**64 - 2, 2**64 - 1], np.uint64)
    assert [number for number, _ in deal({"n": numbers}, numbers)] == [2**64 - 2, 2**64 - 1]


def test_no_rows_are_dealt_to_nobody():
    assert list(deal({"a": np.zeros(0)}, np.zeros(0, np.int64))) == []


@pytest.mark.parametrize(
    "strings",
    [[], [b""], [b"", b""], [b"one", b"", b"two"], [b"\0\n\t", "äß".encode()], [b"x" * 100_000, b"y"]],
)
def test_packed_strings_come_back(strings):
    data, lengths = pack(strings)
    assert (data.dtype, lengths.dtype) == (np.uint8, np.uint32)
    assert unpack(data, lengths) == strings


def test_packed_strings_come_back_from_a_block():
    data, lengths = pack([b"one", b"", b"three"])
    block = decode(encode({"data": data, "length": lengths}))
    assert unpack(block["data"], block["length"]) == [b"one", b"", b"three"]
