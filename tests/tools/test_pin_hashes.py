"""The file of hashes: what pip reports, beside each pin, and nothing of where it came from."""

import re
from pathlib import Path

import pytest

from servemark.paths import CHECKOUT
from tools.pin_hashes import hashes, head, lines, of_python

LOCKS = [CHECKOUT / f"requirements{part}.lock" for part in ("", ".gpu", ".tensorflow")]
ITEM = {"url": "https://host.example/Some_Name-1.0-py3-none-any.whl"}


def report(name: str, version: str, digest: str) -> dict[str, object]:
    archive = {"archive_info": {"hashes": {"sha256": digest}}}
    return {"install": [{"metadata": {"name": name, "version": version}, "download_info": {**ITEM, **archive}}]}


def test_each_pin_has_the_hashes_of_all_versions_of_python() -> None:
    known = hashes([report("Some_Name", "1.0", "b"), report("some-name", "1.0", "a"), report("some.name", "2.0", "c")])
    lock = ["# head", "some-name==1.0", "", 'Some-Name==2.0 ; python_version >= "3.13"']
    assert lines(lock, known) == [
        "some-name==1.0 --hash=sha256:a --hash=sha256:b",
        'Some-Name==2.0 ; python_version >= "3.13" --hash=sha256:c',
    ]


def test_markers_are_judged_by_the_version_that_is_asked_for() -> None:
    lock = ["# head", 'a==1 ; python_version < "3.13"', 'a==2 ; python_version >= "3.13"', "b==3"]
    assert of_python(lock, "3.11") == of_python(lock, "3.12") == ["a==1", "b==3"]
    assert of_python(lock, "3.13") == ["a==2", "b==3"]


def test_a_pin_without_a_wheel_is_an_error() -> None:
    with pytest.raises(SystemExit, match="no wheel of other==1"):
        lines(["other==1"], {})


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_the_file_is_of_the_lock_as_it_is(lock: Path) -> None:
    """One line for each pin, in the same order, with hashes; `make setup` installs nothing else."""
    text = lock.with_suffix(".hashes").read_text()
    assert text.startswith(head(lock))
    assert "://" not in text
    written = [line for line in text.splitlines() if not line.startswith("#")]
    pins = [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    assert [line.partition(" --hash")[0] for line in written] == pins
    assert all(re.fullmatch(r".*?( --hash=sha256:[0-9a-f]{64}){1,4}", line) for line in written)
