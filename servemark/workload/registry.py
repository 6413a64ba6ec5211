"""Finds the workloads: every module of `servemark.models` defines one `WORKLOAD`."""

import difflib
import importlib
import pkgutil
from functools import cache

from servemark.errors import OptionError
from servemark.workload.spec import Workload


@cache
def workloads() -> dict[str, Workload]:
    """All workloads of the zoo by name, in order of name, without the tiny variants."""
    package = importlib.import_module("servemark.models")
    found = {}
    for module in pkgutil.iter_modules(package.__path__):
        if not module.ispkg:
            workload: Workload = importlib.import_module(f"{package.__name__}.{module.name}").WORKLOAD
            found[workload.name] = workload
    return dict(sorted(found.items()))


def names() -> list[str]:
    """Names of all workloads, sorted."""
    return list(workloads())


def get(name: str) -> Workload:
    """Look up a workload, or the tiny variant of one as `<name>_tiny`. Raises OptionError with the nearest name."""
    zoo = workloads()
    if name in zoo:
        return zoo[name]
    full = zoo.get(name.removesuffix("_tiny"))
    if full is not None and full.tiny is not None:
        return full.tiny
    near = difflib.get_close_matches(name, zoo, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise OptionError(f"unknown workload {name!r}", fix=f"{hint}`servemark list` shows all: {', '.join(zoo)}")
