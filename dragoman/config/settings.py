"""The definition of every setting: default, range and help text, in one frozen dataclass per TOML table.

`load_config` fills these classes from TOML files and flags. Each run and each model folder stores all settings in its
``config.toml``. Section numbers in help texts refer to "Attention Is All You Need" (Vaswani et al. 2017).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from typing import Any, Literal, TypeVar

from dragoman.config.fields import Setting, describe_table, did_you_mean
from dragoman.config.names import name_hint
from dragoman.errors import ConfigError


def setting(
    default: Any, help: str, *, minimum: float | None = None, maximum: float | None = None, above: float | None = None
) -> Any:
    """A dataclass field with its help text and its range: ``minimum <= value <= maximum`` and ``value > above``.

    The help text starts with a noun or a verb and ends without a full stop. The command line adds the default.
    """
    return field(default=default, metadata={"help": help, "minimum": minimum, "maximum": maximum, "above": above})


Settings = TypeVar("Settings")


SETTINGS: dict[str, Setting] = {}
"""All settings by key, such as ``train.max_steps``, in the order of their definition."""


def settings_of(table: str) -> list[Setting]:
    """The settings of a table, in the order of their definition."""
    return [setting for setting in SETTINGS.values() if setting.table == table]


def settings_table(table: str, registry: dict[str, Setting] = SETTINGS) -> Callable[[type[Settings]], type[Settings]]:
    """Add the settings of a class to `registry` and to its docstring, and check names and values of new objects."""

    def add_checks(table_class: type[Settings]) -> type[Settings]:
        settings = {setting.name: setting for setting in describe_table(table, table_class)}
        registry.update({setting.key: setting for setting in settings.values()})
        lines = [f"{name}\n    {setting.help}." for name, setting in settings.items()]
        table_class.__doc__ = "\n".join([str(table_class.__doc__), "", "Parameters", "----------", *lines])
        set_all = table_class.__init__

        @wraps(set_all)
        def set_checked(self: Settings, *values: Any, **given: Any) -> None:
            for name in [each for each in given if each not in settings]:
                keys = [setting.key for setting in settings.values()]
                hint = name_hint(name, keys, lambda key: key.partition(".")[2]) or did_you_mean(name, settings)
                hint = hint or f" See `help(dragoman.{table_class.__name__})`."
                raise ConfigError(f"`{name}` is not a setting of [{table}].{hint}")
            set_all(self, *values, **given)
            for name, setting in settings.items():
                if (value := getattr(self, name)) is not setting.default:  # which `replace` passes too
                    object.__setattr__(self, name, setting.check(value, f"`{setting.key}`"))

        table_class.__init__ = set_checked  # type: ignore[assignment, method-assign]
        return table_class

    return add_checks


CORPORA = ("train", "dev", "test", "replay", "replay_test")
"""The corpora of [data]. Each is one file with both sides (``dev``) or two aligned files (``dev_src``, ``dev_tgt``)."""
MOST_ENTRIES = 10_000_000
"""The largest allowed vocabulary: ten times the vocabularies of the largest models."""
CORPUS_FILES = tuple(f"{corpus}{side}" for corpus in CORPORA for side in ("", "_src", "_tgt"))
"""The settings of [data] that name a file."""
CORPUS_KEYS = frozenset(f"data.{name}" for name in CORPUS_FILES)
"""The keys of `CORPUS_FILES`, such as ``data.train``."""


@settings_table("data")
@dataclass(frozen=True, slots=True)
class DataSettings:
    """[data]: the parallel text, and how to clean it.

    Each epoch applies the ``augment_`` settings to another random share of the pairs.
    """

    train: str = setting("", "File with both sides: .tsv, .csv, .jsonl or .tmx, plain or .gz")
    train_src: str = setting("", "Source side of two aligned files, plain or .gz")
    train_tgt: str = setting("", "Target side of two aligned files, plain or .gz")
    dev: str = setting("", "Validation file with both sides; if unset, part of the training data")
    dev_src: str = setting("", "Source side of the validation data")
    dev_tgt: str = setting("", "Target side of the validation data")
    test: str = setting("", "Test file with both sides; scored once, after training")
    test_src: str = setting("", "Source side of the test data")
    test_tgt: str = setting("", "Target side of the test data")
    src_lang: str = setting("", "Source language, code or name; if unset, from file names or data")
    tgt_lang: str = setting("", "Target language, code or name; if unset, from file names or data")
    columns: str = setting("", "Source and target column of a table: 2,3 or header names or JSON keys")
    header: Literal["auto", "yes", "no"] = setting(
        "auto", "Skip the first row of tables; auto: stop if it looks like a header"
    )
    encoding: str = setting("", "Encoding of files that are not UTF-8, such as windows-1250")
    check_languages: bool = setting(True, "Stop if a file is clearly not in src_lang or tgt_lang")
    dev_fraction: float = setting(
        0.02, "Share of the training data held out for validation if no dev file is set", minimum=0.0, maximum=0.5
    )
    test_fraction: float = setting(
        0.0, "Share of the training data held out for a test if no test file is set", minimum=0.0, maximum=0.5
    )
    max_held_out: int = setting(1000, "Maximum number of pairs held out for validation, and for a test", minimum=1)
    max_tokens: int = setting(128, "Maximum number of tokens on one side of a training pair", minimum=1)
    max_length_ratio: float = setting(
        4.0, "Maximum ratio of the longer to the shorter side in tokens, with 5 to spare", minimum=1.0
    )
    drop_duplicates: bool = setting(True, "Drop exact duplicates of training pairs")
    augment_case: float = setting(
        0.0,
        "Share of pairs with changed case: half in capitals, half with a lowercase source",
        minimum=0.0,
        maximum=1.0,
    )
    augment_punctuation: float = setting(
        0.0, "Share of pairs without the final full stop on both sides", minimum=0.0, maximum=1.0
    )
    augment_noise: float = setting(
        0.0, "Share of pairs with typing errors in the source, about 1 in 20 letters", minimum=0.0, maximum=1.0
    )
    replay: str = setting("", "Fine-tuning: file with earlier training data, mixed in against forgetting")
    replay_src: str = setting("", "Source side of the replay data")
    replay_tgt: str = setting("", "Target side of the replay data")
    replay_share: float = setting(0.3, "Share of replay data in the training pairs", above=0.0, maximum=0.95)
    replay_test: str = setting("", "Fine-tuning: test of the earlier domain, scored before and after")
    replay_test_src: str = setting("", "Source side of the replay test")
    replay_test_tgt: str = setting("", "Target side of the replay test")


CORPUS_SETTINGS: dict[str, Setting] = {}
"""The settings of one of several corpora by key, such as ``corpora.weight``."""


@settings_table("corpora", CORPUS_SETTINGS)
@dataclass(frozen=True, slots=True)
class CorpusSettings:
    """[[corpora]]: one of the corpora of a run that has several.

    `from_` is ``from`` in TOML files.
    """

    data: str = setting("", "File with both sides: .tsv, .csv, .jsonl or .tmx, plain or .gz")
    src: str = setting("", "Source side of two aligned files, plain or .gz")
    tgt: str = setting("", "Target side of two aligned files, plain or .gz")
    weight: float = setting(1.0, "How often a pair is taken, relative to the pairs of other corpora", above=0.0)
    tag: str = setting("", "Name of a domain or style, which `--tag` requests in translations")
    synthetic: Literal["", "src"] = setting("", "src: the sources are translations by a machine (back-translation)")
    from_: float = setting(0.0, "Share of the run before the corpus is used", minimum=0.0, maximum=0.99)
    until: float = setting(1.0, "Share of the run after which the corpus is left out", above=0.0, maximum=1.0)
    columns: str = setting("", "Source and target column of a table; if unset, those of [data]")
    header: Literal["", "auto", "yes", "no"] = setting("", "Whether a table has a header; if unset, that of [data]")
    encoding: str = setting("", "Encoding of files that are not UTF-8; if unset, that of [data]")
    max_tokens: int = setting(0, "Maximum number of tokens on one side of a pair; 0: that of [data]", minimum=0)
    max_length_ratio: float = setting(0.0, "Maximum ratio of the lengths of both sides; 0: that of [data]", minimum=0.0)

    @property
    def files(self) -> tuple[str, ...]:
        """The file, or both aligned files."""
        return (self.data,) if self.data else (self.src, self.tgt)


@settings_table("tokenizer")
@dataclass(frozen=True, slots=True)
class TokenizerSettings:
    """[tokenizer]: how text becomes ids."""

    kind: Literal["bpe", "unigram", "word", "sentencepiece"] = setting(
        "bpe", "Subwords (bpe, unigram) or whole words; sentencepiece: imported models only"
    )
    vocab_size: int = setting(
        8000,
        "Maximum vocabulary size, with control tokens and bytes, without tags",
        minimum=8,
        maximum=MOST_ENTRIES,
    )
    src_vocab_size: int = setting(
        0, "Maximum size of the source vocabulary, if not joint; 0: vocab_size", minimum=0, maximum=MOST_ENTRIES
    )
    tgt_vocab_size: int = setting(
        0, "Maximum size of the target vocabulary, if not joint; 0: vocab_size", minimum=0, maximum=MOST_ENTRIES
    )
    joint: bool = setting(True, "Share one vocabulary between both languages")
    byte_fallback: bool = setting(
        False, "bpe: encode unknown characters as bytes; false: byte-level BPE, exact for any text"
    )
    max_pairs: int = setting(
        500_000, "Maximum number of pairs to learn from, spread evenly over the corpus; 0: all", minimum=0
    )
    min_frequency: int = setting(
        2, "Minimum count of a word, or of a merged pair (bpe), to enter the vocabulary", minimum=1
    )
    bpe_dropout: float = setting(
        0.0, "Share of merges skipped at random in training (Provilkov et al. 2020)", minimum=0.0, maximum=0.9
    )

    def vocab_size_of(self, side: str) -> tuple[str, int]:
        """The maximum size of a vocabulary, and the name of the setting that limits it.

        Parameters
        ----------
        side
            "src", "tgt", or "" for a joint vocabulary.

        Returns
        -------
        tuple of (str, int)
        """
        name = f"{side}_vocab_size" if side and getattr(self, f"{side}_vocab_size") else "vocab_size"
        return name, getattr(self, name)


_PRESET_COLUMNS = ("d_model", "d_ff", "num_heads", "num_encoder_layers", "num_decoder_layers", "dropout")
_PRESET_ROWS = {
    "tiny": (128, 256, 4, 4, 4, 0.3),
    "small": (256, 1024, 4, 4, 4, 0.2),
    # "Attention Is All You Need", table 3, rows base and big.
    "base": (512, 2048, 8, 6, 6, 0.1),
    "big": (1024, 4096, 16, 6, 6, 0.3),
    "custom": (256, 1024, 4, 4, 4, 0.2),
}


def _fill_from_preset(settings: type[Settings]) -> type[Settings]:
    """Take the values of the preset for all arguments that are left out."""
    set_all = settings.__init__

    @wraps(set_all)
    def fill_and_set(self: Settings, **given: Any) -> None:
        row = _PRESET_ROWS.get(str(given.get("preset", "small")), ())
        set_all(self, **{**dict(zip(_PRESET_COLUMNS, row, strict=False)), **given})

    settings.__init__ = fill_and_set  # type: ignore[assignment, method-assign]
    return settings


@_fill_from_preset
@settings_table("model")
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """[model]: the shape of the Transformer. The preset gives the sizes that you leave out."""

    preset: Literal["tiny", "small", "base", "big", "custom"] = setting(
        "small", "Model size; base and big are the paper's"
    )
    d_model: int = setting(256, "Width of embeddings and layers", minimum=2, maximum=1 << 16)
    d_ff: int = setting(1024, "Inner width of the feed-forward layers", minimum=1, maximum=1 << 20)
    num_heads: int = setting(4, "Attention heads; must divide d_model", minimum=1, maximum=1 << 16)
    num_encoder_layers: int = setting(4, "Encoder layers", minimum=1, maximum=1000)
    num_decoder_layers: int = setting(4, "Decoder layers", minimum=1, maximum=1000)
    dropout: float = setting(
        0.2, "Dropout rate of embeddings and sublayer outputs (section 5.4)", minimum=0.0, maximum=0.95
    )
    attention_dropout: float = setting(0.0, "Dropout rate of attention weights", minimum=0.0, maximum=0.95)
    activation_dropout: float = setting(0.0, "Dropout rate inside the feed-forward layers", minimum=0.0, maximum=0.95)
    norm_first: bool = setting(
        True, "Layer norm before each sublayer (Xiong et al. 2020); false: after, as in the paper"
    )
    activation: Literal["relu", "gelu", "swish"] = setting("relu", "Activation of the feed-forward layers")
    positions: Literal["sinusoidal", "learned", "marian"] = setting(
        "sinusoidal", "Position encoding (section 3.5); marian: all sines before all cosines"
    )
    max_positions: int = setting(512, "Longest sequence in tokens, for learned positions", minimum=2)
    tie: Literal["all", "decoder", "none"] = setting(
        "all", "Embeddings tied to the output projection; all needs a joint vocabulary"
    )
    attention_bias: bool = setting(True, "Biases in the attention projections")
    projection_bias: bool = setting(True, "Bias in the output projection, which training starts with token frequencies")

    @property
    def position_limit(self) -> int | None:
        """The most positions of a sequence. None without learned positions: then there is no limit."""
        return self.max_positions if self.positions == "learned" else None

    def longest_text(self, most: int) -> int:
        """The most tokens of a text for which the model has positions, with one for eos.

        Parameters
        ----------
        most
            The result if the model has more positions, or no limit.

        Returns
        -------
        int
        """
        return most if self.position_limit is None else min(most, self.max_positions - 1)


PRESETS: dict[str, ModelSettings] = {name: ModelSettings(preset=name) for name in _PRESET_ROWS}  # type: ignore[arg-type]


@settings_table("train")
@dataclass(frozen=True, slots=True)
class TrainSettings:
    """[train]: the optimizer, its schedule, and when to stop.

    The best checkpoint, the averages and the running mean (`ema_decay`) are compared at the end. The one with the best
    validation score becomes the model of the run.

    `micro_batch_tokens` and `threads` change speed and memory. They change the result only through the random numbers
    of dropout, and through pairs that BPE dropout or augmentation makes longer than `micro_batch_tokens`.
    """

    start_from: str = setting("", "Model folder or run to fine-tune: training starts from its weights and tokenizer")
    batch_tokens: int = setting(4096, "Target tokens per optimizer step, independent of memory", minimum=1)
    micro_batch_tokens: int = setting(
        0, "Padded tokens computed at once; lower it to save memory. 0: chosen for speed", minimum=0
    )
    threads: int = setting(
        0,
        "CPU threads or processes that compute a step in parallel; 0: one per processor, at most 4",
        minimum=0,
        maximum=256,
    )
    compile: bool = setting(False, "Use torch.compile: minutes at the start, faster steps on a GPU")
    sharding: Literal["none", "full"] = setting(
        "none", "Spread weights, gradients and optimizer over all processes (full, FSDP2), for large models"
    )
    max_steps: int = setting(0, "Maximum number of optimizer steps in total; 0: no limit", minimum=0)
    max_epochs: int = setting(0, "Maximum number of passes over the data; 0: no limit", minimum=0)
    max_minutes: float = setting(0.0, "Maximum minutes of training in total; 0: no limit", minimum=0.0, maximum=1e9)
    patience: int = setting(10, "Validations without a better score that end a run; 0: no limit", minimum=0)
    schedule: Literal["noam", "inverse_sqrt", "constant", "linear", "cosine"] = setting(
        "inverse_sqrt", "Learning rate over time; noam: the paper's (section 5.3); linear, cosine: 0 at max_steps"
    )
    learning_rate: float = setting(0.002, "Peak learning rate; noam: a factor on the paper's rate", above=0.0)
    warmup_steps: int = setting(2000, "Steps over which the learning rate rises linearly", minimum=0)
    decay_share: float = setting(
        0.0, "Last share of a run, over which the learning rate falls linearly to 0; 0: none", minimum=0.0, maximum=0.95
    )
    optimizer: Literal["adam", "muon"] = setting(
        "adam",
        "Optimizer; muon (Jordan et al. 2024) is for layer matrices, with updates as large as Adam's, and Adam for "
        "the rest",
    )
    muon_momentum: float = setting(0.95, "Momentum of Muon", minimum=0.0, maximum=0.9999)
    adam_beta1: float = setting(0.9, "Decay rate of Adam's first moment", minimum=0.0, maximum=0.9999)
    adam_beta2: float = setting(0.98, "Decay rate of Adam's second moment", minimum=0.0, maximum=0.999999)
    adam_epsilon: float = setting(1e-9, "Epsilon of Adam", above=0.0)
    weight_decay: float = setting(0.0, "Decoupled weight decay of AdamW and Muon", minimum=0.0)
    label_smoothing: float = setting(
        0.1, "Share of the probability mass spread over the vocabulary (section 5.4)", minimum=0.0, maximum=0.9
    )
    sampled_softmax: float = setting(
        1.0,
        "Share of the vocabulary that each step samples for its softmax, besides its labels, on a CPU; 1: all tokens",
        minimum=0.01,
        maximum=1.0,
    )
    clip_norm: float = setting(1.0, "Maximum norm of the gradients; 0: no limit", minimum=0.0)
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto", "Number format; auto: bfloat16 if the device has it and gains from it"
    )
    device: str = setting("auto", "Device, such as cuda:1; auto: cuda, mps or cpu")
    seed: int = setting(1, "Seed of all random numbers", minimum=0, maximum=2**31 - 1)
    log_every_steps: int = setting(50, "Steps between lines of progress and of log.jsonl", minimum=1)
    checkpoint_every_steps: int = setting(
        0, "Steps between extra checkpoints; 0: checkpoints at validations only", minimum=0
    )
    keep_checkpoints: int = setting(5, "Newest checkpoints to keep, besides the best", minimum=2)
    average_last: int = setting(5, "Newest checkpoints to average at the end; 0: none", minimum=0)
    average_best: int = setting(0, "Best checkpoints to average at the end; 0: none", minimum=0)
    ema_decay: float = setting(
        0.0, "Decay per step of a running mean of the weights, such as 0.999; 0: none", minimum=0.0, maximum=0.999999
    )


@settings_table("validate")
@dataclass(frozen=True, slots=True)
class ValidateSettings:
    """[validate]: how often to validate, and on what."""

    every_epochs: int = setting(1, "Epochs between validations; 0: count steps only", minimum=0)
    every_steps: int = setting(0, "Steps between validations; 0: count epochs only", minimum=0)
    metric: Literal["chrf", "bleu", "loss"] = setting(
        "chrf", "Score that picks the best checkpoint and drives patience"
    )
    beam_size: int = setting(1, "Beam size of the scored translations", minimum=1, maximum=1000)
    max_sentences: int = setting(1000, "Maximum number of sentences to translate; the loss uses all", minimum=1)


@settings_table("inference")
@dataclass(frozen=True, slots=True)
class InferenceSettings:
    """[inference]: how to search for a translation.

    `precision` = bfloat16 uses float32 on a CPU without bfloat16.
    """

    beam_size: int = setting(5, "Hypotheses kept per sentence; 1: greedy search", minimum=1, maximum=1000)
    length_penalty: Literal["paper", "power"] = setting(
        "paper", "Divisor of the score; paper: ((5 + n) / 6) ** alpha (Wu et al. 2016), power: n ** alpha"
    )
    length_penalty_alpha: float = setting(0.6, "Strength of the length penalty; 0: none", minimum=0.0, maximum=10.0)
    max_extra_tokens: int = setting(
        50, "Maximum length of an output in tokens beyond the source (section 6.1)", minimum=1
    )
    min_tokens: int = setting(1, "Minimum length of an output in tokens; 0: may be empty", minimum=0)
    n_best: int = setting(1, "Candidates returned per sentence; at most beam_size", minimum=1)
    batch_tokens: int = setting(
        4096, "Padded source tokens times beam size in a batch; no effect on results", minimum=1
    )
    precision: Literal["float32", "bfloat16", "int16", "int8", "auto"] = setting(
        "float32",
        "Number format of matrix products; auto: the fastest. Below float32, ties may be resolved differently; "
        "in bfloat16, a translation may depend on the other texts in the batch",
    )
    retry_all_caps: bool = setting(
        True, "Translate all-caps text in sentence case too, and return the more probable result in capitals"
    )
    sample: bool = setting(False, "Sample the translation instead of searching for the best one")
    temperature: float = setting(1.0, "Sampling temperature; below 1 sharpens, above 1 flattens", above=0.0)
    top_k: int = setting(0, "Sample from the k most probable tokens; 0: all", minimum=0)
    top_p: float = setting(
        1.0, "Sample from the most probable tokens that reach this probability together", above=0.0, maximum=1.0
    )
    seed: int = setting(1, "Seed of sampling", minimum=0, maximum=2**31 - 1)
    tag: str = setting("", "Domain or style to translate in, for models trained with tagged corpora")
    mbr_samples: int = setting(
        0,
        "Minimum Bayes risk: sample this many translations and return the one most similar to the others by chrF "
        "(Eikema & Aziz 2020); 0: off",
        minimum=0,
        maximum=1024,
    )


WITHOUT_SAMPLING: dict[str, Any] = {"sample": False, "mbr_samples": 0, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
"""The values of `InferenceSettings` for a search without sampling."""


@dataclass(frozen=True, slots=True)
class Config:
    """All tables of a configuration file."""

    data: DataSettings = DataSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ModelSettings = ModelSettings()
    train: TrainSettings = TrainSettings()
    validate: ValidateSettings = ValidateSettings()
    inference: InferenceSettings = InferenceSettings()
    corpora: tuple[CorpusSettings, ...] = ()

    @property
    def by_key(self) -> dict[str, Any]:
        """The values of all settings by key, such as ``train.max_steps``, without those of [[corpora]]."""
        return {key: getattr(getattr(self, setting.table), setting.name) for key, setting in SETTINGS.items()}

    @property
    def corpus_paths(self) -> dict[str, str]:
        """The files of all corpora by the key of their setting, such as ``data.dev`` or ``corpora[1].src``."""
        paths = {f"data.{name}": getattr(self.data, name) for name in CORPUS_FILES}
        for number, corpus in enumerate(self.corpora):
            paths |= {f"corpora[{number}].{name}": getattr(corpus, name) for name in ("data", "src", "tgt")}
        return {key: path for key, path in paths.items() if path}

    def with_corpus_paths(self, paths: Mapping[str, str]) -> "Config":
        """The configuration with other files. `paths` has them by key, as in `corpus_paths`."""
        data: dict[str, Any] = {name: paths[key] for name in CORPUS_FILES if (key := f"data.{name}") in paths}
        corpora = []
        for number, corpus in enumerate(self.corpora):
            keys = {name: f"corpora[{number}].{name}" for name in ("data", "src", "tgt")}
            files: dict[str, Any] = {name: paths[key] for name, key in keys.items() if key in paths}
            corpora.append(replace(corpus, **files))
        return replace(self, data=replace(self.data, **data), corpora=tuple(corpora))


TABLES: tuple[str, ...] = tuple(table.name for table in fields(Config) if table.name != "corpora")
"""The tables of a configuration file, besides the list of tables ``[[corpora]]``."""
