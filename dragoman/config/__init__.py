"""Every setting, its default, its range and its help text, and how a configuration is read, checked and written.

`settings` is the one place where settings are defined, one frozen dataclass per TOML table; `fields` describes and
checks single values, `checking` what values must hold between them, `loading` reads files and flags.
"""

from dragoman.config.checking import check_config
from dragoman.config.fields import SETTINGS, Setting, settings_of
from dragoman.config.loading import (
    GivenSettings,
    LoadedConfig,
    config_from_dict,
    dump_config,
    load_config,
    read_config,
    read_given,
)
from dragoman.config.settings import (
    CORPUS_FILES,
    CORPUS_KEYS,
    PRESETS,
    WITHOUT_SAMPLING,
    Config,
    DataSettings,
    InferenceSettings,
    ModelSettings,
    TokenizerSettings,
    TrainSettings,
    ValidateSettings,
)

__all__ = [
    "CORPUS_FILES",
    "CORPUS_KEYS",
    "PRESETS",
    "SETTINGS",
    "WITHOUT_SAMPLING",
    "Config",
    "DataSettings",
    "GivenSettings",
    "InferenceSettings",
    "LoadedConfig",
    "ModelSettings",
    "Setting",
    "TokenizerSettings",
    "TrainSettings",
    "ValidateSettings",
    "check_config",
    "config_from_dict",
    "dump_config",
    "load_config",
    "read_config",
    "read_given",
    "settings_of",
]
