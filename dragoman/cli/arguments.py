"""Flags made from the settings, and errors about flags in the same words as errors about settings."""

import argparse
import difflib
import re
from argparse import SUPPRESS, ArgumentTypeError
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from dragoman.config import CORPUS_KEYS, Setting, settings_of
from dragoman.config.fields import did_you_mean, quote_value
from dragoman.config.history import REMOVED, RENAMED, current_key, describe_removed_flag
from dragoman.config.loading import NAME_HINTS, flag_of, with_current_keys
from dragoman.errors import ConfigError
from dragoman.text.charsets import check_encoding
from dragoman.text.corpus.layout import Layout, layout_of

_NUMBER = re.compile(r"-(\.?\d|inf$|nan$)")
_MARK = "\0"
_FILES = ("F", "FILE")
_BOOL = "true|false"


class ArgumentParser(argparse.ArgumentParser):
    """argparse for one verb: ``-`` and ``_`` are the same in flags, and every error is a ConfigError of one line."""

    def __init__(self, verb: str, description: str) -> None:
        super().__init__(
            prog=f"dragoman {verb}",
            description=description,
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=32, width=110),
        )
        self._negative_number_matcher = _NUMBER  # argparse's own takes -1e-3 for a flag

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The arguments after the verb; raises ConfigError, or SystemExit(0) after ``--help``."""
        self.usage = " ".join([self.prog, *map(_usage_of, self._get_positional_actions()), "[flags]"])
        end = arguments.index("--") if "--" in arguments else len(arguments)
        flags = self._with_values([_with_hyphens(argument) for argument in arguments[:end]])
        self._refuse_unknown_flags(flags)
        self._refuse_second_files(flags)
        # argparse forgets a lone "--" between its passes over flags and the rest: what follows it is marked instead.
        parsed = self.parse_intermixed_args([*flags, *(_MARK + argument for argument in arguments[end + 1 :])])
        return argparse.Namespace(**{name: _without_marks(value) for name, value in vars(parsed).items()})

    def add_flag(
        self,
        flag: str,
        metavar: str,
        text: str,
        kind: Callable[[str], Any] = str,
        default: Any = None,
        required: bool = False,
    ) -> None:
        """A flag with one value, which `kind` reads; `text` is its help."""
        self.add_argument(flag, metavar=metavar, help=text, type=kind, default=default, required=required)

    def add_choice(
        self, flag: str, choices: Sequence[str], text: str, default: str | None = None, required: bool = False
    ) -> None:
        """A flag whose value is one of these words."""
        self.add_flag(flag, "|".join(choices), text, one_of(*choices), default, required)

    def add_switch(self, flag: str, text: str) -> None:
        """A flag without a value."""
        self.add_argument(flag, action="store_true", help=text)

    def add_device(self) -> None:
        """``--device``."""
        self.add_flag("--device", "NAME", "auto (cuda, mps, cpu) or a device by name", default="auto")

    def add_settings(
        self,
        *tables: str,
        without: Sequence[str] = (),
        defaults_from: str = "",
        by_recipe: Collection[str] = (),
        defaults: Mapping[str, str] = {},
    ) -> None:
        """A flag for every setting of the tables, such as ``--train.max-steps 1000``, but for the keys in `without`.

        The rest is for the help text: whose the defaults are where they are not the program's own (`defaults_from`),
        which keys depend on the corpus (`by_recipe`), and the verb's own `defaults` of some.
        """
        for table in tables:
            heading = f"settings of [{table}]"
            group = self.add_argument_group(f"{heading} (default: {defaults_from})" if defaults_from else heading)
            for setting in (each for each in settings_of(table) if each.key not in without):
                text = (setting.help if defaults_from else _help(setting, by_recipe, defaults)).replace("%", "%%")
                former = {old: SUPPRESS for old, new in RENAMED.items() if new == setting.key}
                for key, shown in {setting.key: text, **former}.items():
                    group.add_argument(flag_of(key), dest=key, default=SUPPRESS, metavar=_metavar(setting), help=shown)

    def error(self, message: str) -> NoReturn:
        """Raises ConfigError with argparse's message in our words."""
        raise ConfigError(_in_our_words(message, self.prog))

    def _with_values(self, flags: Sequence[str]) -> list[str]:
        """The flags, those of yes-or-no settings with their value: ``--model.norm-first`` alone is true."""
        completed = []
        for flag, following in zip(flags, [*flags[1:], ""], strict=False):
            action = self._option_string_actions.get(flag)
            alone = action is not None and action.metavar == _BOOL and (not following or following.startswith("-"))
            completed.append(f"{flag}=true" if alone else flag)
        return completed

    def _refuse_unknown_flags(self, arguments: Sequence[str]) -> None:
        known = self._option_string_actions
        for argument in arguments:
            flag = argument.partition("=")[0]
            if flag.startswith("-") and flag != "-" and flag not in known and not _NUMBER.match(flag):
                if (key := flag.removeprefix("--").replace("-", "_")) in REMOVED:
                    raise ConfigError(describe_removed_flag(flag, key))
                visible = [name for name, action in known.items() if action.help != SUPPRESS]
                near = _nearest_flag(flag, visible)
                hint = f" Did you mean `{near}`?" if near else f" `{self.prog} --help` lists them all."
                raise ConfigError(f"`{flag}` is not a flag of `{self.prog}`.{hint}")

    def _refuse_second_files(self, arguments: Sequence[str]) -> None:
        """A setting that comes twice has its last value, as in files; a file that would be left out is not meant."""
        seen: dict[str, str] = {}
        for argument, following in zip(arguments, [*arguments[1:], ""], strict=False):
            flag, equals, value = argument.partition("=")
            action = self._option_string_actions.get(flag)
            is_file = action is not None and (action.metavar in _FILES or current_key(action.dest) in CORPUS_KEYS)
            if not is_file or not isinstance(action, argparse._StoreAction):  # some flags collect what they are given
                continue
            file = value if equals else following
            if seen.setdefault(flag, file) != file:
                raise ConfigError(
                    f"`{flag}` is given twice, as {seen[flag]} and as {file}, of which only the last would count. "
                    "Put both into one file."
                )


