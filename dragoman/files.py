"""Writing so that nothing is ever half written, and noticing when something was damaged afterwards.

A folder is written under a temporary name beside its place, every file is flushed to the disk, a manifest with the
size and SHA-256 of each file goes in last, then the folder is renamed into place. A reader checks the manifest.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from dragoman.errors import ConfigError, ModelError, ResourceError

MANIFEST = "manifest.json"
TEMPORARY_PREFIX = ".writing-"
"""How the names of files and folders begin while they are written."""
_PART_SUFFIX = ".part"
_CHUNK_BYTES = 1 << 20
_OLD_PREFIX = f"{TEMPORARY_PREFIX}old-"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_DISK_ERRORS = (*_FULL, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.EFBIG, errno.ENOTDIR)
_MOST_MANIFEST_BYTES = 1 << 20
_FINGERPRINT_DIGITS = 12


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def check_target(path: Path, name: str, example: str) -> None:
    """Raises ConfigError where no file can be written at `path`, which `name` (a flag) gave; costs nothing.

    `example` is a file name to suggest.
    """
    if path.is_dir():
        suggested = Path(example) if (path / MANIFEST).exists() else path / example
        raise ConfigError(f"`{name}` is {path}, which is a folder. Give a file name, such as {suggested}.")
    if (path.parent / MANIFEST).exists():
        raise ConfigError(f"`{name}` is {path}, in a model folder, which holds nothing else. Choose another folder.")
    if not path.parent.is_dir():
        raise ConfigError(f"`{name}` is {path}, but {path.parent} is no folder. Make it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"`{name}` is {path}, but {path.parent} may not be written to. Choose another folder.")


def check_new_folder(path: Path) -> None:
    """Raises ModelError where no folder can be made at `path`, which `--out` gave: it is there, or within a model's."""
    if path.exists():
        raise ModelError(f"{path} exists already. Choose another --out, or remove it.")
    if (path.parent / MANIFEST).exists():
        raise ModelError(f"{path} is in a model folder, which holds nothing else. Choose another --out.")


def write_file(path: Path, content: str | bytes | Iterable[bytes]) -> None:
    """Replaces a file's content at once: a reader sees the old content or the new, never a part.

    What is too large for memory comes in chunks.

    A device or a pipe has no content to replace, so it is written to. Raises ResourceError, which names `path`, where
    it cannot be written.
    """
    if _is_no_file(path):
        with disk_errors(path), path.open("wb") as stream:
            stream.writelines(_chunks(content))
        return
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.getpid()}")
    with disk_errors(path):
        try:
            with temporary.open("wb") as stream:
                stream.writelines(_chunks(content))
            _flush_to_disk(temporary)
            temporary.replace(path)
            _flush_to_disk(path.parent)
        except OSError as error:  # of the temporary file, whose name says nothing to anybody
            if error.errno in _DISK_ERRORS:
                raise
            problem = f"{path} could not be written: {error.strerror or error}. Choose another name or folder."
            raise ResourceError(problem) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def partial_path(path: Path) -> Path:
    """Where `stream_to_file` writes what is to become a file; a link is followed."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}{_PART_SUFFIX}")


@contextlib.contextmanager
def stream_to_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write results to as they come: at `partial_path(path)`, renamed to `path` at the end.

    Left by an error, it stays under its first name, unless it is empty, and what `path` held stays as well. A device or
    a pipe is written to. Raises ResourceError, which names `path`, where it cannot be written.
    """
    if _is_no_file(path):
        with disk_errors(path), path.open("wb") as stream:
            yield stream
        return
    part = partial_path(path)
    try:
        with disk_errors(path):
            with part.open("wb") as stream:
                yield stream
            _flush_to_disk(part)
            part.replace(os.path.realpath(path))
    finally:
        with contextlib.suppress(OSError):
            if not part.stat().st_size:
                part.unlink()


