import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dragoman.config import Config, CorpusSettings, DataSettings, TokenizerSettings
from dragoman.data import prepare as prepare_module
from dragoman.data.batching import epoch_batches
from dragoman.data.mixing import MixedPairs
from dragoman.data.prepare import PreparedData, Requirements, epoch_encoder, mix_corpora, prepare
from dragoman.data.store import IDENTITY, PairStore
from dragoman.data.stream import BatchStream, StepPlan
from dragoman.errors import ConfigError, DataError
from dragoman.records import SentencePair
from dragoman.text.corpus.corpus import Corpora, Corpus
from dragoman.text.corpus.opening import open_aligned
from dragoman.text.lexicon import learn_tried_lexicon
from dragoman.text.tokenization.encoding import RaggedIds
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizers

CONFIG = Config(data=DataSettings(dev_fraction=0.1, max_held_out=7), tokenizer=TokenizerSettings(vocab_size=300))


def write_corpus(folder: Path, pairs: list[tuple[str, str]], name: str = "train") -> None:
    for place, side in enumerate(("en", "de")):
        (folder / f"{name}.{side}").write_text("".join(pair[place] + "\n" for pair in pairs), encoding="utf-8")


def corpora_in(folder: Path) -> Corpora:
    train, dev, test = (
        open_aligned(folder / f"{name}.en", folder / f"{name}.de") if (folder / f"{name}.en").exists() else None
        for name in ("train", "dev", "test")
    )
    assert train is not None
    return Corpora((train,), dev, test)


def texts(store: PairStore, tokenizers: TokenizerPair) -> list[tuple[str, str]]:
    return [
        (
            tokenizers.src.detokenize(store.src_ids(index).tolist()),
            tokenizers.tgt.detokenize(store.tgt_ids(index).tolist()),
        )
        for index in range(len(store))
    ]


@pytest.fixture
def pairs() -> list[tuple[str, str]]:
    return [(f"the number {number} is here", f"die Zahl {number} ist hier") for number in range(100)]


