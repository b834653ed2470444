import random
import unicodedata

import numpy as np
import pytest

from lshlib.texts import normalized, tokenize, tokenize_characters, words

PIECE = "lshlib.texts._PIECE"


def span(first, last):
    return [chr(code) for code in range(first, last + 1)]


POOLS = {
    "ascii": span(0x00, 0x7F),
    "words": list("abcdefgh      "),
    "latin": span(0xA0, 0x24F) + list("aeiou  "),
    "marks": span(0x300, 0x36F) + list("aeiouAEIOU<=> "),
    "greek": span(0x370, 0x3FF) + span(0x1F00, 0x1FFF) + list(" "),
    "cyrillic": span(0x400, 0x4FF) + list(" "),
    "hebrew and arabic": span(0x590, 0x6FF) + span(0xFB1D, 0xFDFF) + list(" "),
    "indic": span(0x900, 0xDFF) + list(" "),
    "thai and lao": span(0xE00, 0xEFF) + list("ab "),
    "tibetan and burmese": span(0xF00, 0x109F) + list("ab "),
    "khmer": span(0x1780, 0x17FF) + list("ab "),
    "jamo": span(0x1100, 0x11FF) + span(0xA960, 0xA97F) + span(0xD7B0, 0xD7FF) + list("a "),
    "hangul": span(0xAC00, 0xAE00) + span(0x1160, 0x11FF) + span(0x3130, 0x318F) + list("a "),
    "kana": span(0x3000, 0x30FF) + span(0xFF00, 0xFFEF) + list("ab "),
    "han": span(0x4E00, 0x4E60) + span(0xF900, 0xFA20) + span(0x20000, 0x20020) + list("ab ,"),
    "compatibility": span(0xFB00, 0xFB06) + span(0x2100, 0x218F) + span(0x2460, 0x24FF) + list("ab "),
    "plane 1": span(0x1D400, 0x1D4FF) + span(0x10400, 0x1044F) + span(0x1F600, 0x1F64F) + list("ab "),
    "emoji": list("👩🏽\u200d🚀❤\ufe0f🇩🇪a1 "),
    "spaces": span(0x2000, 0x206F) + list("ab\ufeff\u00a0\x85\x00\x1f "),
    "any": [chr(code) for code in range(0x30, 0x30000, 97) if not 0xD800 <= code < 0xE000],
}
POOLS["all"] = [character for pool in POOLS.values() for character in pool[:200]]


def random_texts(pool, seed=0, count=80, longest=60):
    draw = random.Random(f"{pool} {seed}")
    return ["".join(draw.choices(POOLS[pool], k=draw.randrange(longest))) for _ in range(count)]


def characters(text, normalize=True):
    """The plain twin of tokenize_characters."""
    text = normalized(text) if normalize else text
    return " ".join("".join(c if unicodedata.category(c)[0] in "LNM" else " " for c in text).split())


def assert_twins(split, plain, texts, normalize=True):
    """As many tokens a text, and equal hashes just where the tokens are equal."""
    hashes, offsets = split(texts, normalize)
    expected = [plain(text, normalize) for text in texts]
    assert np.diff(offsets).tolist() == list(map(len, expected))
    tokens = [token for row in expected for token in row]
    assert len(hashes) == len(tokens)
    assert len(set(zip(tokens, hashes.tolist()))) == len(set(tokens)) == len(set(hashes.tolist()))


def assert_same(tokens, others):
    assert tokens.offsets.tolist() == others.offsets.tolist()
    assert tokens.hashes.tolist() == others.hashes.tolist()


def hash_of(token):
    hashes = tokenize([token]).hashes
    assert len(hashes) == 1
    return int(hashes[0])


@pytest.fixture(params=[tokenize, tokenize_characters], ids=["words", "characters"])
def split(request):
    return request.param


both = pytest.mark.parametrize(
    "split, plain", [(tokenize, words), (tokenize_characters, characters)], ids=["words", "characters"]
)
normalizing = pytest.mark.parametrize("normalize", [True, False], ids=["normalized", "as it is"])


# the twins


@both
@normalizing
@pytest.mark.parametrize("pool", POOLS)
def test_batches_have_the_tokens_of_the_plain_twin(split, plain, pool, normalize):
    assert_twins(split, plain, random_texts(pool), normalize)


