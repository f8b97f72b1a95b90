"""The settings of Dragoman, and how to read, check and write them.

- `settings` defines all settings, one frozen dataclass per TOML table.
- `fields` checks single values, `checking` checks rules between settings.
- `names` knows renamed and removed settings, and the words of other libraries.
- `corpora` reads the list of corpora of a run that has several.
- `loading` reads and writes configurations, also from untrusted files.
- `recipes` has the default settings for a corpus of a given size.
"""

from dragoman.config.checking import check_config
from dragoman.config.fields import Setting
from dragoman.config.loading import GivenSettings, config_from_dict, dump_config, load_config, read_config, read_given
from dragoman.config.settings import (
    CORPUS_FILES,
    CORPUS_KEYS,
    CORPUS_SETTINGS,
    PRESETS,
    SETTINGS,
    WITHOUT_SAMPLING,
    Config,
    CorpusSettings,
    DataSettings,
    InferenceSettings,
    ModelSettings,
    TokenizerSettings,
    TrainSettings,
    ValidateSettings,
    settings_of,
)

__all__ = [
    "CORPUS_FILES",
    "CORPUS_KEYS",
    "CORPUS_SETTINGS",
    "PRESETS",
    "SETTINGS",
    "WITHOUT_SAMPLING",
    "Config",
    "CorpusSettings",
    "DataSettings",
    "GivenSettings",
    "InferenceSettings",
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
