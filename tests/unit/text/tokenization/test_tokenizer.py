import copy
import dataclasses
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as LibraryTokenizer

from dragoman.config import TokenizerSettings
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.records import EOS_ID, UNK_ID
from dragoman.text.tokenization.sentencepiece import PieceModel, SentencePieceTokenizer
from dragoman.text.tokenization.tokenizer import (
    Tokenizer,
    TokenizerPair,
    train_tokenizer,
    train_tokenizers,
    vocabulary_notes,
)

KINDS = ["byte_bpe", "fallback_bpe", "unigram", "word"]
SUBWORD_KINDS = KINDS[:3]
TEXTS = ["the house and the garden", "das Haus und der Garten", "the small house, the small garden."] * 5

NASTY = [
    "",
    " ",
    "   two  spaces   ",
    "\x00null\x00",
    "\ufeffmark in \ufeff front",
    "line\u2028and\u2029paragraph\u0085next",
    "a\r\nb\rc\n\n",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪",
    "e\u0301 a\u0308\u0323 \u0301alone",
    "\u202eright to left\u202c \u200fmark",
    "می‌خواهم",
    "日本語、中文。한국어！ไทย",
    "</s>",
    "<pad><s></s><unk>",
    "first\n</s>\nsecond <pad>",
    "</s> </s>\t</s>\u00a0</s>\u2028<s>",
    "<0x41><0xE3>",
    "Ġtoken Ċ",
    "don't 'quoted' l’homme Ankara'da it's",
    "3.14159 ٣٤ ½ ² 12345",
    "x" * 5000,
    "\U0010ffff\ue000\ufffd",
]


@pytest.mark.parametrize("text", NASTY)
def test_byte_level_gives_back_every_text(tokenizer_of, text):
    tokenizer = tokenizer_of("byte_bpe")
    assert tokenizer.detokenize(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", ["fallback_bpe", "unigram"])
@pytest.mark.parametrize("text", [*NASTY, "a\u2581b \u2581"])
def test_byte_fallback_gives_back_every_text_but_for_the_space_mark(tokenizer_of, kind, text):
    tokenizer = tokenizer_of(kind)
    assert tokenizer.detokenize(tokenizer.encode(text)) == text.replace("\u2581", " ")


@pytest.mark.parametrize("kind", SUBWORD_KINDS)
@settings(max_examples=400, deadline=None)
@given(text=st.text() | st.text(alphabet=" <>/sp0x41\n\u2581aĠ'.é日"))
def test_round_trip_of_any_text(tokenizer_of, kind, text):
    tokenizer = tokenizer_of(kind)
    ids = tokenizer.encode(text)
    assert all(UNK_ID < index < tokenizer.vocab_size for index in ids)
    assert tokenizer.detokenize(ids) == (text if kind == "byte_bpe" else text.replace("\u2581", " "))


def test_words_come_back_with_their_spacing(tokenizer_of):
    tokenizer = tokenizer_of("word")
    text = "The house is small, and the garden isn't large."
    assert tokenizer.detokenize(tokenizer.encode(text)) == text


def test_a_word_never_seen_is_unknown(tokenizer_of):
    tokenizer = tokenizer_of("word")
    assert tokenizer.encode("The zebra is small")[1] == UNK_ID
    assert tokenizer.detokenize(tokenizer.encode("The zebra is small")) == "The is small"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["</s>", "a </s> b", "<pad>\n<s>\n</s>\n<unk>", "x</s>", "</s></s>", "\n</s>"])
