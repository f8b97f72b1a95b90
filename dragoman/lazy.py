"""Public names of a package that are imported on first use, so that ``import dragoman`` and ``--help`` stay fast."""

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from dragoman.errors import needs_train_extra


def import_lazily(package: str, public: Iterable[str], modules: Mapping[str, Iterable[str]]) -> None:
    """Give a package the functions `__getattr__` and `__dir__`, which know its public names before they are imported.

    `modules` lists the names by the module below the package that has them (".records": beside the package). Other
    public names are modules of the package. Type checkers do not see `__getattr__`, so they find names that are wrong.
    """
    places = {name: f".{module}" for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in public:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if name not in places:
            return import_module(f".{name}", package)
        with needs_train_extra(f"`{package}.{name}`"):
            value = getattr(import_module(places[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    vars(sys.modules[package]).update(__getattr__=get, __dir__=lambda: sorted(public))