def add_layout_flags(parser: ArgumentParser) -> None:
    """``--columns``, ``--header`` and ``--encoding`` of the files that a verb reads."""
    parser.add_flag(
        "--columns",
        "SRC,TGT",
        "columns of a table with source and target, such as 2,3; names of its header or JSON keys work too",
    )
    parser.add_argument("--header", action="store_const", const="yes", help="skip the first row of a table")
    add_encoding_flag(parser)


def add_encoding_flag(parser: ArgumentParser) -> None:
    """``--encoding`` alone."""
    parser.add_flag("--encoding", "NAME", "encoding of files that are not UTF-8, as windows-1250")


def encoding_of(options: argparse.Namespace) -> str:
    """The encoding that the flag of `add_encoding_flag` names, or "". Raises ConfigError where there is no such one."""
    return check_encoding(options.encoding or "", "`--encoding`")


def layout_from(options: argparse.Namespace) -> Layout:
    """What the flags of `add_layout_flags` say. Raises ConfigError."""
    return layout_of(options.encoding or "", options.columns or "", options.header or "auto")


def overrides_of(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings among the parsed flags, for `dragoman.config.load_config`: key -> text, old names replaced."""
    return with_current_keys({key: text for key, text in vars(arguments).items() if "." in key})


def one_of(*choices: str) -> Callable[[str], str]:
    """A type for `add_argument`: one of these words."""

    def choice(text: str) -> str:
        if text not in choices:
            hint = did_you_mean(text, choices)
            raise ArgumentTypeError(f"must be one of {', '.join(choices)}, but is {quote_value(text)}.{hint}")
        return text

    return choice


def file_name(text: str) -> str:
    """A type for `add_argument`: what names a file, and is not the "" of a variable that was never set."""
    if not text:
        raise ArgumentTypeError("is empty. Name a file.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ArgumentTypeError(f"must be a name in UTF-8, but is {quote_value(text)}. Rename the file.")
    return text


def listed_name(text: str) -> str:
    """The same for one of several names that a setting separates by commas."""
    if "," in text:
        raise ArgumentTypeError(f"must have no comma, but is {quote_value(text)}. Give the flag once for each name.")
    return file_name(text)


def path_name(text: str) -> Path:
    """The same, as a path."""
    return Path(file_name(text))


def whole_number(minimum: int, maximum: int = 10**18) -> Callable[[str], int]:
    """A type for `add_argument`: an integer of at least `minimum` and at most `maximum`."""

    def number(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or int(text) < minimum:
            raise ArgumentTypeError(f"must be a whole number of at least {minimum}, but is {quote_value(text)}.")
        if int(text) > maximum:
            raise ArgumentTypeError(f"must be at most {maximum}, but is {quote_value(text)}.")
        return int(text)

    return number


def _with_hyphens(argument: str) -> str:
    """Underscores in a flag's name become hyphens; its value, and what is no flag, stays as it is."""
    flag, equals, value = argument.partition("=")
    return flag.replace("_", "-") + equals + value if flag.startswith("--") else argument


def _without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_marks(item) for item in value]
    if isinstance(value, Path):
        return Path(str(value).removeprefix(_MARK))
    return value.removeprefix(_MARK) if isinstance(value, str) else value


