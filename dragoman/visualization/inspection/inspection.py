"""One inspected translation as records, and as one HTML file that works without a network, a server or other files.

All values are strings and numbers. Attention weights are stored as bytes, 0 for 0 and 255 for 1, with an error of at
most 0.002. A page with 60 by 60 tokens, 6 layers, 8 heads and three kinds of attention has 0.7 MB of weights.

The file contains its script and style. Its content-security policy allows them by their hashes and nothing else. The
data is in a block that is never executed, and every character that could end the block is escaped. The script inserts
text as text only, so no sentence can inject markup or code.
"""

import base64
import hashlib
import json
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from string import Template
from typing import Literal

from dragoman.display import Facts, ShownRecord, html_page
from dragoman.text.tokenization.words import Word

AttentionKind = Literal["encoder_self", "decoder_self", "cross"]
KIND_NAMES: dict[AttentionKind, str] = {
    "cross": "cross-attention",
    "encoder_self": "encoder self-attention",
    "decoder_self": "decoder self-attention",
}

START, END = "<s>", "</s>"
"""The tokens before a target and after a text, as pages and figures show them."""


@dataclass(frozen=True, slots=True)
class Side:
    """A text as the model reads it: its tokens without control tokens, and the words that they form."""

    text: str
    tokens: tuple[str, ...]
    words: tuple[Word, ...]
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another token for a position. `continuation` is the translation that follows it, or None if not searched."""

    token: str
    probability: float
    continuation: str | None = None
    score: float | None = None
    id: int = -1


@dataclass(frozen=True, slots=True)
class Step:
    """One target token, or eos at the end. Log-probabilities are natural logarithms; entropy is in bits."""

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

    `parent` is an index into the list of nodes, or -1 for the first tokens. `state`: the beam kept it (``kept``), the
    beam dropped it (``pruned``), a hypothesis ended with it (``ended``), or it was in the beam when the search stopped
    (``open``). The `best` nodes form the translation.
    """

    parent: int
    position: int
    token: str
    log_prob: float
    state: Literal["kept", "pruned", "ended", "open"]
    best: bool


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """Statistics of one head, as means over its queries.

    `distance`: tokens between query and key, or between key and diagonal in cross-attention. `end_share`: the weight on
    the source's end token, or on the start token in decoder self-attention.
    """

    entropy_bits: float
    distance: float
    end_share: float


@dataclass(frozen=True, slots=True, repr=False)
class PackedAttention(ShownRecord):
    """The weights of all heads of one kind. `data` is the base64 of their bytes in the order layer, head, query, key.

    Queries and keys are the tokens with control tokens. `mean_only`: each layer has one matrix, the mean of its heads.
    """

    kind: AttentionKind
    num_layers: int
    num_heads: int
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    mean_only: bool
    data: str = field(repr=False)
    heads: tuple[tuple[HeadFacts, ...], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Attributions:
    """Three measures of how much a target word depends on a source word: (target words, source words), rows sum to 1.

    `occlusion`: change of the log-probability when the source word is left out. `gradient`: gradient times input. The
    correlations with attention are the mean over target words of Spearman's, or None if no word has enough values.
    """

    attention: tuple[tuple[float, ...], ...]
    occlusion: tuple[tuple[float, ...], ...]
    gradient: tuple[tuple[float, ...], ...]
    occlusion_correlation: float | None
    gradient_correlation: float | None


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on the translation: a sentence, and the indices of the words that it refers to."""

    kind: str
    text: str
    src_words: tuple[int, ...] = ()
    tgt_words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Inspection(ShownRecord):
    """All data of one inspected translation.

    `links` holds the attention that alignments are computed from, (target tokens, source tokens) as bytes in base64.
    `layer` (from 0) is the decoder layer of `links`, and `reading` is the decoding step. `reference` is "" if there is
    none. The first `forced` tokens of the translation were given by the caller.
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
        """The record as JSON, with its field names. It has no NaN and no infinity."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def _facts(self) -> Facts:
        yield from (("model", self.model), ("languages", f"{self.src_lang or '?'} to {self.tgt_lang or '?'}"))
        yield from (("source", self.src.text), ("translation", self.tgt.text))
        yield "probabilities", " ".join(f"{step.token} {step.probability:.2f}" for step in self.steps)
        yield from ((KIND_NAMES[one.kind], f"layers: {one.num_layers}, heads: {one.num_heads}") for one in self.weights)
        yield from (("alternative", one.text) for one in self.n_best[1:])
        for note in self.notes:
            sides = (self.src, note.src_words), (self.tgt, note.tgt_words)
            yield "note", " ".join([note.text, *(side.words[at].text for side, places in sides for at in places)])

    def _repr_html_(self) -> str:
        return html_page(inspection_page(self))


_SCRIPTS = ("data.js", "sentence.js", "matrix.js", "decoding.js", "main.js")
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def inspection_page(inspection: Inspection, explore: str = "") -> str:
    """The HTML of an inspection.

    With `explore`, alternatives are links. It is a URL with a query. With ``&prefix=`` and token ids appended, its
    server must show the page for a translation that starts with these tokens.
    """
    parts = files("dragoman.visualization.inspection").joinpath("page")
    template, style = (parts.joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "page.css"))
    scripts = "\n".join(parts.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    script = f'"use strict";\n{{\n{scripts}}}\n'
    data = inspection.to_json()
    if explore:
        data = f'{data[:-1]},"explore":{json.dumps(explore)}}}'
    own = f"script-src '{source_hash(script)}'; style-src '{source_hash(style)}'"
    policy = f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"
    return Template(template).substitute(policy=policy, style=style, script=script, data=escape_json(data))


def escape_json(document: str) -> str:
    """Escape JSON for a script element: the same value, without characters that are special in HTML or scripts."""
    return document.translate(_ESCAPES)


def source_hash(text: str) -> str:
    """The hash of a script or a style, as a content-security policy allows it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
