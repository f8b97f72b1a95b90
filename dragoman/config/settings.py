"""The definition of every setting: default, range and help text, in one frozen dataclass per TOML table.

`load_config` reads TOML files, then flags, and checks the whole. The result never changes. Every run and every model
folder has the resolved configuration.
"""

from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal, TypeVar


def setting(
    default: Any, help: str, *, minimum: float | None = None, maximum: float | None = None, above: float | None = None
) -> Any:
    """A dataclass field with its help text and its range: ``minimum <= value <= maximum`` and ``value > above``."""
    return field(default=default, metadata={"help": help, "minimum": minimum, "maximum": maximum, "above": above})


CORPORA = ("train", "dev", "test", "replay", "replay_test")
"""The corpora of [data]. Each is one file with both sides (``dev``), or two files (``dev_src``, ``dev_tgt``)."""
MOST_ENTRIES = 10_000_000
"""The largest vocabulary: ten times that of the largest models."""
CORPUS_FILES = tuple(f"{corpus}{side}" for corpus in CORPORA for side in ("", "_src", "_tgt"))
"""The settings of [data] that are files."""
CORPUS_KEYS = frozenset(f"data.{name}" for name in CORPUS_FILES)
"""The same as keys, such as data.train."""


@dataclass(frozen=True, slots=True)
class DataSettings:
    """[data]: where the parallel text is and how it is cleaned."""

    train: str = setting("", "one file with both sides: .tsv, .csv, .jsonl or .tmx, plain or .gz")
    train_src: str = setting("", "source side of two aligned files, plain or .gz")
    train_tgt: str = setting("", "target side of two aligned files, plain or .gz")
    dev: str = setting(
        "", "validation data, one file with both sides; without it a part of the training data is held out"
    )
    dev_src: str = setting("", "source side of the validation data")
    dev_tgt: str = setting("", "target side of the validation data")
    test: str = setting("", "test data, one file with both sides; scored once, after training")
    test_src: str = setting("", "source side of the test data")
    test_tgt: str = setting("", "target side of the test data")
    src_lang: str = setting("", "source language, code or name; from the file names or the data where empty")
    tgt_lang: str = setting("", "target language, code or name; from the file names or the data where empty")
    columns: str = setting(
        "", "source and target column of tables, such as 2,3; names of their header or keys of JSON lines work too"
    )
    header: Literal["auto", "yes", "no"] = setting(
        "auto", "whether the first row of tables is a header, which is skipped; auto: stop where it looks like one"
    )
    encoding: str = setting("", "encoding of the files that are not UTF-8, such as windows-1250")
    check_languages: bool = setting(
        True, "stop where a file is clearly in another language than src_lang and tgt_lang say"
    )
    dev_fraction: float = setting(
        0.02, "share of the training data held out for validation where no dev file is given", minimum=0.0, maximum=0.5
    )
    test_fraction: float = setting(
        0.0, "share of the training data held out for a test where no test file is given", minimum=0.0, maximum=0.5
    )
    max_held_out: int = setting(1000, "at most so many pairs are held out for validation, and for a test", minimum=1)
    max_tokens: int = setting(128, "training pairs with a longer side (in tokens) are left out", minimum=1)
    max_length_ratio: float = setting(
        4.0,
        "pairs whose longer side has more than this many times the tokens of the shorter (plus 5) are left out",
        minimum=1.0,
    )
    drop_duplicates: bool = setting(True, "exact repetitions of a pair are left out of the training data")
    augment_case: float = setting(
        0.0,
        "share of the pairs shown in another case in an epoch: half of them in capitals on both sides, half with the "
        "source in lower case",
        minimum=0.0,
        maximum=1.0,
    )
    augment_punctuation: float = setting(
        0.0, "share of the pairs shown without their final dot on both sides", minimum=0.0, maximum=1.0
    )
    augment_noise: float = setting(
        0.0,
        "share of the pairs shown with typing errors in the source, one in some 20 letters",
        minimum=0.0,
        maximum=1.0,
    )
    replay: str = setting(
        "", "fine-tuning: a file of what the model was trained on before, mixed in so that it remembers"
    )
    replay_src: str = setting("", "source side of the replay data")
    replay_tgt: str = setting("", "target side of the replay data")
    replay_share: float = setting(
        0.3, "share of the training pairs that are replay data, where a file of it is given", above=0.0, maximum=0.95
    )
    replay_test: str = setting(
        "", "fine-tuning: a test of what the model was trained on before, scored with the model before and after"
    )
    replay_test_src: str = setting("", "source side of the replay test")
    replay_test_tgt: str = setting("", "target side of the replay test")


