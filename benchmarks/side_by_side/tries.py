"""The settings with which `benchmarks/time_to_quality.py` trains each contender: one from its documentation, two tuned.

The first try of a peer follows its own documentation, or the closest published recipe for small data. The other two are
tuned for some thousand steps, which is what two cores compute in an hour: a shorter warm-up, and more dropout. Small
batches make the steps shorter.

The recipe for small data is that of Wu et al. 2021 (https://github.com/LividWo/Revisit-MMT, README-baseline.md) for a
model of the same size on Multi30k: dropout 0.3, rate 0.005, 2,000 steps of warm-up, inverse square root.
"""

from collections.abc import Mapping
from dataclasses import dataclass

SMALL_DATA = "Wu et al. 2021, for a model of this size on Multi30k"
SHORTER = "our tuning of the try before it, for fewer steps"

Settings = Mapping[str, str | float]


@dataclass(frozen=True, slots=True)
class Try:
    """Named settings with their source.

    For a toolkit, they replace values of its configuration, by key. For Dragoman, they are flags of `dragoman train`.
    Others have `peak` (the highest learning rate), `warmup` (steps), `dropout`, `batch_tokens`, `beta2` and, for torch,
    `norm_first`. The learning rate then falls with the inverse square root of the step.
    """

    name: str
    source: str
    settings: Settings


def noam_peak(factor: float, warmup: int, width: int = 128) -> float:
    """Return the highest learning rate of the schedule in section 5.3 of the paper, for a model of this width."""
    return float(factor * (width * warmup) ** -0.5)


def _opennmt_style(factor: float, warmup: int, dropout: float, batch_tokens: int) -> Settings:
    """Return settings of OpenNMT-py and Eole. Other values are as in their documentation: noam, smoothing 0.1."""
    return {
        "learning_rate": factor,
        "warmup_steps": warmup,
        "dropout": f"[{dropout}]",
        "attention_dropout": f"[{min(dropout, 0.1)}]",
        "adam_beta2": 0.998,
        "batch_size": batch_tokens,
    }


def _joeynmt(rate: float, warmup: int, batch_tokens: int, beta2: float) -> Settings:
    """Return settings of JoeyNMT with dropout 0.3."""
    return {
        "learning_rate": rate,
        "learning_rate_warmup": warmup,
        "dropout": 0.3,
        "adam_betas": f"[0.9, {beta2}]",
        "batch_size": batch_tokens,
    }


def _own_loop(peak: float, warmup: int, dropout: float, batch_tokens: int, norm_first: bool = False) -> Settings:
    return {
        "peak": peak,
        "warmup": warmup,
        "dropout": dropout,
        "batch_tokens": batch_tokens,
        "beta2": 0.98,
        "norm_first": float(norm_first),
    }


_OPENNMT_TUNED = (
    Try("dropout 0.3, warm-up 1,000", SMALL_DATA, _opennmt_style(2.0, 1000, 0.3, 4096)),
    Try("dropout 0.3, warm-up 500, half the batch", SHORTER, _opennmt_style(1.0, 500, 0.3, 2048)),
)
_OWN_LOOP_TUNED = Try("dropout 0.3, rate 0.005, warm-up 1,000", SMALL_DATA, _own_loop(0.005, 1000, 0.3, 4096))

TRIES: dict[str, tuple[Try, ...]] = {
    "dragoman": (
        Try("default recipe", "docs/reference/default-recipe.md", {}),
        Try(
            "default recipe of 0.2.0",
            "docs/reference/default-recipe.md of that version",
            {"train.optimizer": "adam", "train.decay-share": 0, "model.dropout": 0.3},
        ),
    ),
    "eole": (
        Try(
            "as documented",
            "https://github.com/eole-nlp/eole, concepts/config.md of its documentation",
            _opennmt_style(2.0, 8000, 0.1, 2048),
        ),
        *_OPENNMT_TUNED,
    ),
    "opennmt": (
        Try(
            "as documented",
            "https://opennmt.net/OpenNMT-py/FAQ.html, 'How do I use the Transformer model?'",
            _opennmt_style(2.0, 8000, 0.1, 4096),
        ),
        *_OPENNMT_TUNED,
    ),
    "joeynmt": (
        Try(
            "as documented",
            # Its plateau scheduler, which needs an older torch, waits for 5 validations of 1,000 steps each. In so few
            # steps, the rate stays constant.
            "https://github.com/joeynmt/joeynmt, configs/iwslt14_deen_bpe.yaml",
            {**_joeynmt(0.0003, 0, 4096, 0.999), "scheduling": "exponential\n    decrease_factor: 1.0"},
        ),
        Try("rate 0.005, warm-up 1,000", SMALL_DATA, _joeynmt(0.005, 1000, 4096, 0.98)),
        Try("rate 0.003, warm-up 500, half the batch", SHORTER, _joeynmt(0.003, 500, 2048, 0.98)),
    ),
    "marian": (
        Try(
            "as documented",
            "https://github.com/marian-nmt/marian-examples, transformer/run-me.sh",
            _own_loop(0.0003, 16_000, 0.1, 4096),
        ),
        _OWN_LOOP_TUNED,
        Try("dropout 0.3, rate 0.003, warm-up 500, half the batch", SHORTER, _own_loop(0.003, 500, 0.3, 2048)),
    ),
    "torch": (
        Try(
            "as in the paper",
            "Vaswani et al. 2017, sections 5.3 and 5.4",
            _own_loop(noam_peak(1.0, 4000), 4000, 0.1, 4096),
        ),
        _OWN_LOOP_TUNED,
        Try(
            "pre-norm, dropout 0.3, rate 0.003, warm-up 500, half the batch",
            SHORTER,
            _own_loop(0.003, 500, 0.3, 2048, norm_first=True),
        ),
    ),
}
