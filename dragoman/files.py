"""Write files and folders atomically, and detect damage when they are read.

A folder is written under a temporary name beside its target. Each file is flushed to disk, a manifest with the size and
the SHA-256 of each file is added, and the folder is renamed. `VerifiedFolder` checks the manifest.
"""

import contextlib
import errno
import gzip
import hashlib
import json
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from dragoman.display import one_line
from dragoman.errors import ConfigError, ModelError, ResourceError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

MANIFEST = "manifest.json"
TEMPORARY_PREFIX = ".writing-"
"""The prefix of temporary names."""
_PART_SUFFIX = ".part"
_OLD_PREFIX = f"{TEMPORARY_PREFIX}old-"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_DISK_ERRORS = (*_FULL, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.EFBIG, errno.ENOTDIR)
_MOST_MANIFEST_BYTES = 1 << 20
_FINGERPRINT_DIGITS = 12
_EMPTY_GZIP_BYTES = len(gzip.compress(b""))


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_regular_file(path: Path, most_bytes: int) -> bytes:
    """The content of a file of a folder that another person may have made.

    Raises OSError for a device, a pipe, or a file of more than `most_bytes` bytes.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EINVAL, f"it has more than {most_bytes} bytes", str(path))
    return content


def check_target(path: Path, name: str, example: str) -> None:
    """Raise ConfigError if no file can be written at `path`, without writing. `name` is the flag that set it.

    `example` is a file name for the error message.
    """
    if path.is_dir():
        suggested = Path(example) if (path / MANIFEST).exists() else path / example
        raise ConfigError(f"`{name}` is {path}, which is a folder. Give a file name, such as {suggested}.")
    if (path.parent / MANIFEST).exists():
        raise ConfigError(
            f"`{name}` is {path}, in a model folder, which must not have other files. Choose another folder."
        )
    if not path.parent.is_dir():
        raise ConfigError(f"`{name}` is {path}, but {path.parent} is not a folder. Create it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"`{name}` is {path}, but {path.parent} is not writable. Choose another folder.")


def check_new_folder(path: str | os.PathLike[str], name: str = "--out") -> Path:
    """The path of a folder to write, the value of the flag or argument `name`.

    Raises ConfigError if it is no path, and ModelError if it exists or is inside a model folder.
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"`{name}` must be a path, but is {one_line(path)}.")
    path = Path(path)
    if path.exists():
        raise ModelError(f"{path} exists already. Choose another `{name}`, or remove it.")
    if (path.parent / MANIFEST).exists():
        raise ModelError(f"{path} is in a model folder, which must not have other files. Choose another `{name}`.")
    return path