@contextlib.contextmanager
def write_folder(target: Path, facts: dict[str, Any]) -> Iterator[Path]:
    """Gives an empty temporary folder to fill; on success it becomes `target`, with a manifest, in one rename.

    `facts` (JSON values) are kept in the manifest. On an error nothing is left and an existing `target` stays.
    Raises ResourceError where the disk is full.
    """
    temporary = target.with_name(f"{TEMPORARY_PREFIX}{target.name}-{os.getpid()}")
    with disk_errors(target):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            _write_manifest(temporary, facts)
            _rename_into_place(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def verify_folder(folder: Path) -> dict[str, Any]:
    """The manifest of a folder whose every file is as it was written.

    Raises ModelError that names the file which is missing, added, truncated or changed.
    """
    return VerifiedFolder(folder).manifest


class VerifiedFolder:
    """A folder whose every file is as it was written, as long as it is not changed.

    `unread` names files that are large: only their sizes are compared, until `read` gives their content. No other has
    more than `most_bytes`. Raises ModelError as `verify_folder` does.
    """

    def __init__(self, folder: Path, unread: Collection[str] = (), most_bytes: int | None = None) -> None:
        self.path = folder
        content, self.manifest = _read_manifest(folder)
        self.fingerprint = hashlib.sha256(content).hexdigest()[:_FINGERPRINT_DIGITS]
        """The beginning of the manifest's hash, which stands for the content of all files."""
        files = self.manifest["files"]
        present = {path.name for path in folder.iterdir()} - {MANIFEST}
        for name in sorted(present - files.keys()):
            raise _unlisted_error(folder / name)
        for name, facts in files.items():
            path = folder / name
            size = _check_size_on_disk(path, facts)
            if name in unread:
                continue
            if most_bytes is not None and size > most_bytes:
                raise ModelError(f"{path} has {size} bytes, more than any such file ({most_bytes}). {_RESTORE}")
            _check_content(path, sha256_of(path), facts)

    def read(self, name: str) -> bytes:
        """The whole content of a file, which is what was written: it is read once, and that is compared."""
        path, facts = self.path / name, self.manifest["files"][name]
        try:
            with path.open("rb") as stream:
                content = stream.read(facts["bytes"] + 1)
        except OSError as error:
            raise ModelError(f"{path} cannot be read: {error.strerror or error}. {_RESTORE}") from None
        _check_size(path, len(content), facts)
        _check_content(path, hashlib.sha256(content).hexdigest(), facts)
        return content


def verify_file(folder: Path, name: str) -> None:
    """Raises ModelError where this one file of a folder with a manifest is not as it was written."""
    listed, path = _read_manifest(folder)[1]["files"], folder / name
    if name not in listed:
        raise _unlisted_error(path)
    _check_size_on_disk(path, listed[name])
    _check_content(path, sha256_of(path), listed[name])


def _unlisted_error(path: Path) -> ModelError:
    return ModelError(f"{path} does not belong to this model: its manifest does not list it. Remove it.")


def _check_size_on_disk(path: Path, facts: dict[str, Any]) -> int:
    if not path.is_file():
        raise ModelError(f"{path} is missing. {_RESTORE}")
    size = path.stat().st_size
    _check_size(path, size, facts)
    return size


def _check_size(path: Path, size: int, facts: dict[str, Any]) -> None:
    if size != facts["bytes"]:
        raise ModelError(f"{path} has {size} bytes instead of {facts['bytes']}. {_RESTORE}")


def _check_content(path: Path, digest: str, facts: dict[str, Any]) -> None:
    if digest != facts["sha256"]:
        raise ModelError(f"{path} is damaged: its content is not what was written. {_RESTORE}")


def remove_leftovers(folder: Path) -> None:
    """Removes what an interrupted write left in `folder`; what it had moved aside and not yet replaced comes back.

    What another process of this machine is still writing stays.
    """
    for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
        name, _, process = path.name.removeprefix(_OLD_PREFIX).rpartition("-")
        target = folder / name
        if path.name.startswith(_OLD_PREFIX) and not target.exists():
            path.rename(target)
        elif _is_another_process(process):
            continue
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_another_process(number: str) -> bool:
    """Whether a process of that number lives, and is not this one: numbers are given out again."""
    if not number.isdecimal() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def sibling_path(path: Path, ending: str) -> Path:
    """A neighbour with the same name and an ending: demo-corpus of demo, also where demo is given as `.`."""
    named = path.resolve() if path.name in ("", "..") else path
    return named.parent / f"{named.name}{ending}"


def remove_folder(folder: Path) -> None:
    """Removes a folder, which at no time is there in part under its name."""
    doomed = folder.with_name(f"{TEMPORARY_PREFIX}removed-{folder.name}-{os.getpid()}")
    with contextlib.suppress(OSError):
        folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def free_space(folder: Path) -> int:
    """The bytes left on the disk that holds `folder`, or will when it is made."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def require_free_space(folder: Path, needed_bytes: int) -> None:
    """Raises ResourceError where the disk that holds `folder` has less than `needed_bytes` free."""
    free = free_space(folder)
    if free < needed_bytes:
        raise ResourceError(
            f"{folder} has {free / 1e6:.0f} MB of disk space left, but {needed_bytes / 1e6:.0f} MB are needed. "
            "Free some space, or choose another place with --out."
        )


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns a full or read-only disk into a ResourceError that names `path`."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ResourceError(
                f"{path} could not be written: no space left on the disk. Free some space and start again."
            ) from error
        if error.errno in _DISK_ERRORS:
            raise ResourceError(f"{path} could not be written: {error.strerror}. Choose another place.") from error
        raise


_RESTORE = "Restore the folder from where it came."


def _write_manifest(folder: Path, facts: dict[str, Any]) -> None:
    files = {}
    mode = folder.stat().st_mode & 0o666  # as the umask wants it: safetensors makes files only their owner can read
    for path in sorted(folder.iterdir()):
        path.chmod(mode)
        _flush_to_disk(path)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    content = {"files": files, **facts}
    content["sha256"] = hash_json(content)
    path = folder / MANIFEST
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    _flush_to_disk(path)
    _flush_to_disk(folder)


def _read_manifest(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """Its bytes, and what they say."""
    path = folder / MANIFEST
    try:
        if path.exists() and not (path.is_file() and path.stat().st_size <= _MOST_MANIFEST_BYTES):
            raise ValueError
        content = path.read_bytes()
        manifest = json.loads(content.decode("utf-8"))
        stated = manifest.pop("sha256")
        files = manifest["files"]
        sound = stated == hash_json(manifest) and all(
            type(facts["bytes"]) is int and isinstance(facts["sha256"], str) and Path(name).name == name
            for name, facts in files.items()
        )
    except FileNotFoundError:
        raise ModelError(f"{folder} is not a model folder: it has no {MANIFEST}.") from None
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError, OSError):
        sound = False
    if not sound:
        raise ModelError(f"{path} is damaged. {_RESTORE}")
    return content, manifest


def _is_no_file(path: Path) -> bool:
    """Whether it is a device or a pipe."""
    return os.path.exists(path) and not (path.is_file() or path.is_dir())  # and not Path.exists, which may raise


def _chunks(content: str | bytes | Iterable[bytes]) -> Iterable[bytes]:
    if isinstance(content, str):
        return [content.encode()]
    return [content] if isinstance(content, bytes) else content


def hash_json(content: Any) -> str:
    """The SHA-256 of JSON values, in hexadecimal; the order of keys does not count."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _rename_into_place(temporary: Path, target: Path) -> None:
    old = target.with_name(f"{_OLD_PREFIX}{target.name}-{os.getpid()}")
    if target.exists():
        target.rename(old)
    try:
        temporary.rename(target)
        _flush_to_disk(target.parent)
    except BaseException:
        if old.exists():
            if target.exists():
                target.rename(temporary)
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