@dataclass(frozen=True, slots=True)
class TokenizerSettings:
    """[tokenizer]: how text becomes ids."""

    kind: Literal["bpe", "unigram", "word", "sentencepiece"] = setting(
        "bpe", "subwords by merges, subwords by a unigram model, or words; sentencepiece: only as imported"
    )
    vocab_size: int = setting(
        8000, "entries of the vocabulary, control tokens and bytes included", minimum=8, maximum=MOST_ENTRIES
    )
    joint: bool = setting(True, "one vocabulary for both languages; false: one a side")
    byte_fallback: bool = setting(
        False, "bpe only: characters never seen become bytes; false: byte level, exact for any string"
    )
    max_pairs: int = setting(
        500_000, "the vocabulary is learnt from at most so many pairs, spread evenly over the corpus; 0: all", minimum=0
    )
    min_frequency: int = setting(
        2, "word and bpe: pairs or words seen less often are not taken into the vocabulary", minimum=1
    )
    bpe_dropout: float = setting(
        0.0, "share of the merges skipped at random while training (Provilkov et al. 2020)", minimum=0.0, maximum=0.9
    )


_PRESET_COLUMNS = ("d_model", "d_ff", "num_heads", "num_encoder_layers", "num_decoder_layers", "dropout")
_PRESET_ROWS = {
    "tiny": (128, 256, 4, 4, 4, 0.3),
    "small": (256, 1024, 4, 4, 4, 0.2),
    # "Attention Is All You Need", table 3, rows base and big.
    "base": (512, 2048, 8, 6, 6, 0.1),
    "big": (1024, 4096, 16, 6, 6, 0.3),
    "custom": (256, 1024, 4, 4, 4, 0.2),
}
Settings = TypeVar("Settings")


def _fill_from_preset(settings: type[Settings]) -> type[Settings]:
    """Let the named preset give the values that are not given."""
    set_all = settings.__init__

    @wraps(set_all)
    def fill_and_set(self: Settings, **given: Any) -> None:
        row = _PRESET_ROWS.get(given.get("preset", "small"), ())
        set_all(self, **{**dict(zip(_PRESET_COLUMNS, row, strict=False)), **given})

    settings.__init__ = fill_and_set  # type: ignore[assignment, method-assign]
    return settings


@_fill_from_preset
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """[model]: the shape of the Transformer. A preset fills what is not given."""

    preset: Literal["tiny", "small", "base", "big", "custom"] = setting(
        "small", "tiny, small, or the paper's base and big"
    )
    d_model: int = setting(256, "width of embeddings and layers", minimum=2, maximum=1 << 16)
    d_ff: int = setting(1024, "inner width of the feed-forward layers", minimum=1, maximum=1 << 20)
    num_heads: int = setting(4, "attention heads; must divide d_model", minimum=1, maximum=1 << 16)
    num_encoder_layers: int = setting(4, "encoder layers", minimum=1, maximum=1000)
    num_decoder_layers: int = setting(4, "decoder layers", minimum=1, maximum=1000)
    dropout: float = setting(
        0.2, "dropout on embeddings and on every sublayer's output (section 5.4)", minimum=0.0, maximum=0.95
    )
    attention_dropout: float = setting(0.0, "dropout on attention weights", minimum=0.0, maximum=0.95)
    activation_dropout: float = setting(0.0, "dropout inside the feed-forward layers", minimum=0.0, maximum=0.95)
    norm_first: bool = setting(
        True, "layer norm before each sublayer (Xiong et al. 2020); false: after it, as in the paper"
    )
    activation: Literal["relu", "gelu", "swish"] = setting("relu", "activation of the feed-forward layers")
    positions: Literal["sinusoidal", "learned", "marian"] = setting(
        "sinusoidal", "how positions are encoded (section 3.5); marian: all sines, then all cosines, as in its models"
    )
    max_positions: int = setting(512, "learned positions only: the longest sequence in tokens", minimum=2)
    tie: Literal["all", "decoder", "none"] = setting(
        "all",
        "embeddings shared: source, target and projection (section 3.4; "
        "needs a joint vocabulary), target and projection, or none",
    )
    attention_bias: bool = setting(True, "biases in the attention projections")
    projection_bias: bool = setting(True, "a bias in the projection to the vocabulary")


