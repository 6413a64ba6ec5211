"""The small install: a wheel and the load generator's packages alone, in a bare environment, drive a server elsewhere.

The wheel is built from the source distribution, so both have all that is needed.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from servemark.figures.registry import value_of
from servemark.paths import CHECKOUT
from servemark.workload import get
from tests.support.locust_run import DEADLINE_S, results_in, server_of
from tools import release

TINY = "ranking_tiny"
HEAVY = ("torch", "onnxruntime", "pytriton", "openvino", "tensorflow")
SHORT = ("--duration", "0.5", "--warmup", "0.1")
Command = Callable[..., subprocess.CompletedProcess[str]]


def needed() -> set[str]:
    """The packages that servemark's metadata asks for without an extra, and what these ask for."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    todo = [(Requirement(text), frozenset({""})) for text in project["dependencies"]]
    found = set[tuple[str, frozenset[str]]]()
    while todo:
        requirement, asked = todo.pop()
        marker = requirement.marker
        each = canonicalize_name(requirement.name), frozenset({"", *requirement.extras})
        if each not in found and (marker is None or any(marker.evaluate({"extra": extra}) for extra in asked)):
            found.add(each)
            todo += [(Requirement(text), each[1]) for text in metadata.requires(each[0]) or []]
    return {name for name, _ in found}


def copied(folder: Path) -> Path:
    """A copy of the checkout: pip builds in it, and the checkout itself may hold an earlier build."""
    for name in ("servemark", "loadgen", "exporters", "servers", "kernels", "dashboards"):
        shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, folder)
    return folder


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """An environment with what `pip install .` puts there; runs a command of it in a folder.

    Nothing is fetched: what is needed, and what builds it, is linked. pip ends where that is not all.
    """
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder / "venv", symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder / "venv")}))
    for name in needed() | {"setuptools"}:
        distribution = metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(str(distribution.locate_file(top)))
    around = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}

    def run(program: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = [str(folder / "venv" / "bin" / program), *arguments]
        return subprocess.run(
            command, cwd=cwd, env=around, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )

    source, wheel = release.build(copied(tmp_path_factory.mktemp("source")), tmp_path_factory.mktemp("dist"))
    assert source.name.endswith(".tar.gz")
    pip = (sys.executable, "-m", "pip", "--python", str(folder / "venv" / "bin" / "python"))
    offline = ("--no-index", "--disable-pip-version-check")
    done = subprocess.run(
        [*pip, "install", *offline, "--no-compile", "--no-warn-conflicts", str(wheel)],
        env={**around, "PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return run


def test_a_server_elsewhere_is_driven(bare: Command, tmp_path: Path) -> None:
    with server_of(get(TINY)) as server:
        load = ("--request-rate", "50", "--request-distribution", "constant", *SHORT)
        done = bare("servemark", "run", TINY, "-u", server.url, *load, "--report", cwd=tmp_path)
    newest = tmp_path / "results" / "latest"
    assert done.returncode in {0, 2}, done.stderr
    assert f"result: {Path('results') / newest.readlink()}" in done.stderr
    result = json.loads((newest / "result.json").read_text())
    assert value_of(result, "requests.answered") == 25
    assert not result["environment"]["packages"].keys() & set(HEAVY)
    assert {path.name for path in newest.iterdir()} >= {"histograms.json", "series.json", "report.html"}
    # Nothing is left beside the installed packages, or anywhere but in the results.
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_suites_and_families_of_kernels_are_listed_there(bare: Command, tmp_path: Path) -> None:
    """The tables of sizes are installed too."""
    done = bare("servemark", "kernels", "--list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "deepbench-server: 279 cases of " in done.stdout


def test_what_init_writes_runs_there(bare: Command, tmp_path: Path) -> None:
    """Also with Locust, which reads ./locustfile.py; no folder of the checkout is named."""
    started = bare("servemark", "init", TINY, cwd=tmp_path)
    assert started.returncode == 0, started.stderr
    with server_of(get(TINY)) as server:
        done = bare(
            "python", "-m", "locust", "--headless", "-H", server.url, "--request-rate", "50", *SHORT, cwd=tmp_path
        )
    assert done.returncode in {0, 2}, done.stderr
    assert len(results_in(tmp_path / "results")) == 2, "the newest one, and its link"
    heavy = bare(
        "python",
        "-c",
        "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])",
        *HEAVY,
        cwd=tmp_path,
    )
    assert heavy.stdout == "[]\n", heavy.stderr
