"""The registry: the zoo's workloads by their modules' names; those of files, folders and packages, and their faults."""

import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exporters.pipeline.provenance import made_by
from exporters.pipeline.registry import exporter
from servemark.errors import InputDataError, OptionError
from servemark.workload import get, registry

WHOLE = '''
"""A model of the user's own."""

from neighbour import WIDTH
from servemark.workload import Quality, Slo, Tensor, Variant, define
import numpy as np


def build(name, sizes):
    raise NotImplementedError("no network yet")


def samples(rng):
    yield {"x": rng.random(WIDTH, dtype=np.float32)}
    raise ValueError("no more")


def read(path):
    return open(path / "nowhere.csv")


WORKLOAD = define(
    "NAME",
    "Mine",
    full=Variant(None, parameters=1, flops=1),
    task="mine",
    suites=("own",),
    inputs=lambda _: (Tensor("x", "FP32", (WIDTH,)),),
    outputs=lambda _: (Tensor("y", "FP32", (1,)),),
    max_batch=8,
    slo=Slo(99, 10),
    quality=Quality("none", None, ""),
    citation="",
    locustfile="classification",
    build=build,
    samples=lambda _, rng: samples(rng),
    read=read,
)
'''


def test_a_built_in_workload_is_found_by_its_module_without_the_others() -> None:
    assert {workload.name: name for name, workload in registry.zoo().items()} == {name: name for name in registry.zoo()}
    asked = "import sys; from servemark.workload import get; get('din_tiny')"
    code = f"{asked}; assert 'servemark.models.ncf' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a workload, a neighbour that it imports, and a locustfile, which must not be imported."""
    (tmp_path / "mine.py").write_text(WHOLE.replace("NAME", "my_model"))
    (tmp_path / "neighbour.py").write_text("WIDTH = 3\n")
    (tmp_path / "locustfile.py").write_text("raise SystemExit\n")
    monkeypatch.setenv(registry.WORKLOADS, str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "neighbour", raising=False)
    return tmp_path


def line_of(path: Path, text: str) -> int:
    return path.read_text().splitlines().index(text) + 1


@pytest.mark.usefixtures("folder")
def test_a_folder_s_workloads_stand_beside_the_zoo_s() -> None:
    assert list(registry.own()) == ["my_model"]
    assert set(registry.names()) == {*registry.zoo(), "my_model"}
    assert get("my_model").inputs[0].shape == (3,)


def test_an_edited_neighbour_makes_another_artifact(folder: Path) -> None:
    module = exporter("pytorch")
    before = made_by(get("my_model"), module)["source_sha256"]
    assert made_by(get("my_model"), module)["source_sha256"] == before
    neighbour = folder / "neighbour.py"
    written = neighbour.read_text()
    neighbour.write_text(f'"""Sizes."""\n\n# All of them.\n{written}\n"""Of the input."""\n')
    assert made_by(get("my_model"), module)["source_sha256"] == before, "comments and docstrings are no code"
    neighbour.write_text(written.replace("3", "4"))
    assert made_by(get("my_model"), module)["source_sha256"] != before


def test_what_its_functions_raise_names_the_line(folder: Path) -> None:
    file, workload = folder / "mine.py", get("my_model")
    line = line_of(file, '    raise NotImplementedError("no network yet")')
    with pytest.raises(OptionError, match=f"{file}:{line}, build: NotImplementedError: no network yet"):
        workload.build()
    stream = workload.samples(np.random.default_rng(0))
    next(stream)
    with pytest.raises(OptionError, match=r"mine\.py:\d+, samples: ValueError: no more"):
        next(stream)
    assert workload.read is not None
    with pytest.raises(InputDataError, match=r"mine\.py:\d+, read: FileNotFoundError"):
        next(workload.read(folder))
    given: Any = (0, np.random.default_rng(0))
    with pytest.raises(OptionError, match=rf"^{file}: TypeError: .* takes 2 positional arguments but 3 were given"):
        next(workload.samples(*given))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("WORKLOAD = 1 / 0", r":1, <module>: ZeroDivisionError: division by zero"),
        ("x = 1\nWORKLOAD = (", r":2: SyntaxError: '\(' was never closed"),
        ("raise SystemExit(3)\nWORKLOAD = 3", r":1, <module>: SystemExit: 3"),
        ("WORKLOAD = 3", r"WORKLOAD is not a Workload but int"),
        ("x = 3", r"does not set WORKLOAD"),
        (WHOLE.replace("NAME", "ranking"), r"'ranking' is a built-in workload"),
        (WHOLE.replace("NAME", "ranking_tiny"), r"'ranking_tiny' is a built-in workload"),
        (WHOLE.replace("NAME", "a/b"), r"'a/b' is not a name for a workload"),
        (WHOLE.replace("NAME", "mine_int8"), r"the name 'mine_int8' ends like a precision"),
        (WHOLE.replace("NAME", "int8"), r"(?s)the name 'int8' ends like a precision.*take another name"),
        (WHOLE.replace("NAME", "my_model"), r"both define 'my_model'"),
    ],
)
def test_a_file_that_is_no_workload_is_told(
    folder: Path, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = folder / "wrong.py"
    wrong.write_text(text)
    monkeypatch.setenv(registry.WORKLOADS, f"{folder / 'mine.py'}:{wrong}")
    with pytest.raises(OptionError, match=said):
        registry.own()
    assert get("ranking").name == "ranking"  # the zoo does not need it


def test_a_place_without_workloads_is_told(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"no Python file in .* sets WORKLOAD"):
        registry.files_of([tmp_path])
    with pytest.raises(OptionError, match="no such file or folder"):
        registry.files_of([tmp_path / "nowhere.py"])


def test_an_installed_package_brings_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = folder / "company"
    package.mkdir()
    shutil.move(folder / "mine.py", package / "model.py")
    (package / "__init__.py").write_text("")
    monkeypatch.delenv(registry.WORKLOADS)
    monkeypatch.syspath_prepend(str(folder))
    point = EntryPoint("my_model", "company.model:WORKLOAD", registry.GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: (point,))
    assert list(registry.own()) == ["my_model"]
    broken = EntryPoint("broken", "company.nowhere:WORKLOAD", registry.GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: (broken,))
    with pytest.raises(OptionError, match="nowhere"):
        registry.own()


def test_a_file_is_read_again_after_an_edit(folder: Path) -> None:
    file = folder / "mine.py"
    first = registry.load_file(file)
    assert registry.load_file(file) is first
    file.write_text(file.read_text().replace('"Mine"', '"Edited"'))
    assert registry.load_file(file).title == "Edited"
