"""The digest of a workload's source: it changes with whatever changes the network, and with nothing else."""

from pathlib import Path

from exporters.pipeline.provenance import source_digest
from servemark.synthesis.layers import Dense
from servemark.synthesis.network import written
from servemark.workload.own_files import load_file


def digest(file: Path, width: int) -> str:
    """The digest of a workload file whose `build` comes from servemark, with a width of its own."""
    file.write_text(written("made", None, (Dense(4, width, 8),), ["given"], ""))
    return source_digest(load_file(file))


def test_a_file_that_takes_its_build_from_a_library_has_its_own_digest(tmp_path: Path) -> None:
    """An older export of the same name would be timed in its place."""
    narrow = digest(tmp_path / "a.py", 16)
    assert narrow == digest(tmp_path / "b.py", 16)
    assert narrow != digest(tmp_path / "c.py", 32)