def test_text_never_becomes_a_control_token(tokenizer_of, tmp_path, kind, text):
    trained = tokenizer_of(kind)
    trained.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    by_the_library_alone = LibraryTokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(text).ids
    for ids in (trained.encode(text), loaded.encode(text), loaded.encode_batch([text])[0], by_the_library_alone):
        assert not {0, 1, EOS_ID} & set(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_control_ids(tokenizer_of, kind):
    assert tokenizer_of(kind).tokens([0, 1, 2, 3]) == ["<pad>", "<s>", "</s>", "<unk>"]
    assert tokenizer_of(kind).detokenize([0, 1, 2, 3]) == ""


@pytest.mark.parametrize("kind", SUBWORD_KINDS)
def test_lone_surrogates_become_the_replacement_character(tokenizer_of, kind):
    tokenizer = tokenizer_of(kind)
    assert tokenizer.detokenize(tokenizer.encode("a\ud83db")) == "a\ufffdb"
    assert tokenizer.encode_batch(["fine", "\ud83d\ude00"]) == [tokenizer.encode("fine"), tokenizer.encode("😀")]


@pytest.mark.parametrize("kind", KINDS)
def test_batch_is_single(tokenizer_of, kind):
    tokenizer = tokenizer_of(kind)
    assert tokenizer.encode_batch(NASTY) == [tokenizer.encode(text) for text in NASTY]


@pytest.mark.parametrize("kind", SUBWORD_KINDS)
def test_digits_stand_alone(tokenizer_of, kind):
    tokenizer = tokenizer_of(kind)
    tokens = tokenizer.tokens(tokenizer.encode("in 1998 it was 1998"))
    assert "".join(tokens).count("9") == 4
    assert all(sum(char.isdigit() for char in token) <= 1 for token in tokens)


def test_a_word_is_the_same_token_first_and_later(tokenizer_of):
    tokenizer = tokenizer_of("byte_bpe")
    assert tokenizer.encode("house house")[-1] == tokenizer.encode("house")[-1]
    assert len(tokenizer.encode("house house")) == 2 * len(tokenizer.encode("house"))


def test_tokens_are_printable(tokenizer_of):
    tokenizer = tokenizer_of("byte_bpe")
    assert "".join(tokenizer.tokens(tokenizer.encode("the house, 日"))).startswith("▁the▁house,▁")
    assert tokenizer.tokens(tokenizer.encode("\U0001f9ff")) == ["▁", "<0xF0>", "<0x9F>", "<0xA7>", "<0xBF>"]


def test_bytes_that_form_no_character_do_not_raise(tokenizer_of):
    for kind in SUBWORD_KINDS:
        tokenizer = tokenizer_of(kind)
        ids = tokenizer.encode("\U0001f9ff")
        assert "\ufffd" in tokenizer.detokenize(ids[:-1])


@pytest.mark.parametrize("kind", KINDS)
def test_vocab_size_is_the_true_size(tokenizer_of, kind):
    tokenizer = tokenizer_of(kind)
    assert len(tokenizer.tokens(range(tokenizer.vocab_size))) == tokenizer.vocab_size
    assert tokenizer.library.id_to_token(tokenizer.vocab_size) is None


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_loaded_is_what_was_saved(tokenizer_of, tmp_path, kind):
    trained = tokenizer_of(kind)
    trained.save(tmp_path / "a.json")
    loaded = Tokenizer.load(tmp_path / "a.json")
    assert (loaded.kind, loaded.vocab_size) == (trained.kind, trained.vocab_size)
    assert loaded.encode_batch(NASTY) == trained.encode_batch(NASTY)
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["model"].get("dropout") is None


def test_training_is_the_same_in_every_process(tmp_path):
    code = (
        "import hashlib; from dragoman.config import TokenizerSettings as S\n"
        "from dragoman.text.tokenization.tokenizer import train_tokenizer\n"
        "texts = [f'the {a}{b} und {b}{a}' for a in 'abcdefg' for b in 'hijklmn'] * 3\n"
        "for s in (S(vocab_size=300), S(vocab_size=320, byte_fallback=True), S(kind='word', vocab_size=40)):\n"
        "    print(hashlib.sha256(train_tokenizer(s, texts).library.to_str().encode()).hexdigest())\n"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout.split()) == 3


def test_pair_joint(tmp_path):
    pair = train_tokenizers(TokenizerSettings(vocab_size=300), TEXTS, TEXTS)
    assert pair.src is pair.tgt
    pair.save(tmp_path)
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.joint
    assert loaded.src is loaded.tgt
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]


