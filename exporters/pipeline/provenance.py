"""Provenance of an artifact: the versions that write it and its workload's source. An equal one is not made again."""

import ast
import functools
import hashlib
import importlib.util
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from exporters.pipeline.registry import Exporter
from exporters.pipeline.weights import Weights
from servemark import __version__
from servemark.errors import ArtifactError
from servemark.frameworks import distribution_of
from servemark.plugins import names_in
from servemark.workload import Workload
from servemark.workload.registry import ZOO

_NO_CODE = ast.dump(ast.Module([], []))
"""Syntax tree of a file without code, such as most packages' own: it changes no artifact."""


def made_by(workload: Workload, module: Exporter, weights: Weights | None = None) -> dict[str, Any]:
    """Say what an artifact of this workload is made by. Raises ArtifactError where a package is missing."""
    return {
        "weights": weights and weights.facts,
        "versions": {"servemark": __version__, "python": platform.python_version(), **packages(module)},
        "source_sha256": source_digest(workload),
    }


def packages(module: Exporter) -> dict[str, str]:
    """Find the versions that an exporter needs. Raises ArtifactError where one is missing."""
    found = {name: distribution_of(name) for name in ("torch", "numpy", *module.PACKAGES)}
    missing = [name for name, distribution in found.items() if distribution is None]
    if missing:
        raise ArtifactError(
            f"this export needs the package {missing[0]}",
            fix=f"make setup, or pip install -e '.[export,{module.EXTRA}]', in servemark's checkout",
        )
    return {name: distribution[1] for name, distribution in found.items() if distribution}


def source_digest(workload: Workload) -> str:
    """Digest the workload's own file and the modules that it imports, of the zoo and from beside it.

    What is digested is the code: comments, docstrings and layout change no artifact.
    """
    if workload.source:
        return workload.source.digest
    # A file may take `build` from a library or another model, with sizes of its own.
    roots = {workload.module or _of_zoo(workload.name), workload.build.__module__}
    sources = {name: code for root in filter(None, roots) for name, code in _sources_of(root).items()}
    texts = [*(sources[name] for name in sorted(sources)), *filter(None, [workload.made_of])]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _of_zoo(name: str) -> str | None:
    """Return the module of a built-in workload."""
    name = name.removesuffix("_tiny")
    return f"{ZOO}.{name}" if name in names_in(ZOO) else None


def _sources_of(own: str) -> dict[str, str]:
    """Read a module and those that it imports, by name."""
    # A user's file is known to this process alone; a library's module may not be imported yet.
    spec = None if own in sys.modules else importlib.util.find_spec(own)
    beside = Path((spec.origin if spec else sys.modules[own].__file__) or "").parent
    sources: dict[str, str] = {}
    waiting = [own]
    while waiting:
        name = waiting.pop()
        spec = importlib.util.find_spec(name)
        if name not in sources and spec is not None and spec.origin is not None:
            sources[name], imports = _parsed(Path(spec.origin).read_bytes())
            package = name if spec.submodule_search_locations is not None else spec.parent or ""
            waiting += _imports(imports, package, lambda name: _belongs(name, own, beside))
            waiting += [parent for parent in [name.rpartition(".")[0]] if parent and _belongs(parent, own, beside)]
    return {name: source for name, source in sources.items() if source != _NO_CODE}


@functools.cache  # workloads share modules, and each export of a process asks
def _parsed(source: bytes) -> tuple[str, list[ast.Import | ast.ImportFrom]]:
    """Write a module's syntax tree, without docstrings, the texts that stand alone; list its imports."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_text(each)]
    return ast.dump(tree), [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _belongs(name: str, own: str, beside: Path) -> bool:
    """Return True for a module of the zoo or of the workload's package, or for what lies beside a lone file."""
    package = own.rpartition(".")[0]
    if any(f"{name}.".startswith(f"{each}.") for each in (ZOO, package) if each):
        return True
    return not package and _lies_in(beside, name.partition(".")[0])


def _lies_in(folder: Path, name: str) -> bool:
    """Return True for a file, or a package with or without `__init__.py`, that Python takes from this folder."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # it was made without a file, like `__main__`
        return False
    if spec is None:
        return False
    places = [*([spec.origin] if spec.has_location and spec.origin else []), *(spec.submodule_search_locations or [])]
    return any(Path(place).absolute().parent == folder.absolute() for place in places)


def _imports(
    nodes: Sequence[ast.Import | ast.ImportFrom], package: str, belongs: Callable[[str], bool]
) -> Iterator[str]:
    """List the modules of the workload's that a module of a package imports, at its top or within a function."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if belongs(alias.name))
            continue
        module = node.module or ""
        if node.level:
            try:
                module = importlib.util.resolve_name("." * node.level + module, package)
            except ImportError:  # beyond the outermost package, where Python finds nothing either
                continue
        if belongs(module):
            yield module
            spec = importlib.util.find_spec(module)
            if spec is not None and spec.submodule_search_locations is not None:
                yield from (f"{module}.{alias.name}" for alias in node.names)
