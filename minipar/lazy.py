"""Public names that are loaded at first use, so that what needs no torch starts without it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any


def at_first_use(package: str, **names: Sequence[str]) -> None:
    """Let a package load these names from its submodules when they are first asked for: ``run=["run", "evaluate"]``."""
    module = sys.modules[package]
    module.__dict__["_homes"] = {name: f"{package}.{submodule}" for submodule, those in names.items() for name in those}
    module.__class__ = _Package


class _Package(ModuleType):
    """A package with names that are loaded at first use.

    A function `__getattr__` in the package (PEP 562) would load them too, but only a class can say what is bound:
    Python binds each submodule in its package when it imports it, and `minipar.pipeline.run` would then be the file
    and no longer the function.
    """

    _homes: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        if name not in self._homes:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(self._homes[name]), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._homes or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._homes})

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.__name__,)  # cloudpickle sends modules by name, but knows only plain ones