@both
@normalizing
def test_a_batch_of_all_scripts_has_the_tokens_of_the_plain_twin(split, plain, normalize):
    texts = [text for pool in POOLS for text in random_texts(pool, seed=1, count=30)]
    random.Random(2).shuffle(texts)
    assert_twins(split, plain, texts, normalize)


@both
def test_single_characters_between_letters_are_those_of_the_plain_twin(split, plain):
    codes = random.Random(3).sample([*range(0xD800), *range(0xE000, 0x32000)], 4000)
    assert_twins(split, plain, [f"a{chr(code)}b" for code in codes])


@normalizing
@pytest.mark.parametrize("pool", POOLS)
def test_a_text_has_one_result_in_all_batches(split, pool, normalize):
    texts = random_texts(pool, seed=4, count=20)
    hashes, offsets = split(texts, normalize)
    for i, text in enumerate(texts):
        alone = split([text], normalize)
        assert alone.offsets.tolist() == [0, offsets[i + 1] - offsets[i]]
        assert alone.hashes.tolist() == hashes[offsets[i] : offsets[i + 1]].tolist()


@normalizing
@pytest.mark.parametrize("piece", [1, 17])
@pytest.mark.parametrize("pool", POOLS)
def test_texts_cut_into_pieces_are_equal_to_uncut_ones(monkeypatch, split, pool, piece, normalize):
    texts = random_texts(pool, seed=5, count=15, longest=120)
    uncut = split(texts, normalize)
    monkeypatch.setattr(PIECE, piece)
    assert_same(split(texts, normalize), uncut)


def test_a_text_longer_than_a_piece_is_equal_to_its_parts(split):
    text = "Straße " * 20 + "x"
    long = " ".join([text] * 8000)
    hashes, offsets = split([text, long, text])
    once = hashes[: offsets[1]]
    assert hashes[offsets[2] :].tolist() == once.tolist()
    whole = hashes[offsets[1] : offsets[2]]
    assert whole[: len(once)].tolist() == whole[-len(once) :].tolist() == once.tolist()
    assert offsets[2] - offsets[1] == (8000 * 21 if split is tokenize else 8000 * (len(text) + 21) - 1)


@pytest.mark.parametrize("text", ["", "-", "- - -", "\0\0\0"])
def test_long_texts_without_tokens_have_none(monkeypatch, split, text):
    monkeypatch.setattr(PIECE, 2)
    hashes, offsets = split([text * 3, text])
    assert (hashes.tolist(), offsets.tolist()) == ([], [0, 0, 0])


# what a token is


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("snake_case", ["snake", "case"]),
        ("don't stop-gap,e.g.", ["don", "t", "stop", "gap", "e", "g"]),
        ("3.14 + 2nd x86", ["3", "14", "2nd", "x86"]),
        ("a\0b\tc\nd\re\x0bf", ["a", "b", "c", "d", "e", "f"]),
        ("a\u2028b\u00a0c\ufeffd\u200be", ["a", "b", "c", "d", "e"]),
        ("naïve — “Zürich”", ["naïve", "zürich"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("한국어 단어", ["한국어", "단어"]),
        ("🚀to🚀the moon👩\u200d🚀", ["to", "the", "moon"]),
        ("x² ½ Ⅷ", ["x2", "1", "2", "viii"]),
    ],
    ids=[
        "underscore",
        "punctuation",
        "digits",
        "controls",
        "blanks",
        "quotes",
        "marks",
        "hangul",
        "emoji",
        "nfkc",
    ],
)
def test_everything_but_letters_digits_and_marks_separates(text, tokens):
    assert words(text) == tokens
    assert tokenize([text]).hashes.tolist() == list(map(hash_of, tokens))


