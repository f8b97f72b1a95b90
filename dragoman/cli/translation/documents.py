"""Documents for ``dragoman translate``: one file, or every file of a folder, each on its own."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from dragoman.cli.translation.output import Notes
from dragoman.display import say
from dragoman.errors import ConfigError, DataError
from dragoman.files import check_target
from dragoman.records import Preserve, Translation
from dragoman.text.documents.document import Document, kind_of_path
from dragoman.text.documents.kinds import DOCUMENTS, kind_of_name
from dragoman.workflows.bilingual import Review
from dragoman.workflows.documents import translate_segments, write_document
from dragoman.workflows.models import LoadedTranslator
from dragoman.workflows.progress import TerminalProgress

_LONGEST_NAME = 60
_MOST_LISTED = 5


@dataclass(frozen=True, slots=True)
class DocumentTranslator:
    """Translates documents as the flags tell.

    `split` is whether each sentence is translated alone. If it is None, the format of a document decides.
    """

    model: LoadedTranslator
    preserve: Preserve
    split: bool | None = None
    review: Review = field(default_factory=Review)

    def translate(self, document: Document, stage: str = "translating") -> bytes:
        """The translated file. Notes about its texts are printed."""
        by_sentence = self.preserve.by_sentence or document.by_sentence if self.split is None else self.split
        preserve = replace(self.preserve, by_sentence=by_sentence)
        with Notes() as notes:

            def note(translation: Translation) -> None:
                """Note a fault, with the start of the text as its name, because a document has no useful lines."""
                text = translation.src
                name = repr(text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…")
                notes.faults(name, translation)

            review = replace(self.review, note=note)
            return translate_segments(document, self.model, preserve, review, TerminalProgress(), stage)


@dataclass(frozen=True, slots=True)
class DocumentFolder:
    """A folder with documents, and the folder for their translations, which get the same names.

    A file that cannot be read does not stop the others. One whose translation exists is left out, so that a stopped
    command continues. Raises ConfigError if the output cannot be that folder.
    """

    source: Path
    output: Path

    def __post_init__(self) -> None:
        if self.output.exists() and not self.output.is_dir():
            raise ConfigError(f"`--input` is a folder, but `--output` {self.output} is a file. Name a folder.")
        if Path(os.path.realpath(self.output)).is_relative_to(os.path.realpath(self.source)):
            raise ConfigError(f"`--output` {self.output} is the folder of `--input`, or in it. Choose one outside.")
        if not self.output.is_dir():
            check_target(self.output, "--output", "translated")

    def translate(self, translator: DocumentTranslator, read: Callable[[Path], Document]) -> None:
        """Translate all documents, and print a summary. Raises DataError at the end if some could not be read."""
        done, there, refused, others = 0, 0, 0, list[str]()
        for path in self._files():
            target = self.output / path.relative_to(self.source)
            try:
                if not _is_document(path):
                    others.append(str(path.relative_to(self.source)))
                elif target.exists():
                    there += 1
                else:
                    translated = translator.translate(read(path), f"translating {path}")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    write_document(translated, target)
                    done += 1
            except DataError as error:
                say(str(error))
                refused += 1
            except OSError as error:  # such as a file in place of a folder
                say(f"{target} cannot be written: {error.strerror}. Rename it, or choose another `--output`.")
                refused += 1
        parts = [f"{done:,} translated to {self.output}"]
        parts += [f"{there:,} left out, because their translations exist"] * bool(there)
        parts += [f"{refused:,} refused, as said above"] * bool(refused)
        if others:
            named = ", ".join(others[:_MOST_LISTED]) + ", ..." * (len(others) > _MOST_LISTED)
            parts.append(f"{len(others):,} of other kinds left out ({named})")
        summary = f"files in {self.source}: {'; '.join(parts)}."
        if not (done or there or refused):
            raise DataError(f"{self.source} has no documents that are translated. Name another folder.")
        if refused:
            raise DataError(summary)
        say(summary)

    def _files(self) -> Iterator[Path]:
        """All files and links, in order. Hidden ones and the lock files of office programs are left out."""
        for folder, folders, names in os.walk(self.source, onerror=_refuse_folder):
            links = [name for name in folders if Path(folder, name).is_symlink()]
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            found = (Path(folder, name) for name in sorted([*names, *links]) if not name.startswith((".", "~$")))
            yield from (path for path in found if path.is_file() or path.is_symlink())


def _refuse_folder(error: OSError) -> None:
    raise DataError(f"{error.filename} cannot be read: {error.strerror}. Change its permissions, or leave it out.")


def _is_document(path: Path) -> bool:
    """Whether a file in a folder is meant: a document, also of a kind that is not read, or a text by its name."""
    if path.is_dir():
        return False
    kind = kind_of_path(path)
    if kind is None:
        return path.suffix.lower() == ".txt"
    is_named = kind_of_name(path) is not None or not path.suffix
    return is_named and (kind.name in DOCUMENTS or not kind.is_text)
