"""What a person can act on: every error a user can cause is one of these.

The message is one line in one grammar: what is wrong (naming the file and line, or the setting and its value),
then the next thing to do. The command line prints it without a traceback and exits with 2.
"""


class DragomanError(Exception):
    """Base of all errors whose message is written for the user."""


class ConfigError(DragomanError):
    """A setting, flag or configuration file is unknown, mistyped, out of range or contradicts another."""


class DataError(DragomanError):
    """A corpus or text file is missing, empty, misaligned, wrongly encoded or malformed."""


class ModelError(DragomanError):
    """A model folder is missing a file, damaged, or not what the caller requested."""


class CheckpointError(ModelError):
    """A run directory or one of its checkpoints cannot be continued."""


class SettingsWarning(FutureWarning):
    """A file or a flag has the old name of a setting."""


class ResourceError(DragomanError):
    """Memory or disk space does not suffice; the message says what would fit."""
