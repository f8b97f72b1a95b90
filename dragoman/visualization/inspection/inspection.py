"""What is known about one translation: the record behind the page, the picture and the JSON.

Strings and numbers only. Attention weights travel as bytes, 0 for 0 and 255 for 1, so that each is off by at most
0.002; a page of 60 by 60 tokens, 6 layers, 8 heads and three kinds has 0.7 MB of them.
"""

import json
from dataclasses import asdict, dataclass
from typing import Literal

from dragoman.text.tokenization.words import Word

AttentionKind = Literal["encoder_self", "decoder_self", "cross"]
ATTENTION_KINDS: tuple[AttentionKind, ...] = ("cross", "encoder_self", "decoder_self")


@dataclass(frozen=True, slots=True)
class Side:
    """A text as the model sees it: its tokens without control tokens, and the words that they make."""

    text: str
    tokens: tuple[str, ...]
    words: tuple[Word, ...]
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another token for a place, and how the translation goes on from it (None where nobody looked)."""

    token: str
    probability: float
    continuation: str | None = None
    score: float | None = None
    id: int = -1


@dataclass(frozen=True, slots=True)
class Step:
    """One target token (the last one is eos): natural logarithms; entropy of the whole distribution in bits."""

    token: str
    probability: float
    entropy_bits: float
    running_log_prob: float
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class RankedTranslation:
    """One of the n best translations."""

    text: str
    score: float
    log_prob: float


@dataclass(frozen=True, slots=True)
class BeamNode:
    """A token that the search considered.

    `parent` is a place in the list of nodes, -1 for the first tokens. `state`: it went on (``kept``), it fell out of
    the beam (``pruned``), the translation ended with it (``ended``), or it was in the beam when the search stopped
    (``open``). `best` nodes make the translation.
    """

    parent: int
    position: int
    token: str
    log_prob: float
    state: Literal["kept", "pruned", "ended", "open"]
    best: bool


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """Of one head, means over its queries.

    `distance`: tokens between where it stands and where it looks (in cross-attention, from the diagonal); `end_share`:
    the weight on the end token of the source, in decoder self-attention on the start token.
    """

    entropy_bits: float
    distance: float
    end_share: float


@dataclass(frozen=True, slots=True)
class PackedAttention:
    """All heads of one kind: base64 of the bytes in the order layer, head, query, key.

    Queries and keys are the tokens with their control tokens. `mean_only`: one head a layer, the mean of all.
    """

    kind: AttentionKind
    num_layers: int
    num_heads: int
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    mean_only: bool
    data: str
    heads: tuple[tuple[HeadFacts, ...], ...]


@dataclass(frozen=True, slots=True)
class Attributions:
    """Three measures of what a target word owes to a source word, (target words, source words) each, rows sum to 1.

    `occlusion`: how far the log-probability moves when the word is left out; `gradient`: gradient times input.
    Correlations with attention are Spearman's, the mean over target words; None where there is nothing to rank.
    """

    attention: tuple[tuple[float, ...], ...]
    occlusion: tuple[tuple[float, ...], ...]
    gradient: tuple[tuple[float, ...], ...]
    occlusion_correlation: float | None
    gradient_correlation: float | None


@dataclass(frozen=True, slots=True)
class Note:
    """Something to look at: a plain sentence, and the numbers of the words it is about."""

    kind: str
    text: str
    src_words: tuple[int, ...] = ()
    tgt_words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Inspection:
    """Everything about one translation.

    `links` (target tokens, source tokens, bytes in base64) is the attention that alignments are read from, `reading`
    and `layer` (from 0) say where. `reference` is "" where there is none. The first `forced` tokens of the translation
    were given.
    """

    model: str
    src_lang: str
    tgt_lang: str
    src: Side
    tgt: Side
    reference: str
    reading: str
    layer: int
    links: str
    steps: tuple[Step, ...]
    n_best: tuple[RankedTranslation, ...]
    beam: tuple[BeamNode, ...]
    weights: tuple[PackedAttention, ...]
    opinions: Attributions | None
    notes: tuple[Note, ...]
    forced: int = 0

    def of_kind(self, kind: AttentionKind) -> PackedAttention:
        """The weights of one kind."""
        return next(weights for weights in self.weights if weights.kind == kind)

    def to_json(self) -> str:
        """The record as JSON, with its field names; numbers that are no number cannot occur."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