def _usage_of(positional: argparse.Action) -> str:
    name = str(positional.metavar or positional.dest)
    return {"*": f"[{name} ...]", "+": f"{name} ...", "?": f"[{name}]"}.get(str(positional.nargs), name)


def _metavar(setting: Setting) -> str:
    if setting.choices:
        return "|".join(setting.choices)
    return {bool: _BOOL, int: "N", float: "X", str: "TEXT"}[setting.kind]


def _help(setting: Setting, by_recipe: Collection[str], defaults: Mapping[str, str]) -> str:
    if setting.key in by_recipe:
        return f"{setting.help} (default: by the amount of text)"
    own = setting.default if isinstance(setting.default, str) else quote_value(setting.default)
    default = defaults.get(setting.key, own)
    return f"{setting.help} (default {default})" if default else setting.help


def _in_our_words(message: str, prog: str) -> str:
    if found := re.fullmatch(r"argument (\S+): expected (?:one|at least one|\d+) arguments?", message):
        return f"`{_last_name(found[1])}` needs a value. `{prog} --help` says which."
    if found := re.fullmatch(r"argument (\S+): ignored explicit argument (.*)", message):
        return f"`{_last_name(found[1])}` takes no value, but is given {found[2]}."
    if found := re.fullmatch(r"argument (\S+): (.*)", message, re.DOTALL):
        return f"`{_last_name(found[1])}` {found[2]}"
    if found := re.fullmatch(r"the following arguments are required: (.*)", message):
        names = ", ".join(f"`{name}`" if name.startswith("-") else name for name in found[1].split(", "))
        return f"{names} is missing. `{prog} --help` says what goes where."
    if found := re.fullmatch(r"unrecognized arguments: (.*)", message, re.DOTALL):
        return f"`{found[1].replace(_MARK, '')}` is too much. `{prog} --help` says what goes where."
    return f"{message}. `{prog} --help` says what goes where."


def _nearest_flag(flag: str, known: Collection[str]) -> str:
    """The flag that is most likely meant: by another program's name, by a setting's name without its table, by letters.

    Empty where none is near.
    """
    name = flag.strip("-")
    by_name = {each.rpartition(".")[2].strip("-"): each for each in sorted(known, reverse=True)}
    if (key := NAME_HINTS.get(name.replace("-", "_"))) and flag_of(key) in known:
        return flag_of(key)
    for found in (name, next((each for each in by_name if each.startswith(f"{name}-")), "")):
        if found in by_name:
            return by_name[found]
    near = difflib.get_close_matches(flag, known, n=1, cutoff=0.7)
    near = near or [by_name[each] for each in difflib.get_close_matches(name, by_name, n=1, cutoff=0.7)]
    return near[0] if near else ""


def _last_name(names: str) -> str:
    return names.split("/")[-1]
