"""Modules that a package finds by their names: a new engine, family or kind is one file."""

import importlib
import pkgutil
from typing import Any


def names_in(package: str) -> list[str]:
    """List the modules of a package, sorted, without packages and names that begin with `_`."""
    found = pkgutil.iter_modules(importlib.import_module(package).__path__)
    return sorted(each.name for each in found if not (each.ispkg or each.name.startswith("_")))


def module_of(package: str, name: str) -> Any:
    """Import a module of a package. Its protocol is the type of the variable that takes it."""
    return importlib.import_module(f"{package}.{name}")


def modules_of(package: str) -> dict[str, Any]:
    """Import all modules of a package, by name."""
    return {name: module_of(package, name) for name in names_in(package)}