def test_pair_one_a_side(tmp_path):
    pair = train_tokenizers(TokenizerSettings(vocab_size=300, joint=False), TEXTS, ["Haus Haus", "Haus"])
    pair.save(tmp_path)
    loaded = TokenizerPair.load(tmp_path)
    assert not loaded.joint
    assert loaded.src.encode("the Haus") == pair.src.encode("the Haus")
    assert loaded.tgt.encode("the Haus") == pair.tgt.encode("the Haus")


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_too_small_is_refused(kind):
    chosen = {"byte_bpe": {}, "fallback_bpe": {"byte_fallback": True}}.get(kind, {"kind": kind})
    with pytest.raises(ConfigError, match=r"`tokenizer.tgt_vocab_size` must be at least \d+ .* but is 4\."):
        train_tokenizer(TokenizerSettings(joint=False, tgt_vocab_size=4, **chosen), TEXTS, "tgt")


def test_a_unigram_vocabulary_without_room_for_the_characters_is_refused():
    texts = ["".join(chr(0x4E00 + 7 * row + column) for column in range(30)) for row in range(20)]
    with pytest.raises(ConfigError, match=r"`tokenizer.vocab_size` is 300, too small for a unigram vocabulary"):
        train_tokenizer(TokenizerSettings(kind="unigram", vocab_size=300), texts)


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_is_at_most_as_large_as_its_maximum_and_the_text_allow(kind):
    chosen = {"byte_bpe": {}, "fallback_bpe": {"byte_fallback": True}}.get(kind, {"kind": kind})
    few = {"byte_bpe": 264, "fallback_bpe": 300, "unigram": 280, "word": 8}[kind]
    settings = TokenizerSettings(vocab_size=9000, tgt_vocab_size=few, joint=False, min_frequency=1, **chosen)
    pair = train_tokenizers(settings, TEXTS, TEXTS)
    assert few < pair.src.vocab_size < 500
    assert pair.tgt.vocab_size == few
    assert list(vocabulary_notes(settings, pair)) == [
        f"the source vocabulary has {pair.src.vocab_size} entries, all that the text supports; "
        "`tokenizer.vocab_size` is a maximum of 9,000"
    ]
    alone = [train_tokenizer(dataclasses.replace(settings, vocab_size=most), TEXTS) for most in (9000, few)]
    for side, same in zip((pair.src, pair.tgt), alone, strict=True):
        assert side.tokens(range(side.vocab_size)) == same.tokens(range(same.vocab_size))


def test_a_joint_vocabulary_has_no_sizes_of_sides():
    with pytest.raises(ConfigError, match=r"^`tokenizer\.tgt_vocab_size` must be 0 if `tokenizer\.joint` is true"):
        train_tokenizers(TokenizerSettings(tgt_vocab_size=300), TEXTS, TEXTS)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_may_be_in_arrays_and_texts_in_any_iterable(tokenizer_of, kind):
    tokenizer = tokenizer_of(kind)
    ids = tokenizer.encode(TEXTS[0])
    for other in (tuple(ids), np.array(ids), np.array(ids, np.uint16), torch.tensor(ids), map(int, ids)):
        assert tokenizer.detokenize(other) == TEXTS[0]
    assert tokenizer.tokens(torch.tensor(ids)) == tokenizer.tokens(ids)
    assert (
        tokenizer.encode_batch(iter(TEXTS))
        == tokenizer.encode_batch(np.array(TEXTS))
        == list(map(tokenizer.encode, TEXTS))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_is_copied_pickled_and_saved_by_a_path_as_text(tokenizer_of, kind, tmp_path):
    tokenizer = tokenizer_of(kind)
    names = tokenizer.tokens(range(tokenizer.vocab_size))
    pair = TokenizerPair(tokenizer, tokenizer, joint=True)
    pair.save(str(tmp_path))
    for same in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(pair).tgt, TokenizerPair.load(str(tmp_path)).src):
        assert (same.tokens(range(same.vocab_size)), same.encode(TEXTS[0])) == (names, tokenizer.encode(TEXTS[0]))


