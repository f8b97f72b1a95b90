"""The argument parser of all verbs: flags for settings, short and complete help, and errors of one line."""

import argparse
import difflib
import re
import shutil
from argparse import SUPPRESS, ArgumentTypeError
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from dragoman.cli.main import VERBS
from dragoman.config import CORPUS_KEYS, SETTINGS, Setting, settings_of
from dragoman.config.fields import SettingValue, quote_value
from dragoman.config.loading import flag_of, with_current_keys
from dragoman.config.names import RENAMED, describe_removed, name_hint
from dragoman.errors import ConfigError
from dragoman.text.corpus.layout import Layout, layout_of
from dragoman.text.lines import check_encoding
from dragoman.workflows.models import ModelRequest

_NUMBER = re.compile(r"-(\.?\d|inf$|nan$)")
_MARK = "\0"
_BOOL = "true|false"
_FILE = "FILE"
_TAG = "inference.tag"
_COMMON_OF_MODELS = ("inference.beam_size", "inference.batch_tokens", "inference.precision")
_ARGUMENT = r"argument (?:\S*/)?(\S+): "
_REPHRASED = {
    _ARGUMENT + r"expected (?:one|at least one|\d+) arguments?": "`{}` needs a value. {hint}",
    _ARGUMENT + r"ignored explicit argument (.*)": "`{}` takes no value, but is given {}.",
    _ARGUMENT + r"(.*)": "`{}` {}",
    r"unrecognized arguments: (.*)": "`{}` is one argument too many. {hint}",
}
_MOST_COLUMNS = 100
_HELP_COLUMN = 28


class Options(argparse.Namespace):
    """The parsed arguments and flags of a verb."""

    def overrides(self) -> dict[str, str]:
        """The settings among the flags as text by key, for `dragoman.config.load_config`. Replaces old names."""
        given = {key: text for key, text in vars(self).items() if "." in key}
        if (tag := getattr(self, "tag", None)) is not None:
            if given.get(_TAG, tag) != tag:
                raise ConfigError(f"`--tag` and `{flag_of(_TAG)}` are one setting, but are {tag} and {given[_TAG]}.")
            given[_TAG] = tag
        return with_current_keys(given)

    def text_encoding(self) -> str:
        """The encoding that ``--encoding`` names, or "". Raises ConfigError for an unknown name."""
        return check_encoding(self.encoding or "", "`--encoding`")

    def layout(self) -> Layout:
        """The layout of files that the flags of `add_layout_flags` describe. Raises ConfigError."""
        return layout_of(self.encoding or "", self.columns or "", self.header or "auto")

    def model_request(self, *paths: str) -> ModelRequest:
        """The models at the paths, with the device and the settings of the flags. Raises ConfigError."""
        return ModelRequest(paths, self.overrides(), self.device)


