"""Download a model folder from the Hugging Face hub with its client `huggingface_hub` (extra `hub`).

`dragoman import OWNER/NAME` and `dragoman.load("OWNER/NAME")` use this module. It downloads only the files that
`marian` reads. The client keeps them in its cache, and works offline if they are there. All kinds of failure
become a ModelError of one line.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import DragomanError, ModelError, install_advice

# OWNER/NAME. A relative path such as runs/demo has this form too, so callers look for a folder first.
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
FILES = ("*config.json", "*vocab.json", "source.spm", "target.spm")
"""Patterns of all files but the weights: three configurations, one or two vocabularies, two tokenizers."""


def is_hub_name(text: str) -> bool:
    """Whether a text has the form OWNER/NAME."""
    return _NAME.fullmatch(text) is not None


def fetch_model(name: str) -> Path:
    """Download the files of a model, or find them in the client's cache.

    Parameters
    ----------
    name
        The name of the model, such as ``Helsinki-NLP/opus-mt-de-en``.

    Returns
    -------
    Path
        The folder in the client's cache, an input for `import_marian`. Do not change its files.

    Raises
    ------
    ModelError
        If huggingface_hub is not installed, or the model does not exist or cannot be downloaded.
    """
    from dragoman.exchange.marian_weights import PICKLED, SAFETENSORS  # torch

    # Many repositories have both kinds of weights. Download the pickle only if there is no safetensors file.
    folder = _snapshot(name, [*FILES, SAFETENSORS])
    if not (folder / SAFETENSORS).exists():
        folder = _snapshot(name, [*FILES, PICKLED])
    return folder


def _snapshot(name: str, files: list[str]) -> Path:
    with hub_errors(name, ModelError, "Check the connection, or name a folder."):
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, allow_patterns=files))


@contextmanager
def hub_errors(name: str, kind: type[DragomanError], advice: str, check: str = "Check the name.") -> Iterator[None]:
    """Turn every failure of the hub's client into an error of one line, of class `kind`, that names `name`.

    `advice` is the next step if the network may be the cause, and `check` if the name may be.
    """
    try:
        from huggingface_hub import errors
    except ImportError as error:
        raise _missing_package(error, kind) from None
    try:
        yield
        return
    except DragomanError:
        raise
    except ImportError as error:
        raise _missing_package(error, kind) from None
    except errors.OfflineModeIsEnabled:
        problem, advice = "cannot be downloaded, because HF_HUB_OFFLINE is set", "Unset it."
    except errors.LocalEntryNotFoundError:
        problem = "is not in the local cache and cannot be downloaded (no network, or HF_HUB_OFFLINE is set)"
    except (errors.HfHubHTTPError, errors.HFValidationError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        reason = "it does not exist there, or is private" if status in (401, 404) else str(error).split("\n")[0]
        problem, advice = f"cannot be downloaded from the Hugging Face hub: {reason.rstrip('.')}", check
    except OSError as error:
        reason = str(error).split("\n")[0].rstrip(".")
        problem = f"cannot be downloaded: {reason}"
    except Exception as error:  # the client's network library has many kinds of errors without a common base
        reason = f"{type(error).__name__}: {error}".split("\n")[0].rstrip(".")
        problem = f"cannot be downloaded ({reason})"
    raise kind(f"{name} {problem}. {advice}")


def _missing_package(error: ImportError, kind: type[DragomanError]) -> DragomanError:
    package = str(error.name).partition(".")[0]
    return kind(f"the package {package} is not installed. {install_advice('hub')}")
