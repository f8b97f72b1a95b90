"""Read an untrusted tokenizer.json.

Only the vocabulary, merges, scores and character map are taken from the file, after checks. Pipelines are compared with
those of `pipelines.py` and never built from the file. So no regular expression of the file is compiled, and the result
is always one of Dragoman's own tokenizers.
"""

import json
import math
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models

from dragoman.errors import ModelError
from dragoman.text.tokenization import pipelines
from dragoman.text.tokenization.pipelines import CONTROL_TOKENS, TokenizerKind, assemble
from dragoman.text.tokenization.sentencepiece import SentencePieceTokenizer, read_sentencepiece

CONTROLS = "control_tokens"
"""The key with the names of the control tokens that follow the vocabulary of the library, such as ``<tag:legal>``."""
_MOST_CONTROLS, _LONGEST_NAME = 1000, 64
_TYPES = ("BPE", "Unigram", "WordLevel")
_LACKS_BYTES = "it lacks some of the 256 bytes"


def read_tokenizer(path: Path) -> tuple[TokenizerKind, Tokenizer | SentencePieceTokenizer, tuple[str, ...]]:
    """Read the kind, the tokenizer and the names of further control tokens of a file.

    Raises ModelError that names the file and the problem.
    """
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist. Name the folder of a trained model.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read as a tokenizer: {error}. Copy the model again.") from None
    try:
        if isinstance(document, dict) and document.get("kind") == "sentencepiece":
            return "sentencepiece", read_sentencepiece(document), ()
        kind, tokenizer = _build(document)
        _check_pipeline(document, json.loads(tokenizer.to_str()))
        controls = _check_controls(document.get(CONTROLS, []))
    except _Foreign as reason:
        raise ModelError(f"{path} is not a tokenizer of Dragoman: {reason}. Copy the model again.") from None
    except Exception as error:  # the library raises bare Exception, for example for merges outside the vocabulary
        raise ModelError(f"{path} holds a damaged tokenizer: {error}. Copy the model again.") from None
    return kind, tokenizer, controls


class _Foreign(Exception):
    """A part of the file is not as Dragoman writes it."""


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise _Foreign(reason)


def _build(document: Any) -> tuple[TokenizerKind, Tokenizer]:
    _require(isinstance(document, dict) and isinstance(document.get("model"), dict), "it has no model")
    _require(not document.get("added_tokens"), "it has added tokens")
    _require(not document.get("post_processor"), "it has a post-processor")
    model = document["model"]
    _require(model.get("type") in _TYPES, f"its model type is {model.get('type')!r}")
    _require(model.get("dropout") is None, "its model has dropout")
    vocab = _check_vocab(model)
    if model["type"] == "WordLevel":
        return "word", assemble("word", models.WordLevel(vocab, unk_token=CONTROL_TOKENS[3]))
    if model["type"] == "BPE" and not model.get("byte_fallback"):
        alphabet = pipelines.BYTE_LEVEL_ALPHABET
        _require(alphabet.keys() <= vocab.keys(), _LACKS_BYTES)
        strange = [token for token in vocab if token not in CONTROL_TOKENS and not alphabet.keys() >= set(token)]
        _require(not strange, f"its token {strange[:1]} is not written in bytes")
        return "byte_bpe", assemble("byte_bpe", models.BPE(vocab, _check_merges(model, vocab)))
    _require(all(pipelines.byte_token(byte) in vocab for byte in range(256)), _LACKS_BYTES)
    if model["type"] == "BPE":
        return "fallback_bpe", assemble("fallback_bpe", fallback_bpe(vocab, _check_merges(model, vocab)))
    pieces = [(piece, float(score)) for piece, score in model["vocab"]]
    return "unigram", assemble("unigram", models.Unigram(pieces, 3, True))


def _check_controls(names: Any) -> tuple[str, ...]:
    _require(
        isinstance(names, list) and len(names) <= _MOST_CONTROLS,
        f"its {CONTROLS} are not a list of at most {_MOST_CONTROLS}",
    )
    are_names = all(isinstance(name, str) and name.isprintable() and 0 < len(name) <= _LONGEST_NAME for name in names)
    _require(are_names and len(set(names)) == len(names), f"its {CONTROLS} are not different names")
    return tuple(names)


def _check_vocab(model: dict[str, Any]) -> dict[str, int]:
    """Map tokens to ids, after checking that the ids are 0 ... n - 1 and the control tokens come first."""
    raw: Any = model.get("vocab")
    if model["type"] == "Unigram":
        _require(isinstance(raw, list), "its vocabulary is not a list")
        _require(all(_is_scored_piece(entry) for entry in raw), "its vocabulary has entries that are not scored pieces")
        vocab = {entry[0]: index for index, entry in enumerate(raw)}
        _require(len(vocab) == len(raw), "its vocabulary repeats a piece")
    else:
        _require(isinstance(raw, dict), "its vocabulary is not a table")
        vocab = raw
        _require(all(type(index) is int for index in vocab.values()), "its vocabulary has ids that are not integers")
        _require(sorted(vocab.values()) == list(range(len(vocab))), "its ids are not 0 ... n - 1")
    controls = [vocab.get(token) for token in CONTROL_TOKENS]
    _require(controls == [0, 1, 2, 3], f"its control tokens have the ids {controls}")
    return vocab


def _is_scored_piece(entry: Any) -> bool:
    is_pair = isinstance(entry, list) and [type(part) for part in entry] in ([str, int], [str, float])
    return is_pair and math.isfinite(entry[1])


def _check_merges(model: dict[str, Any], vocab: dict[str, int]) -> list[tuple[str, str]]:
    """The merges as pairs, after checking that each makes a token of two tokens."""
    merges: Any = model.get("merges")
    _require(isinstance(merges, list), "its merges are not a list")
    for merge in merges:
        is_pair = isinstance(merge, list) and [type(part) for part in merge] == [str, str]
        _require(is_pair, "its merges are not all pairs of tokens")
        is_known = merge[0] in vocab and merge[1] in vocab and merge[0] + merge[1] in vocab
        _require(is_known, f"its merge {merge} is not in its vocabulary")
    return [(left, right) for left, right in merges]


def fallback_bpe(vocab: dict[str, int], merges: list[tuple[str, str]]) -> models.BPE:
    """A BPE model that spells characters outside its vocabulary as bytes."""
    return models.BPE(vocab, merges, unk_token=CONTROL_TOKENS[3], byte_fallback=True)


def _check_pipeline(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        _require(theirs.get(part) is not None and _agrees(theirs[part], ours[part]), f"its {part} is a different one")


def _agrees(theirs: Any, ours: Any) -> bool:
    """Whether both are equal, ignoring settings that only our newer version of the library writes."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        same_type = theirs.get("type") == ours.get("type")
        return same_type and all(key in ours and _agrees(value, ours[key]) for key, value in theirs.items())
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(theirs) == len(ours) and all(map(_agrees, theirs, ours))
    return bool(theirs == ours)
