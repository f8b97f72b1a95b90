"""Rules between settings. Each error names the settings and what to write instead."""

from collections.abc import Callable, Iterator

from dragoman.config.settings import CORPORA, Config, ModelSettings
from dragoman.errors import ConfigError

Label = Callable[[str], str]

_AUGMENTATIONS = ("augment_case", "augment_punctuation", "augment_noise")


def check_config(config: Config, label: Label = "`{}`".format) -> None:
    """Raise ConfigError for the first contradiction. `label` makes a key into the name that the message has for it."""
    check_shape(config.model, label)
    for rules in (_model, _tokenizer, _data, _limits, _sharding, _teachers, _schedule, _run, _inference):
        for problem in rules(config, label):
            raise ConfigError(problem)


def check_shape(model: ModelSettings, label: Label = "`{}`".format) -> None:
    """Raise ConfigError for a shape that no model can have. This holds for finished models too."""
    for problem in _shape(model, label):
        raise ConfigError(problem)


def check_vocabularies(model: ModelSettings, src_vocab_size: int, tgt_vocab_size: int) -> None:
    """Raise ConfigError if one tensor would have to embed two vocabularies of different sizes."""
    if model.tie == "all" and src_vocab_size != tgt_vocab_size:
        raise ConfigError(
            f'`model.tie` must not be "all" for vocabularies of {src_vocab_size} and {tgt_vocab_size} entries, which '
            f'cannot share one embedding. Set `model.tie` to "decoder" or "none".'
        )


def _shape(model: ModelSettings, label: Label) -> Iterator[str]:
    if model.d_model % model.num_heads:
        yield (
            f"{label('model.d_model')} must be a multiple of {label('model.num_heads')} ({model.num_heads}), "
            f"but is {model.d_model}. Change one of them."
        )
    if model.positions != "learned" and model.d_model % 2:
        yield (
            f"{label('model.d_model')} must be even for sinusoidal positions, but is {model.d_model}. "
            f'Change it, or set `model.positions` to "learned".'
        )


def _model(config: Config, label: Label) -> Iterator[str]:
    """Rules for new runs only."""
    model = config.model
    if model.positions == "learned" and model.max_positions <= config.data.max_tokens:
        yield (
            f"{label('model.max_positions')} must be greater than `data.max_tokens` ({config.data.max_tokens}), "
            f"but is {model.max_positions}. Raise the one or lower the other."
        )
    if model.tie == "all" and not config.tokenizer.joint:
        yield (
            f'{label("model.tie")} must not be "all" where `tokenizer.joint` is false: two vocabularies have no '
            f'embedding in common. Set `model.tie` to "decoder".'
        )


def _tokenizer(config: Config, label: Label) -> Iterator[str]:
    tokenizer = config.tokenizer
    if tokenizer.bpe_dropout and tokenizer.kind != "bpe":
        yield (
            f'{label("tokenizer.bpe_dropout")} must be 0 for `tokenizer.kind` "{tokenizer.kind}", but is '
            f"{tokenizer.bpe_dropout}: only bpe has merges to skip."
        )
    if tokenizer.byte_fallback and tokenizer.kind != "bpe":
        yield (
            f'{label("tokenizer.byte_fallback")} must be false for `tokenizer.kind` "{tokenizer.kind}", but is true: '
            f"it is a variant of bpe."
        )


def _data(config: Config, label: Label) -> Iterator[str]:
    data = config.data
    for corpus in CORPORA:
        both, src, tgt = (getattr(data, corpus + side) for side in ("", "_src", "_tgt"))
        if both and (src or tgt):
            extra = f"data.{corpus}_src" if src else f"data.{corpus}_tgt"
            yield f"{label(f'data.{corpus}')} and {label(extra)} must not both be given. Leave one out."
        for given, missing in ((src, "tgt"), (tgt, "src")):
            if given and not (src and tgt):
                present = "src" if missing == "tgt" else "tgt"
                yield (
                    f"{label(f'data.{corpus}_{present}')} is given, but `data.{corpus}_{missing}` is not. "
                    f"Give both sides, or one file with both as `data.{corpus}`."
                )
    if data.replay_share != type(data)().replay_share and not (data.replay or data.replay_src):
        yield (
            f"{label('data.replay_share')} has no effect without replay data, but is {data.replay_share}. "
            "Name what the model was trained on before as `data.replay`, or leave it out."
        )
    if not data.dev_fraction and not (data.dev or data.dev_src):
        yield (
            f"{label('data.dev_fraction')} must be greater than 0 where no dev file is given: "
            f"without validation data the best checkpoint cannot be told."
        )