@pytest.mark.parametrize(
    "text",
    ["東京都", "ひらがな", "カタカナ", "ภาษาไทย", "ພາສາລາວ", "ភាសាខ្មែរ", "မြန်မာ", "ㄅㄆㄇ", "𠀀𠀁"],
    ids=["Chinese", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Burmese", "Bopomofo", "plane 2"],
)
def test_scripts_without_spaces_have_a_token_a_character(text):
    assert words(text) == list(text)
    assert tokenize([text]).offsets.tolist() == [0, len(text)]
    assert words(f"ab{text}cd") == ["ab", *text, "cd"]


def test_half_width_katakana_are_as_the_wide_ones():
    assert tokenize(["ｶﾞｷﾞ"]).hashes.tolist() == tokenize(["ガギ"]).hashes.tolist()


@pytest.mark.parametrize(
    "one, other",
    [
        ("STRASSE", "straße"),
        ("ﬁne ﬂow", "fine flow"),
        ("Ｆｕｌｌ　Ｗｉｄｔｈ", "full width"),
        ("cafe\u0301", "CAFÉ"),
        ("\u1100\u1161\u11a8", "각"),
        ("ΌΔΟΣ", "όδος"),
        ("①②", "12"),
        ("\u0345Α", "\u03b9α"),
        ("q\u0307\u0323", "q\u0323\u0307"),
    ],
    ids=[
        "casefold",
        "ligatures",
        "full width",
        "composed",
        "jamo",
        "sigma",
        "circled",
        "iota",
        "order of marks",
    ],
)
def test_spellings_of_one_text_are_equal_when_normalized(split, one, other):
    assert split([one]).hashes.tolist() == split([other]).hashes.tolist()
    assert split([one], normalize=False).hashes.tolist() != split([other], normalize=False).hashes.tolist()


@pytest.mark.parametrize("pool", POOLS)
def test_normalized_is_settled(pool):
    for text in random_texts(pool, seed=6):
        assert normalized(normalized(text)) == normalized(text)


def test_without_normalizing_upper_case_is_another_token():
    one, other = tokenize(["Night night"], normalize=False).hashes.tolist()
    assert one != other


# batches


def test_no_texts_have_one_offset(split):
    hashes, offsets = split([])
    assert (hashes.tolist(), offsets.tolist()) == ([], [0])


@pytest.mark.parametrize("empty", ["", " ", "\0", "___", "。", "🚀"])
def test_texts_without_tokens_take_no_place(split, empty):
    hashes, offsets = split([empty, "a", empty, empty, "b", empty])
    assert offsets.tolist() == [0, 0, 1, 1, 1, 2, 2]


def test_types_are_uint64_and_int64(split):
    for texts in ([], ["a b"], ["ä b"]):
        hashes, offsets = split(texts)
        assert (hashes.dtype, offsets.dtype) == (np.uint64, np.int64)


def test_lone_surrogates_are_refused(split):
    with pytest.raises(UnicodeEncodeError):
        split(["a \ud800 b"])


def test_tokens_that_differ_in_one_character_have_distinct_hashes():
    """All lengths about those of one load, of several, and of the slow way of long tokens."""
    tokens = set()
    for length in [*range(1, 20), 31, 32, 33, *range(55, 75), 127, 128, 129, 1000]:
        tokens |= {"x" * place + "y" + "x" * (length - 1 - place) for place in range(min(length, 80))}
        tokens.add("x" * length)
    assert len({hash_of(token) for token in tokens}) == len(tokens)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 63, 64, 65, 300])
def test_a_token_is_not_touched_by_its_neighbours(length):
    token = "z" * length
    expected = hash_of(token)
    for text in (f"{token} a", f"a {token}", f"aaaaaaaa {token}-bbbbbbbb", f"é{'é' * 70} {token}"):
        assert expected in tokenize([text, "c"]).hashes.tolist()


def test_blank_is_a_character_between_words_only():
    assert characters(" a  b-") == "a b"
    hashes, offsets = tokenize_characters([" a  b-", "a_b", "ab"])
    assert offsets.tolist() == [0, 3, 6, 8]
    assert hashes[:3].tolist() == hashes[3:6].tolist()


GOLDEN = {
    "a": 6097313137031306388,
    "night": 8595377408030501016,
    "straße": 15486454221283760133,
    "東": 2994772731332930594,
    "internationalization": 14803778706351860096,
    "z" * 70: 3216167370295837772,
}


@pytest.mark.parametrize("token", GOLDEN, ids=[token[:20] for token in GOLDEN])
def test_golden_hashes_of_tokens(token):
    assert hash_of(token) == GOLDEN[token]


def test_golden_hashes_of_characters():
    assert tokenize_characters(["a é東"]).hashes.tolist() == [
        18119689086777206668,
        16294208416658607535,
        7580044024164808114,
        7296884030747865963,
    ]