def test_scripts_with_many_characters_leave_room_for_merges():
    texts = ["".join(chr(0x4E00 + place) for place in range(start, start + 40)) for start in range(0, 2000, 40)] * 3
    tokenizer = train_tokenizer(TokenizerSettings(vocab_size=600, byte_fallback=True), texts)
    assert tokenizer.vocab_size <= 600
    assert tokenizer.detokenize(tokenizer.encode(texts[-1])) == texts[-1]


@pytest.mark.parametrize("texts", [[], ["", "  "]])
def test_no_text(texts):
    with pytest.raises(DataError, match="no text"):
        train_tokenizer(TokenizerSettings(), texts)


class TestDamagedFiles:
    @pytest.fixture
    def saved(self, tokenizer_of, tmp_path) -> Path:
        tokenizer_of("byte_bpe").save(tmp_path / "tokenizer.json")
        return tmp_path / "tokenizer.json"

    def refused(self, path: Path, match: str) -> None:
        with pytest.raises(ModelError, match=match) as caught:
            Tokenizer.load(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_missing(self, tmp_path):
        self.refused(tmp_path / "tokenizer.json", "does not exist")

    def test_truncated(self, saved):
        saved.write_bytes(saved.read_bytes()[:1000])
        self.refused(saved, "cannot be read")

    @pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b"null", b"[]", b"{}", b'{"model": 3}'])
    def test_something_else(self, saved, content):
        saved.write_bytes(content)
        self.refused(saved, "tokenizer")

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            (lambda d: d["model"].update(type="WordPiece"), "WordPiece"),
            (lambda d: d["model"].update(type=["BPE"]), "damaged|type"),
            (lambda d: d["model"].update(dropout=0.1), "dropout"),
            (lambda d: d["added_tokens"].append({"id": 0, "content": "the"}), "added tokens"),
            (lambda d: d.update(post_processor={"type": "ByteLevel"}), "post-processor"),
            (lambda d: d.update(normalizer=None), "normalizer"),
            (lambda d: d.update(decoder={"type": "WordPiece"}), "decoder"),
            (lambda d: d["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex="(a+)+$"), "pre_tokenizer"),
            (lambda d: d["model"]["vocab"].update({"<pad>": 1, "<s>": 0}), "control tokens"),
            (lambda d: d["model"]["vocab"].update({"new": 10_000}), "ids"),
            (lambda d: d["model"]["vocab"].update({"new": "x"}), "integers"),
            (lambda d: d["model"]["vocab"].pop("!"), "ids"),
            (lambda d: d["model"]["merges"].append(["a", "never seen"]), "merge"),
            (lambda d: d["model"]["merges"].append("a b"), "merges"),
            (lambda d: d["model"].update(vocab=[1, 2]), "vocabulary"),
        ],
    )
    def test_changed(self, saved, change, match):
        document = json.loads(saved.read_text(encoding="utf-8"))
        change(document)
        saved.write_text(json.dumps(document), encoding="utf-8")
        self.refused(saved, match)

    def test_a_score_that_is_no_number(self, tokenizer_of, tmp_path):
        path = tmp_path / "tokenizer.json"
        tokenizer_of("unigram").save(path)
        document = json.loads(path.read_text(encoding="utf-8"))
        document["model"]["vocab"][300][1] = float("nan")
        path.write_text(json.dumps(document), encoding="utf-8")
        self.refused(path, "scored pieces")


