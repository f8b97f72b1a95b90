"""Every name of `dragoman` and of its public packages is documented as numpydoc requires."""

from collections.abc import Iterator
from types import ModuleType

import pytest
from numpydoc.validate import validate

import dragoman

PACKAGES = [getattr(dragoman, name) for name in dragoman.__all__ if isinstance(getattr(dragoman, name), ModuleType)]
FOR_TORCH = "extra_repr"  # `print` of a module calls it
# No docstring; parameters missing, unknown or in another order; nothing about the result or what is yielded; no summary
# or one in the third person. Types of parameters are in the signature.
MISTAKES = {"GL08", "PR01", "PR02", "PR03", "RT01", "YD01", "SS01", "SS05"}


def public_objects() -> Iterator[str]:
    """The full names of public functions, classes, and public methods of classes."""
    for module in (dragoman, *PACKAGES):
        for name in module.__all__:
            thing = getattr(module, name)
            if not hasattr(thing, "__qualname__"):
                continue
            yield f"{thing.__module__}.{thing.__qualname__}"
            if isinstance(thing, type):
                methods = (
                    each
                    for each, value in vars(thing).items()
                    if callable(value) or isinstance(value, property | classmethod)
                )
                yield from (
                    f"{thing.__module__}.{thing.__qualname__}.{each}"
                    for each in methods
                    if each[0] != "_" and each != FOR_TORCH
                )


@pytest.mark.parametrize("name", sorted({*public_objects()}))
def test_a_public_name_has_a_complete_docstring(name: str) -> None:
    found = validate(name)["errors"]
    assert [f"{code}: {text}" for code, text in found if code in MISTAKES and "{'self'}" not in text] == []
