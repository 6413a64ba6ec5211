"""Workload files of the user's: each sets `WORKLOAD`, as those of `servemark.models` do.

Its code runs in this process, as the user who named it.
"""

import ast
import functools
import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, update_wrapper
from pathlib import Path
from typing import Any

from servemark import files
from servemark.errors import InputDataError, OptionError, ServemarkError
from servemark.workload.spec import OWN_SUITES, Workload

ATTRIBUTE = "WORKLOAD"
EXAMPLE = 'docs/guides/own_model.md, "A workload file", shows a whole one'


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
        with telling(path, OptionError):
            spec.loader.exec_module(module)
    except ServemarkError:
        del sys.modules[name]
        raise
    return own_workload(getattr(module, ATTRIBUTE, None), path, name)


def own_workload(found: object, path: Path, module: str) -> Workload:
    """Prepare a user's workload: errors of its functions name their line, and its locustfile may lie beside it.

    Raises OptionError if `found` is not a workload.
    """
    if not isinstance(found, Workload):
        raise OptionError(f"{path}: {ATTRIBUTE} is not a Workload but {type(found).__name__}", fix=EXAMPLE)
    return _told(found, path, module)


def _told(workload: Workload, path: Path, module: str) -> Workload:
    beside = path.parent / f"{workload.locustfile}.py"
    return replace(
        workload,
        suites=workload.suites or OWN_SUITES,
        build=_telling_call(workload.build, path),
        samples=_telling_stream(workload.samples, path, OptionError),
        read=workload.read and _telling_stream(workload.read, path, InputDataError),
        labelled=workload.labelled and _telling_call(workload.labelled, path, InputDataError),
        locustfile=str(beside.with_suffix("")) if beside.is_file() else workload.locustfile,
        tiny=workload.tiny and _told(workload.tiny, path, module),
        module=module,
    )


def _telling_call(
    function: Callable[..., Any], path: Path, error_class: type[ServemarkError] = OptionError
) -> Callable[..., Any]:
    def call(*given: object) -> Any:
        with telling(path, error_class):
            return function(*given)

    return update_wrapper(call, function)


def _telling_stream(
    function: Callable[..., Iterator[Any]], path: Path, error_class: type[ServemarkError]
) -> Callable[..., Iterator[Any]]:
    def stream(*given: object) -> Iterator[Any]:
        with telling(path, error_class):
            values = iter(function(*given))
        while True:
            # Not around the yield: what reads the values raises errors of its own.
            with telling(path, error_class):
                try:
                    value = next(values)
                except StopIteration:
                    return
            yield value

    return update_wrapper(stream, function)


@contextmanager
def telling(path: Path, error_class: type[ServemarkError]) -> Iterator[None]:
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


@functools.cache
def _parsed(path: Path, _: int) -> ast.Module:
    with telling(path, OptionError):
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