class ArgumentParser(argparse.ArgumentParser):
    """argparse for one verb: ``-`` and ``_`` are the same in flags, and every error is a ConfigError of one line.

    ``--help`` shows the verb's own flags and common settings, ``--help-all`` every setting.
    """

    def __init__(self, verb: str, *examples: str) -> None:
        super().__init__(prog=f"dragoman {verb}", description=f"{VERBS[verb]}.", allow_abbrev=False, add_help=False)
        self._negative_number_matcher = _NUMBER  # argparse's own takes -1e-3 for a flag
        self._positionals.title, self._optionals.title = "Arguments", "Flags"
        self.examples = examples
        self._help = self.add_argument_group("Help")
        self._help.add_argument("-h", "--help", action="help", help="Show this help")
        self._help_all = self._help.add_argument("--help-all", action="help", help=SUPPRESS)
        self._section: argparse._ArgumentGroup | None = None
        self._tables: list[argparse._ArgumentGroup] = []
        self._common = argparse._ArgumentGroup(self, "Common settings")  # not one of argparse's own groups
        self._shows_all = False

    def parse(self, arguments: Sequence[str]) -> Options:
        """The arguments after the verb. Raises ConfigError, or SystemExit(0) after ``--help``."""
        self.usage = self.usage_line()
        end = arguments.index("--") if "--" in arguments else len(arguments)
        flags = self._with_values([_with_hyphens(argument) for argument in arguments[:end]])
        self._shows_all = "--help-all" in flags
        self._refuse_unknown_flags(flags)
        self._refuse_second_files(flags)
        # argparse forgets a lone "--" between its passes over flags and the rest: what follows it is marked instead.
        parsed = self.parse_intermixed_args([*flags, *(_MARK + argument for argument in arguments[end + 1 :])])
        return Options(**{name: _without_marks(value) for name, value in vars(parsed).items()})

    def usage_line(self) -> str:
        """The verb with its arguments, such as ``dragoman report RUN [flags]``."""
        return " ".join([self.prog, *map(_usage_of, self._get_positional_actions()), "[flags]"])

    def own_groups(self) -> "list[argparse._ArgumentGroup]":
        """The arguments and flags by heading, without settings and help."""
        return [each for each in self._action_groups if each not in (self._help, *self._tables)]

    def setting_keys(self) -> dict[str, bool]:
        """The keys of all settings that are flags, and whether the short help shows them."""
        common = {action.dest for action in self._common._group_actions}
        actions = [action for table in self._tables for action in table._group_actions]
        return {action.dest: action.dest in common for action in actions if action.help != SUPPRESS}

    def format_help(self) -> str:
        """Usage, description, arguments, flags, examples, and the common settings or all."""
        width = min(_MOST_COLUMNS, shutil.get_terminal_size().columns)
        formatter = argparse.RawDescriptionHelpFormatter(self.prog, max_help_position=_HELP_COLUMN, width=width)
        formatter.add_usage(self.usage, [], [], prefix="Usage: ")
        formatter.add_text(self.description)
        arguments, flags, *more = self.own_groups()
        groups = [arguments, flags, *([] if self._shows_all else [self._common]), *more]
        for group in (*groups, *(self._tables if self._shows_all else []), self._help):
            formatter.start_section(group.title)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        formatter.start_section("Examples")
        formatter.add_text("\n".join(self.examples))
        formatter.end_section()
        return formatter.format_help()

    def start_section(self, title: str) -> None:
        """Print the flags that are added from now on under this heading."""
        self._section = self.add_argument_group(title)

    def add_argument(self, *names: str, **facts: Any) -> argparse.Action:
        """As argparse does, but in the current section."""
        return self._section.add_argument(*names, **facts) if self._section else super().add_argument(*names, **facts)

    def add_flag(
        self, flag: str, metavar: str, text: str, kind: Callable[[str], Any] = str, default: Any = None
    ) -> None:
        """A flag with one value, which `kind` reads; `text` is its help."""
        self.add_argument(flag, metavar=metavar, help=text, type=kind, default=default)

    def add_choice(self, flag: str, choices: Sequence[str], text: str, default: str | None = None) -> None:
        """A flag whose value is one of these words."""
        self.add_flag(flag, "|".join(choices), text, one_of(*choices), default)

    def add_switch(self, flag: str, text: str) -> None:
        """A flag without a value."""
        self.add_argument(flag, action="store_true", help=text)

    def add_languages(self, text: str, default: str | None = None) -> None:
        """``--src-lang`` and ``--tgt-lang``. `text` is the end of their help."""
        for side, name in (("src", "Source"), ("tgt", "Target")):
            self.add_flag(f"--{side}-lang", "LANG", f"{name} language{text}", default=default)

    def add_device(self) -> None:
        """``--device``."""
        text = "Device, such as cuda:1 [default: cuda, mps or cpu]"
        self.add_flag("--device", "NAME", text, default="auto")

    def add_settings(
        self,
        *tables: str,
        common: Collection[str] = (),
        without: Collection[str] = (),
        defaults: str | Mapping[str, str] = {},
    ) -> None:
        """A flag for each setting of the tables, such as ``--train.max-steps 1000``, except the keys in `without`.

        The short help shows the `common` keys only. `defaults` has the defaults that differ from those of the settings,
        by key, or names the source of all defaults.
        """
        self._help_all.help = "Show this help with all settings"
        for table in tables:
            title = f"Settings of [{table}]" + (f" (default: {defaults})" if isinstance(defaults, str) else "")
            group = self.add_argument_group(title)
            self._tables.append(group)
            for setting in (each for each in settings_of(table) if each.key not in without):
                former = {old: SUPPRESS for old, new in RENAMED.items() if new == setting.key}
                for key, text in {setting.key: _help(setting, defaults), **former}.items():
                    action = group.add_argument(
                        flag_of(key), dest=key, default=SUPPRESS, metavar=_metavar(setting), help=text
                    )
                    if key in common:
                        self._common._group_actions.append(action)

    def add_layout_flags(self) -> None:
        """``--columns``, ``--header``, ``--no-header`` and ``--encoding`` of the files that a verb reads."""
        self.add_flag("--columns", "SRC,TGT", "Source and target column of a table: 2,3 or header names or JSON keys")
        self.add_argument("--header", action="store_const", const="yes", help="Skip the first row of a table")
        text = "Keep a first row that looks like a header"
        self.add_argument("--no-header", action="store_const", const="no", dest="header", help=text)
        self.add_encoding_flag()

    def add_encoding_flag(self) -> None:
        """``--encoding`` alone."""
        self.add_flag("--encoding", "NAME", "Encoding of files that are not UTF-8, such as windows-1250")

    def add_model_flags(self, without: Collection[str] = ()) -> None:
        """``--device``, ``--tag`` and the settings of [inference], except the keys in `without`."""
        self.add_device()
        self.add_flag("--tag", "NAME", "Domain or style to translate in, for a model trained with tagged corpora")
        self.add_settings("inference", common=_COMMON_OF_MODELS, without=without, defaults="from the model")

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError instead of printing argparse's message."""
        raise ConfigError(_rephrase(message, self.prog))

    def _with_values(self, flags: Sequence[str]) -> list[str]:
        """The flags, with ``=true`` after boolean settings that have no value: ``--model.norm-first``."""
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
                if removed := describe_removed(flag.removeprefix("--").replace("-", "_"), "flag"):
                    raise ConfigError(f"`{flag}` {removed}")
                visible = [name for name, action in known.items() if action.help != SUPPRESS]
                hint = _flag_hint(flag, visible) or f" See `{self.prog} --help-all`."
                raise ConfigError(f"`{flag}` is not a flag of `{self.prog}`.{hint}")

    def _refuse_second_files(self, arguments: Sequence[str]) -> None:
        """Raise ConfigError for a second file after a flag. Of other flags the last value counts, as in TOML files."""
        seen: dict[str, tuple[str, str]] = {}
        for argument, following in zip(arguments, [*arguments[1:], ""], strict=False):
            flag, equals, value = argument.partition("=")
            action = self._option_string_actions.get(flag)
            if not isinstance(action, argparse._StoreAction) or action.metavar != _FILE:
                continue
            file = value if equals else following
            before, first = seen.setdefault(action.dest, (flag, file))
            if before != flag:
                raise ConfigError(f"`{before}` and `{flag}` are one setting. Leave one out.")
            if first != file:
                raise ConfigError(
                    f"`{flag}` must be one file, but is given twice: {first} and {file}. Leave one out"
                    + ("." if flag == "--output" else ", or put both into one file.")
                )