class TestSentencePiece:
    """Tokenizers of imported models. tests/contract/test_marian.py compares them with SentencePiece itself."""

    SCORES = {"▁the": -1, "▁": -2, "house": -2.5, "h": -5, "o": -5, "</": -6, "s": -5.5, ">": -6}
    PIECES = tuple((piece, float(score)) for piece, score in SCORES.items())
    VOCABULARY = ("<pad>", "<s>", "</s>", "<unk>", "▁the", "▁", "house", "h", "</", "s", ">", ">>fra<<", "zebra", "<s>")

    def tokenizer(self, vocabulary=VOCABULARY, **options) -> Tokenizer:
        model = PieceModel("unigram", **({"pieces": self.PIECES} | options))
        return Tokenizer("sentencepiece", SentencePieceTokenizer(model, vocabulary))

    def tokens(self, text: str, **options) -> list[str]:
        tokenizer = self.tokenizer(**options)
        return tokenizer.tokens(tokenizer.encode(text))

    def test_pieces_and_vocabulary_are_two_things(self):
        assert self.tokens("the  house ") == ["▁the", "▁", "house"]
        assert self.tokens("o") == ["▁", "<unk>"], "a piece that the vocabulary lacks"
        assert self.tokens("zebra") == ["▁", "zebra"], "a token that no piece spells"
        assert self.tokens("qq the") == ["▁", "<unk>", "▁the"]

    def test_a_language_before_the_text(self):
        assert self.tokens(">>fra<< the") == [">>fra<<", "▁the"]
        assert self.tokens(">>eng<< the") == ["<unk>", "▁the"]
        assert ">>fra<<" not in self.tokens("the >>fra<<")

    @pytest.mark.parametrize("text", ["</s>", "the </s>", "<s>", "<pad>"])
    def test_text_never_becomes_a_control_token(self, text):
        ids = self.tokenizer().encode(text)
        assert not {0, 1, EOS_ID} & set(ids)

    def test_what_is_shown(self):
        tokenizer = self.tokenizer()
        assert tokenizer.detokenize([2, 4, 5, 6, 3, 13]) == "the house"
        assert tokenizer.detokenize([]) == ""

    def test_bytes(self):
        in_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
        tokenizer = self.tokenizer((*self.VOCABULARY, *in_bytes), byte_fallback=True)
        ids = tokenizer.encode("the é日")
        assert tokenizer.tokens(ids) == ["▁the", "▁", "<0xC3>", "<0xA9>", "<0xE6>", "<0x97>", "<0xA5>"]
        assert tokenizer.detokenize(ids) == "the é日"
        assert tokenizer.detokenize(ids[:-1]) == "the é\ufffd"

    def test_lone_surrogates(self):
        assert self.tokens("the \ud83d") == ["▁the", "▁", "<unk>"]

    def test_saved_and_loaded(self, tmp_path):
        tokenizer = self.tokenizer()
        TokenizerPair(tokenizer, tokenizer, joint=False).save(tmp_path)
        loaded = TokenizerPair.load(tmp_path)
        assert loaded.src.kind == "sentencepiece"
        assert loaded.src.library.to_str() == tokenizer.library.to_str()

    def test_it_is_not_trained(self):
        with pytest.raises(ConfigError, match=r'must be bpe, unigram or word .* but is "sentencepiece"'):
            train_tokenizer(TokenizerSettings(kind="sentencepiece"), TEXTS)

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"vocabulary": ["<pad>", "<s>", "<unk>", "</s>", "a"]}, "first tokens"),
            ({"vocabulary": ["<pad>", "<s>", "</s>", "<unk>", "a", "a"]}, "repeats a token"),
            ({"vocabulary": ["<pad>", "<s>", "</s>", "<unk>"]}, "token"),
            ({"vocabulary": [1, 2]}, "more than text"),
            ({"vocabulary": None}, "not a list"),
            ({"pieces": [["a", -1.0], ["a", -2.0]]}, "repeats a piece"),
            ({"pieces": [["", -1.0]]}, "piece that is empty"),
            ({"pieces": [["a" * 2000, -1.0]]}, "too long"),
            ({"pieces": []}, "piece"),
            ({"pieces": [["a", "b"]]}, "pairs"),
            ({"pieces": [["a", float("nan")]]}, "score"),
            ({"pieces": [["a\ud800", -1.0]]}, "damaged"),
            ({"algorithm": "word"}, "algorithm"),
            ({"byte_fallback": 1}, "options"),
            ({"character_map": "?"}, "damaged"),
            ({"character_map": "AAAAAAAA"}, "character map"),
        ],
    )
    def test_a_file_that_was_changed(self, tmp_path, change, match):
        path = tmp_path / "tokenizer.json"
        self.tokenizer().save(path)
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")
        with pytest.raises(ModelError, match=match) as caught:
            Tokenizer.load(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("settings", [{}, {"byte_fallback": True}, {"kind": "unigram"}, {"kind": "word"}])
def test_characters_that_training_never_saw_are_new(settings: dict[str, object]) -> None:
    text = "The naïve Müller family saw 東京 and 12 trains, twice."
    tokenizer = train_tokenizer(TokenizerSettings(vocab_size=600, **settings), [text] * 30)
    assert not tokenizer.has_new_characters(text)
    assert not tokenizer.has_new_characters("naïve Müller saw 東京")
    assert not tokenizer.has_new_characters("")
    for new in ("Ωmega", "naïve Mülleř", "東亰", "😀"):
        assert tokenizer.has_new_characters(new), new


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("joint", [True, False])
def test_control_tokens_follow_the_vocabulary_and_no_text_becomes_one(tokenizer_of, kind, joint, tmp_path):
    plain = tokenizer_of(kind)
    pair = TokenizerPair(plain, plain, True) if joint else TokenizerPair(plain, tokenizer_of(kind), False)
    pair = pair.with_controls(["<tag:legal>", "<bt>"])
    size = plain.vocab_size
    assert pair.src.vocab_size == size + 2
    assert pair.tgt.vocab_size == (size + 2 if joint else size)
    assert pair.src.tags == ("legal",)
    assert (pair.src.tag_ids("legal"), pair.src.tag_ids(""), pair.src.control_id("<bt>")) == ([size], [], size + 1)
    assert pair.src.tokens([size, size + 1]) == ["<tag:legal>", "<bt>"]
    assert pair.src.detokenize([size, *plain.encode("the house"), size + 1]) == plain.detokenize(
        plain.encode("the house")
    )
    for text in [*NASTY, "<tag:legal> the house", "<bt>", "▁<tag:legal>"]:
        assert pair.src.encode(text) == plain.encode(text)
        assert max(pair.src.encode(text), default=0) < size
    pair.save(tmp_path)
    again = TokenizerPair.load(tmp_path)
    assert again.src.controls == ("<tag:legal>", "<bt>")
    assert again.same_as(pair)
    assert not again.same_as(TokenizerPair(plain, plain, True))
    assert pickle.loads(pickle.dumps(again.src)).controls == again.src.controls


def test_an_unknown_tag_is_refused_with_those_that_exist(tokenizer_of):
    plain = tokenizer_of("byte_bpe")
    with pytest.raises(
        ConfigError, match=r"`inference.tag` \(`--tag`\) is 'x', but the model has no tags. Leave it out"
    ):
        plain.tag_ids("x")
    known = Tokenizer(plain.kind, plain.library, ["<tag:legal>", "<tag:news>", "<bt>"])
    with pytest.raises(ConfigError, match=r"but the model has no such tag. Choose one of legal, news, or none"):
        known.tag_ids("bt")


@pytest.mark.parametrize("controls", [3, "x", [1], ["a", "a"], ["a\n"], [""], ["x" * 65], ["a"] * 1001, {"a": 1}])
def test_control_tokens_of_a_file_are_not_trusted(tokenizer_of, tmp_path, controls):
    path = tmp_path / "tokenizer.json"
    tokenizer_of("byte_bpe").save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"control_tokens": controls}))
    with pytest.raises(ModelError, match="control_tokens are not"):
        Tokenizer.load(path)