def write_file(path: Path, content: str | bytes | Iterable[bytes]) -> None:
    """Replace the content of a file atomically: a reader sees the old or the new content, never a part.

    Large content can be an iterable of chunks. A device or a pipe is written to directly. Raises ResourceError, which
    names `path`, if writing fails.
    """
    if is_device(path):
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
        except OSError as error:  # it names the temporary file
            if error.errno in _DISK_ERRORS:
                raise
            problem = f"{path} could not be written: {error.strerror or error}. Choose another name or folder."
            raise ResourceError(problem) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def partial_path(path: Path) -> Path:
    """The path that `stream_to_file` writes to before it renames the file. Follows links."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}{_PART_SUFFIX}")


@contextlib.contextmanager
def stream_to_file(path: Path) -> Iterator[BinaryIO]:
    """A stream to `partial_path(path)`, which is renamed to `path` at the end.

    After an error, the partial file stays unless it is empty, and `path` keeps its old content. A name that ends in
    .gz packs the stream. A device or a pipe is written to directly. Raises ResourceError, which names `path`, if
    writing fails.
    """
    if is_device(path):
        with disk_errors(path), path.open("wb") as stream, _packed(stream, path) as packed:
            yield packed
        return
    part = partial_path(path)
    try:
        with disk_errors(path):
            with part.open("wb") as stream, _packed(stream, path) as packed:
                yield packed
            _flush_to_disk(part)
            part.replace(os.path.realpath(path))
    finally:
        with contextlib.suppress(OSError):
            if part.stat().st_size <= (_EMPTY_GZIP_BYTES if is_packed(path) else 0):
                part.unlink()


@contextlib.contextmanager
def write_folder(target: Path, facts: dict[str, Any], manifest: str = MANIFEST) -> Iterator[Path]:
    """An empty temporary folder to fill. On success it becomes `target`, with a manifest, in one rename.

    The manifest, in the file `manifest`, also has the `facts` (JSON values). After an error, the temporary folder is
    removed and an existing `target` stays. Raises ResourceError if the disk is full.
    """
    temporary = target.with_name(f"{TEMPORARY_PREFIX}{target.name}-{os.getpid()}")
    with disk_errors(target):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            _write_manifest(temporary, facts, manifest)
            _rename_into_place(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def verify_folder(folder: Path) -> dict[str, Any]:
    """The manifest of a folder, after all its files are verified.

    Raises ModelError, which names the file that is missing, added, truncated or changed.
    """
    return VerifiedFolder(folder).manifest


class VerifiedFolder:
    """A folder whose files are verified against its manifest.

    `unread` are the endings of the names of large files. Only their sizes are verified, until `read` returns their
    content. Other files must not have more than `most_bytes` bytes. Raises ModelError as `verify_folder` does.
    """

    def __init__(self, folder: Path, unread: tuple[str, ...] = (), most_bytes: int | None = None) -> None:
        self.path = folder
        content, self.manifest = _read_manifest(folder)
        self.fingerprint = hashlib.sha256(content).hexdigest()[:_FINGERPRINT_DIGITS]
        """The first digits of the hash of the manifest, which identify the content of all files."""
        files = self.manifest["files"]
        present = {path.name for path in folder.iterdir()} - {MANIFEST}
        for name in sorted(present - files.keys()):
            raise _unlisted_error(folder / name)
        for name, facts in files.items():
            path = folder / name
            size = _check_size_on_disk(path, facts)
            if name.endswith(unread):
                continue
            if most_bytes is not None and size > most_bytes:
                raise ModelError(f"{path} must have at most {most_bytes} bytes, but has {size}. {_RESTORE}")
            _check_content(path, sha256_of(path), facts)

    def read(self, name: str) -> bytes:
        """The verified content of a file. It is read only once, so that it cannot change after the check."""
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
    """Verify one file of a folder against the manifest. Raises ModelError."""
    listed, path = _read_manifest(folder)[1]["files"], folder / name
    if name not in listed:
        raise _unlisted_error(path)
    _check_size_on_disk(path, listed[name])
    _check_content(path, sha256_of(path), listed[name])


def _unlisted_error(path: Path) -> ModelError:
    return ModelError(f"{path} is not in the manifest of this model. Remove it.")


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
        raise ModelError(f"{path} is damaged: its hash differs from the manifest. {_RESTORE}")


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders of interrupted writes from `folder`.

    A folder that was moved aside and not yet replaced gets its name back. Files of other running processes stay.
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
    """True if another process with this id is running. This process may have the id of an old one."""
    if not number.isdecimal() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


class TemporaryFolder:
    """A private folder for temporary files, which is removed at `close` or when the process ends.

    After a process that was killed, the next process that makes a `TemporaryFolder` with the same prefix removes its
    folder. A living process holds a lock on its folder, where the system has such locks.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix, self._lock = prefix, -1
        self._turn = threading.Lock()  # of the threads that open it
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            with contextlib.suppress(OSError):
                lock = _lock_folder(path)
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)

    def open(self) -> Path:
        """The folder. It is made if there is none yet, or if a cleaner of temporary folders removed it."""
        with self._turn:
            while self._folder is None or not self._is_there(Path(self._folder.name)):
                self.close()
                self._folder = tempfile.TemporaryDirectory(prefix=self._prefix, ignore_cleanup_errors=True)
                try:
                    self._lock = _lock_folder(Path(self._folder.name))
                except BlockingIOError:  # another process has taken it for abandoned
                    self.close()
                except OSError:  # no locks here
                    break
            return Path(self._folder.name)

    def _is_there(self, path: Path) -> bool:
        """Whether the folder is still the one that was made: another user may have taken its name."""
        with contextlib.suppress(OSError):
            return path.is_dir() if self._lock < 0 else os.path.samestat(os.fstat(self._lock), path.lstat())
        return False

    def close(self) -> None:
        """Remove the folder with its files."""
        if self._folder is not None:
            self._folder.cleanup()
        if self._lock >= 0:
            os.close(self._lock)
        self._folder, self._lock = None, -1


