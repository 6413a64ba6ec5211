"""Provenance of an artifact: the versions that write it and its workload's source. An equal one is not made again."""

import ast
import hashlib
import importlib.util
import platform
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from exporters.pipeline.registry import Exporter
from exporters.pipeline.weights import Weights
from servemark import __version__
from servemark.errors import ArtifactError
from servemark.workload import Workload

ZOO = "servemark.models"


def made_by(workload: Workload, module: Exporter, weights: Weights | None = None) -> dict[str, Any]:
    """Say what an artifact of this workload is made by. Raises ArtifactError where a package is missing."""
    return {
        "weights": weights and weights.facts,
        "versions": {"servemark": __version__, "python": platform.python_version(), **packages(module)},
        "source_sha256": source_digest(workload),
    }


def packages(module: Exporter) -> dict[str, str]:
    """Find the versions that an exporter needs. Raises ArtifactError where one is missing."""
    try:
        return {name: version(name) for name in ("torch", "numpy", *module.PACKAGES)}
    except PackageNotFoundError as error:
        raise ArtifactError(
            f"this export needs the package {error.name}", fix=f"pip install -e '.[export,{module.EXTRA}]'"
        ) from error


def source_digest(workload: Workload) -> str:
    """Digest the workload's own file and the modules that it imports, of the zoo and from beside it."""
    if workload.source:
        return workload.source.digest
    own = workload.build.__module__
    beside = Path(sys.modules[own].__file__ or "").parent
    sources: dict[str, bytes] = {}
    waiting = [own]
    while waiting:
        name = waiting.pop()
        spec = importlib.util.find_spec(name)
        if name not in sources and spec is not None and spec.origin is not None:
            sources[name] = Path(spec.origin).read_bytes()
            waiting += _imports(sources[name], lambda name: _belongs(name, own, beside))
    return hashlib.sha256(b"".join(sources[name] for name in sorted(sources))).hexdigest()


def _belongs(name: str, own: str, beside: Path) -> bool:
    """Return True for a module of the zoo or of the workload's package, or for a file beside a lone workload file."""
    package, first = own.rpartition(".")[0], name.partition(".")[0]
    if any(f"{name}.".startswith(f"{each}.") for each in (ZOO, package) if each):
        return True
    return not package and ((beside / f"{first}.py").is_file() or (beside / first / "__init__.py").is_file())


def _imports(source: bytes, belongs: Callable[[str], bool]) -> Iterator[str]:
    """List the modules of the workload's that a module imports, at its top or within a function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if belongs(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module and belongs(node.module):
            spec = importlib.util.find_spec(node.module)
            if spec is not None and spec.submodule_search_locations is not None:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            else:
                yield node.module