@pytest.fixture
def folder(tmp_path: Path, pairs: list[tuple[str, str]]) -> Path:
    write_corpus(tmp_path, pairs)
    return tmp_path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the folders written since the test started."""
    names: list[str] = []
    for function in ("write_store", "write_folder"):
        original = getattr(prepare_module, function)

        def recorded(folder: Path, *rest: object, original: object = original, **named: object) -> object:
            names.append(folder.name)
            assert callable(original)
            return original(folder, *rest, **named)

        monkeypatch.setattr(prepare_module, function, recorded)
    return names


def test_every_pair_is_in_training_or_held_out(folder: Path, pairs: list[tuple[str, str]]) -> None:
    prepared = prepare(CONFIG, corpora_in(folder), folder / "data")
    assert prepared.test is None
    assert prepared.dev is not None
    assert len(prepared.dev) == 7
    train, dev = (texts(store, prepared.tokenizers) for store in (prepared.train, prepared.dev))
    assert sorted([*train, *dev]) == sorted(pairs)
    assert [(prepared.dev.src_text(i), prepared.dev.tgt_text(i)) for i in range(7)] == dev
    assert (prepared.cleaning.read, prepared.cleaning.kept) == (100, 93)
    assert prepared.cleaning.dropped["held out for validation or test"] == 7


def test_nothing_is_made_twice(folder: Path, made: list[str]) -> None:
    first = prepare(CONFIG, corpora_in(folder), folder / "data")
    assert sorted(made) == ["dev", "lexicon", "tokenizer", "train"]
    made.clear()
    second = prepare(CONFIG, corpora_in(folder), folder / "data")
    assert made == []
    assert second.cleaning == first.cleaning
    assert texts(second.train, second.tokenizers) == texts(first.train, first.tokenizers)


def test_another_seed_holds_out_and_learns_the_same(folder: Path, made: list[str]) -> None:
    prepare(CONFIG, corpora_in(folder), folder / "data")
    made.clear()
    prepare(replace(CONFIG, train=replace(CONFIG.train, seed=2)), corpora_in(folder), folder / "data")
    assert made == []


def test_a_corpus_that_only_moved_is_not_prepared_again(
    folder: Path, pairs: list[tuple[str, str]], made: list[str]
) -> None:
    prepare(CONFIG, corpora_in(folder), folder / "data")
    made.clear()
    (folder / "moved").mkdir()
    write_corpus(folder / "moved", pairs)
    prepare(CONFIG, corpora_in(folder / "moved"), folder / "data")
    assert made == []


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (replace(CONFIG, data=replace(CONFIG.data, max_tokens=20)), {"tokenizer", "train", "dev"}),
        (replace(CONFIG, tokenizer=replace(CONFIG.tokenizer, vocab_size=270)), {"tokenizer", "train", "dev"}),
        (replace(CONFIG, tokenizer=replace(CONFIG.tokenizer, bpe_dropout=0.1)), {"train"}),
        (replace(CONFIG, data=replace(CONFIG.data, test_fraction=0.05)), {"tokenizer", "train", "dev", "test"}),
        (replace(CONFIG, train=replace(CONFIG.train, learning_rate=1.0)), set()),
    ],
)
def test_a_setting_that_matters_has_the_stores_made_again(
    folder: Path, made: list[str], config: Config, expected: set[str]
) -> None:
    prepare(CONFIG, corpora_in(folder), folder / "data")
    made.clear()
    prepare(config, corpora_in(folder), folder / "data")
    assert set(made) == expected | ({"lexicon"} if expected else set())


def test_a_changed_corpus_is_prepared_again(folder: Path, pairs: list[tuple[str, str]], made: list[str]) -> None:
    prepare(CONFIG, corpora_in(folder), folder / "data")
    made.clear()
    write_corpus(folder, [*pairs[:-1], ("the number 99 is hers", "die Zahl 99 ist hier")])
    prepared = prepare(CONFIG, corpora_in(folder), folder / "data")
    assert set(made) == {"tokenizer", "train", "lexicon", "dev"}
    assert prepared.cleaning.read == 100


def test_the_lexicon_is_that_of_the_stored_pairs_and_a_damaged_one_is_learned_again(
    folder: Path, made: list[str]
) -> None:
    prepared = prepare(CONFIG, corpora_in(folder), folder / "data")
    sides = (prepared.train.src_ids, prepared.train.tgt_ids)
    src, tgt = (RaggedIds.of([ids(row).tolist() for row in range(93)]) for ids in sides)
    tokenizers = prepared.tokenizers
    lexicon, coverage = learn_tried_lexicon(src, tgt, (tokenizers.src.vocab_size, tokenizers.tgt.vocab_size))
    expected = lexicon.to_bytes()
    made.clear()
    for _ in range(2):
        again = prepare(CONFIG, corpora_in(folder), folder / "data")
        assert (again.lexicon.to_bytes(), again.coverage) == (expected, coverage)
        assert not made
    (folder / "data" / "lexicon" / "lexicon.safetensors").write_bytes(expected[:-8])
    assert prepare(CONFIG, corpora_in(folder), folder / "data").lexicon.to_bytes() == expected
    assert made == ["lexicon"]


def test_a_damaged_store_is_made_again(folder: Path, made: list[str]) -> None:
    prepare(CONFIG, corpora_in(folder), folder / "data")
    made.clear()
    os.truncate(folder / "data" / "train" / "src.u2", 10)
    assert prepare(CONFIG, corpora_in(folder), folder / "data").cleaning.kept == 93
    assert made == ["train"]


def test_validation_files_keep_every_line(folder: Path, pairs: list[tuple[str, str]]) -> None:
    lines = [("", ""), (pairs[3][0], "x " * 500), pairs[3], pairs[3]]
    write_corpus(folder, lines, "dev")
    write_corpus(folder, pairs[:2], "test")
    prepared = prepare(CONFIG, corpora_in(folder), folder / "data")
    assert prepared.dev is not None
    assert prepared.test is not None
    assert texts(prepared.dev, prepared.tokenizers) == lines
    assert texts(prepared.test, prepared.tokenizers) == pairs[:2]
    assert pairs[3] not in texts(prepared.train, prepared.tokenizers)
    assert prepared.cleaning.kept == 97


def test_given_tokenizers_are_used(folder: Path, made: list[str]) -> None:
    first = prepare(CONFIG, corpora_in(folder), folder / "data")
    other = replace(CONFIG, tokenizer=replace(CONFIG.tokenizer, vocab_size=280))
    second = prepare(other, corpora_in(folder), folder / "other", first.tokenizers)
    assert second.tokenizers is first.tokenizers
    assert "tokenizer" not in made[3:]


def test_a_corpus_of_which_nothing_is_left_says_which_rules_took_it(folder: Path) -> None:
    strict = replace(CONFIG, data=replace(CONFIG.data, max_tokens=1))
    with pytest.raises(
        DataError, match=r"all 100 pairs .*held out for validation or test: 7, longer than max_tokens: 93"
    ):
        prepare(strict, corpora_in(folder), folder / "data")


def test_bpe_dropout_gives_other_ids_for_the_same_text(folder: Path) -> None:
    config = replace(CONFIG, tokenizer=replace(CONFIG.tokenizer, bpe_dropout=0.5))
    prepared: PreparedData = prepare(config, corpora_in(folder), folder / "data")
    encode = epoch_encoder(prepared.train, prepared.tokenizers, config)
    assert encode is not None
    for index in range(len(prepared.train)):
        src, tgt = encode(index, 0)
        assert prepared.tokenizers.src.detokenize(src) == prepared.train.src_text(index)
        assert prepared.tokenizers.tgt.detokenize(tgt) == prepared.train.tgt_text(index)
    assert encode(5, 1) == encode(5, 1) != encode(5, 2)
    with BatchStream(prepared.train, StepPlan(200, 200, seed=1), encode=encode) as stream:
        assert next(stream).num_tgt_tokens > 0


def test_augmented_text_has_bpe_dropout_too(folder: Path) -> None:
    data, tokenizer = replace(CONFIG.data, augment_noise=1.0), replace(CONFIG.tokenizer, bpe_dropout=0.9)
    config = replace(CONFIG, data=data, tokenizer=tokenizer)
    prepared = prepare(config, corpora_in(folder), folder / "data")
    encode = epoch_encoder(prepared.train, prepared.tokenizers, config)
    assert encode is not None
    tokenizer_of_src = prepared.tokenizers.src
    drawn = {index: encode(index, 0)[0] for index in range(len(prepared.train))}
    texts = {index: tokenizer_of_src.detokenize(ids) for index, ids in drawn.items()}
    changed = [index for index, text in texts.items() if text != prepared.train.src_text(index)]
    assert len(changed) > 30
    assert all(list(drawn[index]) != tokenizer_of_src.encode(texts[index]) for index in changed)


def test_progress_is_reported(folder: Path) -> None:
    stages: list[tuple[str, int]] = []
    prepare(CONFIG, corpora_in(folder), folder / "data", progress=lambda stage, pairs: stages.append((stage, pairs)))
    assert {passed for _, passed in stages[:-1]} == {100}
    assert np.unique([stage for stage, _ in stages]).size == 4
    assert stages[-1] == ("learning the lexicon", 93)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first file of each corpus that is read, once per read."""
    names: list[str] = []
    original = Corpus.pairs

    def pairs(self: Corpus) -> Iterator[SentencePair]:
        names.append(self.paths[0].stem)
        yield from original(self)

    monkeypatch.setattr(Corpus, "pairs", pairs)
    return names