def _lock_folder(path: Path) -> int:
    """A descriptor that locks a folder of this user. Raises BlockingIOError if another process has locked it.

    Raises another OSError if the folder is gone, a link or of another user, or if the file system has no locks.
    """
    if fcntl is None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise PermissionError
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def sibling_path(path: Path, ending: str) -> Path:
    """The path with `ending` after its name: ``demo-corpus`` for ``demo``. Works for ``.`` and ``..`` too."""
    named = path.resolve() if path.name in ("", "..") else path
    return named.parent / f"{named.name}{ending}"


def remove_folder(folder: Path) -> None:
    """Remove a folder, atomically under its name: it is renamed first."""
    doomed = folder.with_name(f"{TEMPORARY_PREFIX}removed-{folder.name}-{os.getpid()}")
    with contextlib.suppress(OSError):
        folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def user_cache_folder(name: str) -> Path:
    """A folder for files that can be made again, in the user's cache. It need not exist.

    A user without a home folder gets a path that can neither be read nor written.
    """
    home = os.path.expanduser("~")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.devnull if home == "~" else home, ".cache")
    return Path(cache, "dragoman", name)


def free_space(folder: Path) -> int:
    """The free bytes of the disk of `folder`, which need not exist yet."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def require_free_space(folder: Path, needed_bytes: int) -> None:
    """Raise ResourceError if the disk of `folder` has less than `needed_bytes` free."""
    free = free_space(folder)
    if free < needed_bytes:
        raise ResourceError(
            f"{folder} needs {needed_bytes / 1e6:.0f} MB of disk space, but {free / 1e6:.0f} MB are left. Free some "
            "space, or choose another disk with `--out`."
        )


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn errors of a full or read-only disk into a ResourceError that names `path`."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ResourceError(
                f"{path} could not be written: no space left on the disk. Free some space, and repeat the command."
            ) from error
        if error.errno in _DISK_ERRORS:
            advice = "Raise the limit: `ulimit -f unlimited`" if error.errno == errno.EFBIG else "Choose another folder"
            raise ResourceError(f"{path} could not be written: {error.strerror}. {advice}.") from error
        raise


_RESTORE = "Restore the folder from a copy."


def _write_manifest(folder: Path, facts: dict[str, Any], name: str) -> None:
    files = {}
    mode = folder.stat().st_mode & 0o666  # follow the umask: safetensors makes files that only their owner can read
    for path in sorted(folder.iterdir()):
        path.chmod(mode)
        _flush_to_disk(path)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    content = {"files": files, **facts}
    content["sha256"] = hash_json(content)
    path = folder / name
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    _flush_to_disk(path)
    _flush_to_disk(folder)


def _read_manifest(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """The bytes of the manifest, and its content without the hash."""
    path = folder / MANIFEST
    try:
        content = read_regular_file(path, _MOST_MANIFEST_BYTES)
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


def is_device(path: Path) -> bool:
    """True for a device or a pipe."""
    return os.path.exists(path) and not (path.is_file() or path.is_dir())  # Path.exists may raise


def is_packed(path: Path) -> bool:
    """True if the content of a file with this name is packed by gzip."""
    return path.suffix.lower() == ".gz"


def _packed(stream: BinaryIO, path: Path) -> contextlib.AbstractContextManager[Any]:
    """The stream, packed by gzip if the name of its file ends in .gz. Equal content gives equal bytes."""
    return gzip.GzipFile("", "wb", 9, stream, 0) if is_packed(path) else contextlib.nullcontext(stream)


def _chunks(content: str | bytes | Iterable[bytes]) -> Iterable[bytes]:
    if isinstance(content, str):
        return [content.encode()]
    return [content] if isinstance(content, bytes) else content


def hash_json(content: Any) -> str:
    """The SHA-256 of JSON values in hexadecimal, independent of the order of keys."""
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
