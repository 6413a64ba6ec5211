"""The digest of a workload's source: it changes with whatever changes the network, and with nothing else."""

import itertools
import sys
from pathlib import Path

import pytest

from exporters.pipeline.provenance import source_digest
from servemark.synthesis.layers import Dense
from servemark.synthesis.network import written
from servemark.workload import get
from servemark.workload.registry import load_file


def digest(file: Path, width: int) -> str:
    """The digest of a workload file whose `build` comes from servemark, with a width of its own."""
    file.write_text(written("made", None, (Dense(4, width, 8),), ["given"], ""))
    return source_digest(load_file(file))


def test_a_file_that_takes_its_build_from_a_library_has_its_own_digest(tmp_path: Path) -> None:
    """An older export of the same name would be timed in its place."""
    narrow = digest(tmp_path / "a.py", 16)
    assert narrow == digest(tmp_path / "b.py", 16)
    assert narrow != digest(tmp_path / "c.py", 32)


def test_a_variant_that_takes_its_build_from_another_model_has_its_own_digest() -> None:
    assert source_digest(get("nmt_greedy")) != source_digest(get("nmt"))


@pytest.mark.parametrize(
    ("own", "wanted", "edited"),
    [
        *itertools.product(
            ["from .nets import WIDTH", "from . import nets\nWIDTH = nets.WIDTH"],
            ["WIDTH", "nets"],
            ["__init__.py", "nets.py"],
        ),
        (None, "nets", "nets.py"),  # a package without a file of its own
    ],
)
def test_a_package_beside_the_file_counts_with_what_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None, wanted: str, edited: str
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("mynets", "mynets.nets"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    package, file = tmp_path / "mynets", tmp_path / "a.py"
    package.mkdir()
    (package / "nets.py").write_text("WIDTH = 16\n")
    if own is not None:
        (package / "__init__.py").write_text(f"{own}\n")
    file.write_text(written("made", None, (Dense(4, 16, 8),), ["given"], "") + f"\nfrom mynets import {wanted}\n")
    workload = load_file(file)
    before = source_digest(workload)
    assert source_digest(workload) == before
    (package / edited).write_text(f"{(package / edited).read_text()}MORE = 1\n")
    assert source_digest(workload) != before