PRESETS: dict[str, ModelSettings] = {name: ModelSettings(preset=name) for name in _PRESET_ROWS}  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """[train]: the optimiser, its schedule, and when to stop."""

    start_from: str = setting(
        "", "a model folder or a run (--from): training begins with its weights and tokeniser instead of anew"
    )
    batch_tokens: int = setting(
        4096, "target tokens in one optimiser step, whatever fits into memory at once", minimum=1
    )
    micro_batch_tokens: int = setting(
        0,
        "padded tokens computed at once; 0: as many as is fast on the device. Changes memory, speed and what dropout "
        "draws; the gradient of a step only where BPE dropout or augmentation makes a pair longer than this",
        minimum=0,
    )
    threads: int = setting(
        0,
        "CPU only: threads that compute shares of a step side by side; 0: one a processor, at most 4, when it begins. "
        "Changes speed, and of the result only what dropout draws",
        minimum=0,
        maximum=256,
    )
    compile: bool = setting(
        False, "compile encoder and decoder with torch.compile: some minutes at the start, worth it on a GPU"
    )
    sharding: Literal["none", "full"] = setting(
        "none",
        "several processes: each has the whole model, or full: weights, gradients and optimiser are spread over them "
        "(FSDP2), for models that do not fit into one GPU",
    )
    max_steps: int = setting(0, "stop after so many optimiser steps in total; 0: no such limit", minimum=0)
    max_epochs: int = setting(0, "stop after so many passes over the data; 0: no such limit", minimum=0)
    max_minutes: float = setting(
        0.0, "stop after so many minutes of training in total; 0: no such limit", minimum=0.0, maximum=1e9
    )
    patience: int = setting(10, "stop after so many validations without a better score; 0: never", minimum=0)
    schedule: Literal["noam", "inverse_sqrt", "constant", "linear", "cosine"] = setting(
        "inverse_sqrt",
        "noam: the paper's (section 5.3); inverse_sqrt: up to learning_rate, then falling with 1/sqrt(step); "
        "linear, cosine: falling to 0 at max_steps",
    )
    learning_rate: float = setting(0.002, "peak rate; for noam a factor on the paper's rate", above=0.0)
    warmup_steps: int = setting(2000, "steps over which the rate rises linearly", minimum=0)
    optimizer: Literal["adam", "muon"] = setting(
        "adam",
        "muon: Muon (Jordan et al. 2024) for the matrices of encoder and decoder, with updates as large as Adam's so "
        "that learning_rate means the same, and Adam for the rest",
    )
    muon_momentum: float = setting(0.95, "momentum of Muon", minimum=0.0, maximum=0.9999)
    adam_beta1: float = setting(0.9, "Adam's first decay", minimum=0.0, maximum=0.9999)
    adam_beta2: float = setting(0.98, "Adam's second decay", minimum=0.0, maximum=0.999999)
    adam_epsilon: float = setting(1e-9, "Adam's epsilon", above=0.0)
    weight_decay: float = setting(0.0, "decoupled weight decay (AdamW)", minimum=0.0)
    label_smoothing: float = setting(
        0.1, "share of the probability mass spread over the vocabulary (section 5.4)", minimum=0.0, maximum=0.9
    )
    teachers: str = setting(
        "",
        "models or runs with one tokeniser, separated by commas: what they, as an ensemble, say of every target token "
        "of the text is learnt beside it (Kim & Rush 2016, section 3.1)",
    )
    teacher_weight: float = setting(
        0.5, "the teachers' share of what a label says; 1: the text's own tokens count no more", above=0.0, maximum=1.0
    )
    clip_norm: float = setting(1.0, "gradients are scaled down to this norm; 0: never", minimum=0.0)
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto", "auto: bfloat16 where the device has it and it pays"
    )
    device: str = setting("auto", "auto (cuda, mps, cpu) or a device by name")
    seed: int = setting(1, "every random draw follows from it", minimum=0, maximum=2**31 - 1)
    log_every_steps: int = setting(50, "a line of progress and of log.jsonl every so many steps", minimum=1)
    checkpoint_every_steps: int = setting(
        0,
        "save what continues the run every so many steps, besides every validation; 0: at validations only",
        minimum=0,
    )
    keep_checkpoints: int = setting(5, "those of the newest so many validations are kept, and the best", minimum=2)
    average_last: int = setting(
        5, "the weights of the last so many validations' checkpoints are averaged at the end; 0: no average", minimum=0
    )
    average_best: int = setting(
        0, "the same with so many validations' checkpoints that scored best; 0: no such average", minimum=0
    )
    ema_decay: float = setting(
        0.0,
        "a running mean of the weights with this decay a step (0.999) is kept too; of it, the averages and the best "
        "checkpoint the one that scores best becomes the run's model; 0: none",
        minimum=0.0,
        maximum=0.999999,
    )


