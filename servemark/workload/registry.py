"""Registry of the workloads: the zoo's, those of installed packages, and the user's own files.

The environment names the user's files, so every process that a command starts sees the same workloads.
"""

import difflib
import importlib
import os
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from servemark.errors import OptionError
from servemark.plugins import module_of, modules_of, names_in
from servemark.workload.agreement import REDUCED
from servemark.workload.imported import imported, models_folder
from servemark.workload.own_files import files_of, load_file, own_workload, telling
from servemark.workload.spec import Workload

WORKLOADS = "SERVEMARK_WORKLOADS"
"""The environment variable that names workload files and folders, separated by `:`."""
ZOO = "servemark.models"
"""The package of the built-in workloads: each is a module of its name."""
GROUP = "servemark.workloads"
"""The entry points by which an installed package brings workloads."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_TINY = "_tiny"
NEAREST = 3
"""Names that are suggested in place of an unknown one."""


class UnknownWorkloadError(OptionError):
    """A name that no workload has."""


@cache
def zoo() -> dict[str, Workload]:
    """The built-in workloads by name, in order of name, without the tiny variants."""
    return {name: module.WORKLOAD for name, module in modules_of(ZOO).items()}


def own() -> dict[str, Workload]:
    """The workloads that are not the zoo's, by name. Raises OptionError, for a file's fault with file and line."""
    found: dict[str, tuple[Workload, str]] = {}
    sources = [(_of_package(point), f"entry point {point.name}") for point in _entry_points()]
    places = [Path(place) for place in os.environ.get(WORKLOADS, "").split(os.pathsep) if place]
    sources += [(load_file(path), str(path)) for path in files_of(places)]
    brought = imported() | _of_libraries().kept_models()
    sources += [(workload, str(models_folder() / name)) for name, workload in brought.items()]
    for workload, source in sources:
        check_name(workload.name, source)
        if workload.name in found:
            raise OptionError(
                f"{source} and {found[workload.name][1]} both define {workload.name!r}", fix="rename one of them"
            )
        found[workload.name] = workload, source
    return {name: workload for name, (workload, _) in sorted(found.items())}


def workloads() -> dict[str, Workload]:
    """All workloads by name, in order of name, without the tiny variants. Raises OptionError."""
    return dict(sorted((zoo() | own()).items()))


def names() -> list[str]:
    """Names of all workloads, sorted. Raises OptionError."""
    return list(workloads())


def get(name: str) -> Workload:
    """Look up a workload, or the tiny variant of one as `<name>_tiny`. Raises UnknownWorkloadError with the nearest."""
    # A user's broken file does not keep the zoo's workloads from running.
    found = _of_zoo(name) or _named(name, own())
    if found is not None:
        return found
    of_library: Workload | None = _of_libraries().described(name)
    if of_library is not None:
        return of_library
    known = workloads()
    near = difflib.get_close_matches(name, known, n=NEAREST, cutoff=0)
    raise UnknownWorkloadError(
        f"unknown workload {name!r}",
        fix=f"did you mean {', '.join(near[:-1])} or {near[-1]}? `servemark list` shows all; "
        "--url URL where a server has this model",
    )


@cache
def _of_zoo(name: str) -> Workload | None:
    """Import the module of a built-in workload; all of them would take each command a tenth of a second."""
    full = name.removesuffix(_TINY)
    return _named(name, {full: module_of(ZOO, full).WORKLOAD}) if full in names_in(ZOO) else None


def _named(name: str, known: Mapping[str, Workload]) -> Workload | None:
    full = known.get(name.removesuffix(_TINY))
    return known.get(name) or (full.tiny if full is not None else None)


def check_name(name: str, source: str) -> None:
    """Check the name of a user's workload, which becomes part of a folder's name. Raises OptionError."""
    if not _NAME.fullmatch(name):
        raise OptionError(
            f"{source}: {name!r} is not a name for a workload",
            fix="use letters, digits, '_', '-' and '.', like my_model",
        )
    last = name.rpartition("_")[2]
    if last in REDUCED:
        fix = "take another name" if name == last else f"leave out _{last}"
        raise OptionError(f"{source}: the name {name!r} ends like a precision", fix=fix)
    if name.removesuffix(_TINY) in names_in(ZOO):
        raise OptionError(f"{source}: {name!r} is a built-in workload", fix="take another name")


def _of_libraries() -> Any:
    """Return the module of libraries' models, which makes workloads as this one finds them."""
    return module_of("servemark.hub.blocks", "description")


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


@cache
def _of_package(point: EntryPoint) -> Workload:
    """Load the workload of an installed package: `name = "package.module:WORKLOAD"`. Raises OptionError."""
    spec = importlib.util.find_spec(point.module)
    path = Path(spec.origin) if spec and spec.origin else Path(point.module)
    with telling(path, OptionError):
        found = point.load()
    return own_workload(found, path, point.module)