def _limits(config: Config, label: Label) -> Iterator[str]:
    train, validate = config.train, config.validate
    if not (train.max_steps or train.max_epochs or train.max_minutes or train.patience):
        yield (
            f"{label('train.patience')} must not be 0 where `train.max_steps`, `train.max_epochs` and "
            f"`train.max_minutes` are 0 too: training would never end. Set one of them."
        )
    if not (validate.every_epochs or validate.every_steps):
        yield (
            f"{label('validate.every_epochs')} and {label('validate.every_steps')} must not both be 0: "
            f"a run without validation has no best checkpoint. Set one of them."
        )


def _sharding(config: Config, label: Label) -> Iterator[str]:
    train = config.train
    if train.sharding == "full" and train.compile:
        yield (
            f"{label('train.compile')} must be false where `train.sharding` is full: layers gathered from other "
            f"processes are not compiled."
        )
    if train.sharding == "full" and (train.optimizer != "adam" or train.ema_decay):
        yield (
            f"{label('train.sharding')} is full, which goes with Adam alone: without `train.optimizer` = muon "
            "and `train.ema_decay`. Leave these out, or set it to none."
        )


def _teachers(config: Config, label: Label) -> Iterator[str]:
    train = config.train
    if train.teachers:
        sampled = ["tokenizer.bpe_dropout"] if config.tokenizer.bpe_dropout else []
        sampled += [f"data.{name}" for name in _AUGMENTATIONS if getattr(config.data, name)]
        if sampled:
            yield (
                f"{label(sampled[0])} must be 0 where `train.teachers` is given: teachers are asked once, about the "
                "text as it is. Leave one of them out."
            )
    elif train.teacher_weight != type(train)().teacher_weight:
        yield (
            f"{label('train.teacher_weight')} has no effect without teachers, but is {train.teacher_weight}. "
            "Name some as `train.teachers` (--teacher), or leave it out."
        )


def _schedule(config: Config, label: Label) -> Iterator[str]:
    train = config.train
    if train.schedule in ("linear", "cosine") and not train.max_steps:
        yield (
            f'{label("train.max_steps")} must not be 0 where `train.schedule` is "{train.schedule}": the rate falls '
            "to 0 at that step. Set it, or use inverse_sqrt."
        )
    if train.schedule in ("linear", "cosine") and train.max_steps and train.warmup_steps >= train.max_steps:
        yield (
            f"{label('train.warmup_steps')} must be below `train.max_steps` ({train.max_steps}) where `train.schedule` "
            f'is "{train.schedule}", but is {train.warmup_steps}: the rate would never fall.'
        )


def _run(config: Config, label: Label) -> Iterator[str]:
    data, train = config.data, config.train
    if (data.replay or data.replay_src or data.replay_test or data.replay_test_src) and not train.start_from:
        yield (
            f"{label('train.start_from')} must be set where replay data is given. Name the model to fine-tune "
            "(--from), or put all data into `data.train`."
        )
    if train.average_last > train.keep_checkpoints:
        yield (
            f"{label('train.average_last')} must be at most `train.keep_checkpoints` ({train.keep_checkpoints}), "
            f"but is {train.average_last}: what is averaged must have been kept."
        )


def _inference(config: Config, label: Label) -> Iterator[str]:
    inference = config.inference
    samples = inference.sample or inference.mbr_samples
    if inference.mbr_samples and inference.n_best > inference.mbr_samples:
        yield (
            f"{label('inference.n_best')} must be at most `inference.mbr_samples` ({inference.mbr_samples}), "
            f"but is {inference.n_best}."
        )
    if inference.n_best > inference.beam_size and not samples:
        yield (
            f"{label('inference.n_best')} must be at most `inference.beam_size` ({inference.beam_size}), "
            f"but is {inference.n_best}."
        )
    for name, neutral in (("temperature", 1.0), ("top_k", 0), ("top_p", 1.0)):
        value = getattr(inference, name)
        if value != neutral and not samples:
            yield (
                f"{label(f'inference.{name}')} has no effect without sampling, but is {value}. "
                f"Set `inference.sample` to true (or `inference.mbr_samples`), or leave it out."
            )