def test_the_text_is_read_once_for_the_held_out_pairs_the_tokenizer_and_the_ids(
    folder: Path, readings: list[str]
) -> None:
    prepared = prepare(CONFIG, corpora_in(folder), folder / "data")
    assert readings == ["train"] * 3
    prepare(CONFIG, corpora_in(folder), folder / "other", prepared.tokenizers)
    assert readings == ["train"] * 5


def test_pairs_that_were_counted_are_not_counted_again(
    folder: Path, pairs: list[tuple[str, str]], readings: list[str]
) -> None:
    write_corpus(folder, pairs[:9], "dev")
    corpora = corpora_in(folder)
    assert corpora.train[0].count() == 100
    readings.clear()
    prepared = prepare(CONFIG, corpora, folder / "data")
    assert readings.count("train") == 2
    write_corpus(folder, [(f"old {src}", tgt) for src, tgt in pairs], "old")
    replay = open_aligned(folder / "old.en", folder / "old.de")
    assert replay.count() == 100
    readings.clear()
    prepare(CONFIG, replace(corpora, replay=replay), folder / "data", prepared.tokenizers)
    assert sorted(readings) == ["dev", "dev", "old", "train"]


@pytest.mark.parametrize("held_out", [0.1, 0.0])
def test_a_vocabulary_is_learnt_from_a_share_spread_over_the_corpus(
    folder: Path, held_out: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt_from: list[str] = []
    original = train_tokenizers

    def train(settings: TokenizerSettings, src: object, tgt: object) -> TokenizerPair:
        joined = list(src)  # type: ignore[call-overload]
        learnt_from.extend(line for texts in joined for line in texts.split("\n"))
        return original(settings, joined, tgt)  # type: ignore[arg-type]

    monkeypatch.setattr(prepare_module, "train_tokenizers", train)
    config = replace(
        CONFIG,
        data=replace(CONFIG.data, dev_fraction=held_out),
        tokenizer=replace(CONFIG.tokenizer, max_pairs=20, min_frequency=1),
    )
    prepare(config, corpora_in(folder), folder / "data")
    numbers = sorted(
        {int("".join(filter(str.isdigit, word))) for word in " ".join(learnt_from).split() if word.isdigit()}
    )
    assert 15 <= len(numbers) <= 20
    assert numbers[0] < 10
    assert numbers[-1] >= 90
    assert max(later - earlier for earlier, later in pairwise(numbers)) <= 16


def test_replay_pairs_are_mixed_in_by_their_share_and_never_those_of_the_replay_test(folder: Path) -> None:
    write_corpus(folder, [(f"an old thing {number}", f"ein altes Ding {number}") for number in range(300)], "old")
    write_corpus(folder, [(f"an old thing {number}", f"ein altes Ding {number}") for number in range(0, 300, 3)], "ask")
    replay, replay_test = (open_aligned(folder / f"{name}.en", folder / f"{name}.de") for name in ("old", "ask"))
    corpora = replace(corpora_in(folder), replay=replay, replay_test=replay_test)
    tokenizers = train_tokenizers(CONFIG.tokenizer, ["an old thing ein altes Ding the number is here"] * 3, [])
    config = replace(CONFIG, data=replace(CONFIG.data, replay_share=0.4))
    prepared = prepare(config, corpora, folder / "data", tokenizers)
    assert [one.cleaning.read for one in prepared.corpora] == [100, 300]
    numbers = [int(src.split()[-1]) for src, _ in texts(prepared.train, tokenizers) if src.startswith("an old")]
    assert sorted(numbers) == [number for number in range(300) if number % 3]
    mixed = mix_corpora(prepared, config)
    assert isinstance(mixed, MixedPairs)
    seen = [(mixed.choose(1, epoch)[0] >= 93).sum() for epoch in range(3)]
    assert seen == [62] * 3  # 40 % of 93 + 62 pairs
    assert len({index for epoch in range(3) for index in mixed.choose(1, epoch)[0] if index >= 93}) == 3 * 62
    assert prepare(config, corpora, folder / "data", tokenizers).train.key == prepared.train.key
    record = folder / "data" / IDENTITY  # in the format of an earlier version
    record.write_text(record.read_text(encoding="utf-8").replace('"replay_test"', '"old_test"'), encoding="utf-8")
    again = prepare(config, corpora, folder / "data", tokenizers, require=Requirements(same_pairs=True))
    assert (again.train.key, again.late_tests) == (prepared.train.key, ())
    other = replace(CONFIG, data=replace(CONFIG.data, replay_share=0.5))
    more = mix_corpora(prepare(other, corpora, folder / "data", tokenizers), other)
    assert len(epoch_batches(more, 500, 1, 0).order) == 2 * 93


def test_augmented_pairs_differ_by_epoch_follow_from_the_seed_and_stay_short(folder: Path) -> None:
    data = replace(CONFIG.data, augment_case=0.5, augment_noise=0.5, max_tokens=24)
    config = replace(CONFIG, data=data)
    prepared = prepare(config, corpora_in(folder), folder / "data")
    encode = epoch_encoder(prepared.train, prepared.tokenizers, config)
    assert encode is not None

    def epoch(number: int) -> list[tuple[list[int], list[int]]]:
        return [encode(index, number) for index in range(len(prepared.train))]

    assert epoch(0) == epoch(0) != epoch(1)
    stored = [(prepared.train.src_ids(i).tolist(), prepared.train.tgt_ids(i).tolist()) for i in range(93)]
    unchanged = sum(one == other for one, other in zip(epoch(0), stored, strict=True))
    assert 10 < unchanged < 60
    assert any("THE NUMBER" in prepared.tokenizers.src.detokenize(src) for src, _ in epoch(0))
    assert all(len(side) <= 24 for pair in epoch(0) for side in pair)
    assert epoch_encoder(prepared.train, prepared.tokenizers, CONFIG) is None


def several(folder: Path, *weights: float, **first: object) -> tuple[Config, Corpora]:
    """Corpora "a", "b", ... in a folder, with weights; `first` has more settings of the first one."""
    names = "abcdef"[: len(weights)]
    corpora = [
        CorpusSettings(src=str(folder / f"{name}.en"), tgt=str(folder / f"{name}.de"), weight=weight)
        for name, weight in zip(names, weights, strict=True)
    ]
    corpora[0] = replace(corpora[0], **first)  # type: ignore[arg-type]
    opened = tuple(open_aligned(folder / f"{name}.en", folder / f"{name}.de") for name in names)
    return replace(CONFIG, corpora=tuple(corpora)), Corpora(opened, None, None)


def numbered(name: str, count: int, start: int = 0) -> list[tuple[str, str]]:
    return [(f"the {name} {number} is here", f"die {name} {number} ist hier") for number in range(start, start + count)]


def test_the_heavier_corpus_keeps_a_pair_and_each_holds_out_pairs_of_its_own(tmp_path: Path) -> None:
    write_corpus(tmp_path, [*numbered("old", 300), *numbered("new", 100)], "a")
    write_corpus(tmp_path, numbered("new", 200), "b")
    config, corpora = several(tmp_path, 1.0, 2.5)
    prepared = prepare(config, corpora, tmp_path / "data")
    heavy, light = prepared.corpora
    assert [one.name for one in (heavy, light)] == ["b.en and b.de", "a.en and a.de"]
    assert (heavy.cleaning.read, light.cleaning.read) == (200, 400)
    assert heavy.cleaning.dropped["repeated pair"] == 0
    kept = light.cleaning.dropped["repeated pair"] + light.cleaning.dropped["source also in validation or test"]
    assert kept >= 100 - 5  # the pairs of both corpora are kept in the heavier one
    stored = texts(prepared.train, prepared.tokenizers)
    assert all(src.startswith("the new") for src, _ in stored[: heavy.cleaning.kept])
    assert all(src.startswith("the old") for src, _ in stored[heavy.cleaning.kept :])
    assert len(stored) == len(set(stored)) == heavy.cleaning.kept + light.cleaning.kept
    assert prepared.own is not None
    assert prepared.dev is not None
    assert [one.num_own for one in prepared.corpora] == [4, 8]  # 2 %
    own, dev = (texts(store, prepared.tokenizers) for store in (prepared.own, prepared.dev))
    assert all(src.startswith("the new") for src, _ in own[:4])
    assert len({*own, *dev, *stored}) == len(own) + len(dev) + len(stored)  # no pair is in two of them
    again = prepare(config, corpora, tmp_path / "data")
    assert [(one.name, one.cleaning, one.num_own) for one in again.corpora] == [
        (one.name, one.cleaning, one.num_own) for one in prepared.corpora
    ]
    other, _ = several(tmp_path, 2.0, 1.0)
    assert prepare(other, corpora, tmp_path / "data").corpora[0].name == "a.en and a.de"


def test_one_corpus_in_a_list_is_prepared_like_one_without(tmp_path: Path) -> None:
    write_corpus(tmp_path, numbered("old", 100), "a")
    config, corpora = several(tmp_path, 2.0)
    listed, alone = prepare(config, corpora, tmp_path / "1"), prepare(CONFIG, corpora, tmp_path / "2")
    assert listed.corpora == ()
    assert texts(listed.train, listed.tokenizers) == texts(alone.train, alone.tokenizers)
    assert mix_corpora(listed, config) is listed.train


def test_equal_weights_train_on_what_one_file_has(tmp_path: Path) -> None:
    write_corpus(tmp_path, numbered("old", 60), "a")
    write_corpus(tmp_path, numbered("new", 60), "b")
    write_corpus(tmp_path, numbered("new", 9, 500), "dev")
    config, corpora = several(tmp_path, 1.0, 1.0)
    dev = open_aligned(tmp_path / "dev.en", tmp_path / "dev.de")
    prepared = prepare(config, replace(corpora, dev=dev), tmp_path / "data")
    steps = epoch_batches(mix_corpora(prepared, config), 200, 3, 1)
    assert np.array_equal(steps.order, epoch_batches(prepared.train, 200, 3, 1).order)


def test_rules_and_control_tokens_belong_to_one_corpus(tmp_path: Path) -> None:
    write_corpus(tmp_path, numbered("old", 100), "a")
    write_corpus(tmp_path, numbered("new", 100), "b")
    config, corpora = several(tmp_path, 1.0, 1.0, max_tokens=5, tag="legal", synthetic="src")
    prepared = prepare(config, corpora, tmp_path / "data")
    assert prepared.tokenizers.src.controls == ("<tag:legal>", "<bt>")
    strict, free = prepared.corpora
    assert strict.cleaning.dropped["longer than max_tokens"] > 0
    assert free.cleaning.dropped["longer than max_tokens"] == 0
    assert prepared.dev is not None
    assert {src.split()[1] for src, _ in texts(prepared.dev, prepared.tokenizers)} == {"new"}  # no back-translation
    mixed = mix_corpora(prepared, config)
    assert isinstance(mixed, MixedPairs)
    size = prepared.tokenizers.src.vocab_size
    assert [one.controls for one in mixed.corpora] == [(size - 2, size - 1), ()]


def test_a_corpus_without_a_pair_of_its_own_is_named(tmp_path: Path) -> None:
    write_corpus(tmp_path, numbered("old", 100), "a")
    write_corpus(tmp_path, numbered("old", 50), "b")
    config, corpora = several(tmp_path, 1.0, 1.0)
    with pytest.raises(
        DataError, match=r"No training pair is left in `corpora\[1\]` \(.*b.en and .*b.de\): .*repeated"
    ):
        prepare(config, corpora, tmp_path / "data")
    assert not (tmp_path / "data" / "train").exists()
    write_corpus(tmp_path, [("", "die Zahl"), (" ", "das Haus")], "b")
    with pytest.raises(DataError, match=r"left in `corpora\[1\]` .*a side is empty: 2"):
        prepare(config, corpora, tmp_path / "data")


def test_a_model_to_start_from_must_know_the_tags(tmp_path: Path) -> None:
    write_corpus(tmp_path, numbered("old", 100), "a")
    config, corpora = several(tmp_path, 1.0, tag="legal")
    tokenizers = train_tokenizers(CONFIG.tokenizer, ["the old is here die ist hier 0123456789"] * 3, [])
    with pytest.raises(ConfigError, match=r"`corpora\[0\].tag` needs the control token <tag:legal>"):
        prepare(config, corpora, tmp_path / "data", tokenizers)
    known = tokenizers.with_controls(["<tag:legal>"])
    assert prepare(config, corpora, tmp_path / "data", known).tokenizers is known


def test_forty_corpora(tmp_path: Path) -> None:
    for number in range(40):
        write_corpus(tmp_path, numbered(f"thing{number}", 10), f"c{number}")
    names = [str(tmp_path / f"c{number}") for number in range(40)]
    settings = tuple(CorpusSettings(src=f"{name}.en", tgt=f"{name}.de", weight=1 + n) for n, name in enumerate(names))
    opened = tuple(open_aligned(f"{name}.en", f"{name}.de") for name in names)
    config = replace(CONFIG, corpora=settings)
    prepared = prepare(config, Corpora(opened, None, None), tmp_path / "data")
    assert [one.name for one in prepared.corpora][:2] == ["c39.en and c39.de", "c38.en and c38.de"]
    assert len(epoch_batches(mix_corpora(prepared, config), 500, 1, 0).order) == pytest.approx(
        len(prepared.train), abs=20
    )


def test_small_corpora_keep_their_pairs_and_synthetic_ones_do_not_shrink_the_validation(tmp_path: Path) -> None:
    write_corpus(tmp_path, numbered("real", 1000), "a")
    write_corpus(tmp_path, numbered("made", 3000), "b")
    write_corpus(tmp_path, numbered("few", 5), "c")
    config, corpora = several(tmp_path, 1.0, 1.0, 1.0)
    settings = list(config.corpora)
    settings[1] = replace(settings[1], synthetic="src")
    data = replace(config.data, dev_fraction=0.02, max_held_out=20)
    prepared = prepare(replace(config, corpora=tuple(settings), data=data), corpora, tmp_path / "data")
    assert prepared.dev is not None
    assert len(prepared.dev) == 20
    assert {one.name[0]: one.cleaning.kept for one in prepared.corpora}["c"] == 5
    config, corpora = several(tmp_path, 1.0)
    write_corpus(tmp_path, numbered("two", 5), "a")
    write_corpus(tmp_path, numbered("few", 5), "b")
    config, corpora = several(tmp_path, 1.0, 1.0)
    config = replace(config, data=replace(config.data, dev_fraction=0.02))
    with pytest.raises(DataError, match="too few pairs to hold some out for validation"):
        prepare(config, corpora, tmp_path / "other")


def test_the_layout_of_a_corpus_belongs_to_its_pairs(tmp_path: Path) -> None:
    write_corpus(tmp_path, numbered("old", 60), "a")
    write_corpus(tmp_path, numbered("new", 60), "b")
    config, corpora = several(tmp_path, 1.0, 1.0)
    key = prepare(config, corpora, tmp_path / "data").train.key
    other, _ = several(tmp_path, 1.0, 1.0, columns="2,1")
    assert prepare(other, corpora, tmp_path / "data").train.key != key
    staged, _ = several(tmp_path, 1.0, 1.0, until=0.5, tag="legal")
    assert prepare(staged, corpora, tmp_path / "data").train.key == key


def test_corpora_that_are_all_synthetic_need_a_validation_file(tmp_path: Path) -> None:
    write_corpus(tmp_path, numbered("old", 60), "a")
    write_corpus(tmp_path, numbered("new", 60), "b")
    write_corpus(tmp_path, numbered("dev", 9), "dev")
    config, corpora = several(tmp_path, 1.0, 1.0)
    config = replace(config, corpora=tuple(replace(one, synthetic="src") for one in config.corpora))
    dev = open_aligned(tmp_path / "dev.en", tmp_path / "dev.de")
    prepared = prepare(config, replace(corpora, dev=dev), tmp_path / "data")
    assert prepared.dev is not None
    assert len(prepared.dev) == 9
