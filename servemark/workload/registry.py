"""Registry of the workloads: the zoo's, those of installed packages, and the user's own files.

The environment names the user's files, so every process that a command starts sees the same workloads. Such a file sets
`WORKLOAD`, as those of `servemark.models` do; its code runs in this process, as the user who named it.
"""

import ast
import difflib
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, update_wrapper
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from servemark import files
from servemark.errors import InputDataError, OptionError, ServemarkError
from servemark.paths import IMPORTS
from servemark.plugins import module_of, modules_of, names_in
from servemark.workload.agreement import REDUCED
from servemark.workload.imported import MODELS, imported, models_folder
from servemark.workload.spec import OWN_SUITES, Workload

WORKLOADS = "SERVEMARK_WORKLOADS"
"""The environment variable that names workload files and folders, separated by `:`."""
ZOO = "servemark.models"
"""The package of the built-in workloads: each is a module of its name."""
GROUP = "servemark.workloads"
"""The entry points by which an installed package brings workloads."""
ATTRIBUTE = "WORKLOAD"
EXAMPLE = 'docs/guides/own_model.md, "A workload file", shows a whole one'
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


def environment_of(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables of `--workload-file` and `--imports-dir`; a child may run in another folder."""
    places = [str(Path(place).absolute()) for place in given["workload_file"] or ()]
    found = {MODELS: str(Path(given["imports_dir"] or os.environ.get(MODELS) or IMPORTS).absolute())}
    if places:
        found[WORKLOADS] = os.pathsep.join([*places, *_places()])
    return found


def own_files() -> dict[str, Any]:
    """Return the places of the user's workloads and models as options of a request, which a rerun needs."""
    folder = os.environ.get(MODELS, "")
    return {"workload_file": _places(), "imports_dir": folder if folder and Path(folder).is_dir() else ""}


def _places() -> list[str]:
    return [place for place in os.environ.get(WORKLOADS, "").split(os.pathsep) if place]


def own() -> dict[str, Workload]:
    """The workloads that are not the zoo's, by name. Raises OptionError, for a file's fault with file and line."""
    found: dict[str, tuple[Workload, str]] = {}
    sources = [(_of_package(point), f"entry point {point.name}") for point in _entry_points()]
    sources += [(load_file(path), str(path)) for path in files_of([Path(place) for place in _places()])]
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
        fix=f"did you mean {', '.join(near[:-1])} or {near[-1]}? `servemark list` shows all",
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
    with _naming(path, OptionError):
        found = point.load()
    return _prepared(found, path, point.module)


def files_of(places: list[Path]) -> list[Path]:
    """Return the workload files at `places`: a file, or a folder's files that set `WORKLOAD`. Raises OptionError."""
    found = []
    for place in places:
        if place.is_dir():
            inside = [path for path in sorted(place.glob("*.py")) if _defines_workload(path)]
            if not inside:
                raise OptionError(f"no Python file in {place} sets {ATTRIBUTE}", fix=EXAMPLE)
            found += inside
        elif not place.is_file():
            raise OptionError(f"--workload-file {place}: no such file or folder", fix="name a Python file, or a folder")
        elif not _defines_workload(place):
            raise OptionError(f"{place} does not set {ATTRIBUTE}", fix=EXAMPLE)
        else:
            found.append(place)
    return list(dict.fromkeys(path.resolve() for path in found))


def load_file(path: Path) -> Workload:
    """Run a workload file, once for each state of it, and take its `WORKLOAD`. Raises OptionError with the line."""
    return _loaded(path, path.stat().st_mtime_ns)


@cache
def _loaded(path: Path, _: int) -> Workload:
    # Another file may have the same name, and a name of the standard library must not be taken.
    name = f"servemark_workload_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OptionError(f"{path} is not a Python file", fix=EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # at the end: its neighbours can be imported and hide nothing
    try:
        with _naming(path, OptionError):
            spec.loader.exec_module(module)
    except ServemarkError:
        del sys.modules[name]
        raise
    return _prepared(getattr(module, ATTRIBUTE, None), path, name)


def _prepared(found: object, path: Path, module: str) -> Workload:
    """Prepare a user's workload: errors of its functions name their line, and its locustfile may lie beside it.

    Raises OptionError if it is not a workload.
    """
    if not isinstance(found, Workload):
        raise OptionError(f"{path}: {ATTRIBUTE} is not a Workload but {type(found).__name__}", fix=EXAMPLE)
    beside = path.parent / f"{found.locustfile}.py"
    return replace(
        found,
        suites=found.suites or OWN_SUITES,
        build=_naming_call(found.build, path),
        samples=_naming_stream(found.samples, path, OptionError),
        read=found.read and _naming_stream(found.read, path, InputDataError),
        labelled=found.labelled and _naming_call(found.labelled, path, InputDataError),
        locustfile=str(beside.with_suffix("")) if beside.is_file() else found.locustfile,
        tiny=found.tiny and _prepared(found.tiny, path, module),
        module=module,
    )


def _naming_call(
    function: Callable[..., Any], path: Path, error_class: type[ServemarkError] = OptionError
) -> Callable[..., Any]:
    def call(*given: object) -> Any:
        with _naming(path, error_class):
            return function(*given)

    return update_wrapper(call, function)


def _naming_stream(
    function: Callable[..., Iterator[Any]], path: Path, error_class: type[ServemarkError]
) -> Callable[..., Iterator[Any]]:
    def stream(*given: object) -> Iterator[Any]:
        with _naming(path, error_class):
            values = iter(function(*given))
        while True:
            # Not around the yield: what reads the values raises errors of its own.
            with _naming(path, error_class):
                try:
                    value = next(values)
                except StopIteration:
                    return
            yield value

    return update_wrapper(stream, function)


@contextmanager
def _naming(path: Path, error_class: type[ServemarkError]) -> Iterator[None]:
    """Run code of a user's file: its exceptions become errors that name the file, the line and the message."""
    try:
        yield
    except ServemarkError:
        raise
    except SyntaxError as error:
        where = f"{error.filename or path}:{error.lineno or 1}"
        raise error_class(f"{where}: {type(error).__name__}: {error.msg}", fix=f"mend {path.name}") from error
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).parent == path.parent]
        # none, if the call itself was wrong: another number of arguments
        place = f"{own[-1].filename}:{own[-1].lineno}, {own[-1].name}" if own else str(path)
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise error_class(f"{place}: {words}", fix=f"mend {Path(own[-1].filename if own else path).name}") from error


@cache
def _parsed(path: Path, _: int) -> ast.Module:
    with _naming(path, OptionError):
        return ast.parse(files.content(path, files.CODE_BYTES), str(path))


def _defines_workload(path: Path) -> bool:
    """Return True if a file sets `WORKLOAD`. Its code does not run, because it may be a locustfile."""
    tree = _parsed(path, path.stat().st_mtime_ns)
    targets = [
        target
        for node in tree.body
        for target in (node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)])
    ]
    return any(isinstance(target, ast.Name) and target.id == ATTRIBUTE for target in targets)