@dataclass(frozen=True, slots=True)
class ValidateSettings:
    """[validate]: how often and on what the run is judged."""

    every_epochs: int = setting(1, "validate after so many epochs; 0: by steps only", minimum=0)
    every_steps: int = setting(0, "validate after so many steps; 0: by epochs only", minimum=0)
    metric: Literal["chrf", "bleu", "loss"] = setting("chrf", "what picks the best checkpoint and drives patience")
    beam_size: int = setting(1, "beam of the translations scored", minimum=1, maximum=1000)
    max_sentences: int = setting(
        1000, "at most so many validation sentences are translated; the loss uses all", minimum=1
    )


@dataclass(frozen=True, slots=True)
class InferenceSettings:
    """[inference]: how a translation is searched."""

    beam_size: int = setting(5, "hypotheses kept a sentence; 1 is greedy", minimum=1, maximum=1000)
    length_penalty: Literal["paper", "power"] = setting(
        "paper", "paper: ((5 + n) / 6) ** alpha (Wu et al. 2016); power: n ** alpha"
    )
    length_penalty_alpha: float = setting(0.6, "strength of the length penalty; 0: none", minimum=0.0, maximum=10.0)
    max_extra_tokens: int = setting(
        50, "outputs end at so many tokens more than the source has (section 6.1)", minimum=1
    )
    min_tokens: int = setting(
        1, "outputs have at least so many tokens, so that no text vanishes; 0: they may be empty", minimum=0
    )
    n_best: int = setting(1, "candidates given back a sentence; at most beam_size", minimum=1)
    batch_tokens: int = setting(
        4096, "padded source tokens times beam translated at once; changes speed and memory, not the result", minimum=1
    )
    precision: Literal["float32", "bfloat16", "int16", "int8", "auto"] = setting(
        "float32",
        "of matrix products; auto: the fastest that the device has. Below float32, near ties may fall otherwise, in "
        "bfloat16 also with the company a text is translated in; a CPU without bfloat16 takes float32 for it",
    )
    retry_all_caps: bool = setting(
        True,
        "a text all in capitals is translated in sentence case too, and where the model is surer of that, that "
        "translation is given, in capitals",
    )
    sample: bool = setting(
        False, "draw the translation from the model's distribution instead of searching for the best"
    )
    temperature: float = setting(1.0, "sampling: below 1 sharpens the distribution, above 1 flattens it", above=0.0)
    top_k: int = setting(0, "sampling: only the k most probable tokens; 0: all", minimum=0)
    top_p: float = setting(
        1.0, "sampling: only the most probable tokens that together reach this probability", above=0.0, maximum=1.0
    )
    seed: int = setting(1, "sampling: seed of the draws", minimum=0, maximum=2**31 - 1)
    mbr_samples: int = setting(
        0,
        "minimum Bayes risk: draws so many translations and takes the one most like all others by chrF "
        "(Eikema & Aziz 2020); 0: off",
        minimum=0,
        maximum=1024,
    )


WITHOUT_SAMPLING: dict[str, Any] = {"sample": False, "mbr_samples": 0, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
"""The values of InferenceSettings for a search without sampling."""


@dataclass(frozen=True, slots=True)
class Config:
    """All tables of a configuration file."""

    data: DataSettings = DataSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ModelSettings = ModelSettings()
    train: TrainSettings = TrainSettings()
    validate: ValidateSettings = ValidateSettings()
    inference: InferenceSettings = InferenceSettings()