def argument_type(setting: Setting) -> Callable[[str], SettingValue]:
    """A type for `add_argument`: a value of a setting."""

    def parse(text: str) -> SettingValue:
        try:
            return setting.parse(text, "")
        except ConfigError as error:
            raise ArgumentTypeError(str(error).strip()) from None

    return parse


def one_of(*choices: str) -> Callable[[str], SettingValue]:
    """A type for `add_argument`: one of these words."""
    return argument_type(Setting("", "", str, choices, ""))


def file_name(text: str) -> str:
    """A type for `add_argument`: a file name in UTF-8, not "" (such as the value of an unset shell variable)."""
    if not text:
        raise ArgumentTypeError("is empty. Name a file.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ArgumentTypeError(f"must be a name in UTF-8, but is {quote_value(text)}. Rename the file.")
    return text


def path_name(text: str) -> Path:
    """A type for `add_argument`: a file name as a path."""
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
    """The argument with hyphens instead of underscores in the name of a flag, but not in its value."""
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
    return _FILE if setting.key in CORPUS_KEYS else {bool: _BOOL, int: "N", float: "X", str: "TEXT"}[setting.kind]


def _help(setting: Setting, defaults: str | Mapping[str, str]) -> str:
    own = setting.default if isinstance(setting.default, str) else quote_value(setting.default)
    default = "" if isinstance(defaults, str) else defaults.get(setting.key, own)
    return (f"{setting.help} [default: {default}]" if default else setting.help).replace("%", "%%")


def _rephrase(message: str, prog: str) -> str:
    """An error of argparse in the grammar of our errors."""
    hint = f"See `{prog} --help`."
    if found := re.fullmatch(r"the following arguments are required: (.*)", message):
        names = ", ".join(f"`{name}`" if name.startswith("-") else name for name in found[1].split(", "))
        return f"{names} {'are' if ',' in names else 'is'} missing. {hint}"
    for pattern, text in _REPHRASED.items():
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return text.format(*(each.replace(_MARK, "") for each in found.groups()), hint=hint)
    return f"{message}. {hint}"


def _flag_hint(flag: str, known: Collection[str]) -> str:
    """The hint with the known flag that was probably meant, or "".

    Compares names of other libraries, then names without their table, then letters.
    """
    name = flag.strip("-")
    by_name = {each.rpartition(".")[2].strip("-"): each for each in sorted(known, reverse=True)}
    keys = [key for key in ("out", "batch_sentences", *SETTINGS) if flag_of(key) in known]
    if hint := name_hint(name.rpartition(".")[2], keys, flag_of):
        return hint
    for found in (name, next((each for each in by_name if each.startswith(f"{name}-")), "")):
        if found in by_name:
            return f" Did you mean `{by_name[found]}`?"
    near = difflib.get_close_matches(flag, known, n=1, cutoff=0.7)
    near = near or [by_name[each] for each in difflib.get_close_matches(name, by_name, n=1, cutoff=0.7)]
    return f" Did you mean `{near[0]}`?" if near else ""
