"""The contenders: each is an adapter with some options."""

from dataclasses import dataclass
from importlib.util import find_spec

from side_by_side.environments import RECIPES
from side_by_side.machine import HAS_BFLOAT16

OURS = "Dragoman"
"""The contender of the ratios: each says how many times as fast it is as a peer."""

ENGINES = {"torch": "torch", "textbook": "torch", "transformers": "transformers", "ctranslate2": "ctranslate2"}
"""Peers in Dragoman's own environment, and the package that each needs."""

PEERS = (*ENGINES, *RECIPES)

TOOLKIT_NAMES = {"joeynmt": "JoeyNMT", "opennmt": "OpenNMT-py", "eole": "Eole", "sockeye": "Sockeye"}
"""The toolkits with their own programs and environment."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A row of a table. `peer` is its name in --peers; rows of Dragoman are always measured."""

    name: str
    peer: str
    adapter: str
    options: tuple[str, ...] = ()

    @property
    def is_toolkit(self) -> bool:
        """True for a toolkit with its own programs and environment."""
        return self.peer in RECIPES


def _toolkits(adapter: str) -> tuple[Contender, ...]:
    return tuple(Contender(name, peer, adapter, ("--toolkit", peer)) for peer, name in TOOLKIT_NAMES.items())


TRAINING = (
    Contender(OURS, "dragoman", "train_dragoman"),
    Contender("Dragoman, dropout as in the paper", "dragoman", "train_dragoman", ("--paper-dropout",)),
    Contender("Dragoman, float32", "dragoman", "train_dragoman", ("--precision", "float32")),
    Contender("torch.nn.Transformer", "torch", "train_torch"),
    Contender("torch.nn.Transformer, bfloat16 autocast", "torch", "train_torch", ("--bfloat16",)),
    Contender("textbook", "textbook", "train_textbook"),
    Contender("transformers Marian", "transformers", "train_marian"),
    Contender("transformers Marian, bfloat16 autocast", "transformers", "train_marian", ("--bfloat16",)),
    *_toolkits("train_toolkit"),
    Contender("Eole, bfloat16 autocast", "eole", "train_toolkit", ("--toolkit", "eole", "--bfloat16")),
)

MARIAN_ENGINES = (
    Contender(OURS, "dragoman", "translate_dragoman"),
    Contender("Dragoman, float32", "dragoman", "translate_dragoman", ("--precision", "float32")),
    Contender("CTranslate2, float32", "ctranslate2", "translate_ctranslate2", ("--compute-type", "float32")),
    Contender("CTranslate2, int8", "ctranslate2", "translate_ctranslate2", ("--compute-type", "int8")),
    Contender("transformers Marian", "transformers", "translate_marian"),
    Contender("transformers Marian, bfloat16", "transformers", "translate_marian", ("--bfloat16",)),
)

FORCED_LENGTH = (*MARIAN_ENGINES, *_toolkits("translate_toolkit"))


def chosen(contenders: tuple[Contender, ...], peers: frozenset[str]) -> tuple[Contender, ...]:
    """Return Dragoman's contenders and those of the peers, without bfloat16 if the processor has none."""
    return tuple(
        each
        for each in contenders
        if (each.peer == "dragoman" or each.peer in peers) and (HAS_BFLOAT16 or "--bfloat16" not in each.options)
    )


def available(peers: frozenset[str], without: frozenset[str]) -> frozenset[str]:
    """Return the peers whose package is installed; `without` names toolkits that could not be installed."""
    engines = {peer for peer in peers & ENGINES.keys() if find_spec(ENGINES[peer])}
    return frozenset(engines | (peers & RECIPES.keys()) - without)
