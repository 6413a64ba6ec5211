"""Versions of an entry as Triton chooses them, and settings that a configuration cannot hold."""

from pathlib import Path

import pytest

from servemark.documents.server import Server
from servemark.errors import OptionError
from servemark.repository.model_config import Settings, parse, same_version, served_versions, version_folders


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    """Folders and a file, of which Triton takes 1, 2 and 10 for versions."""
    for name in ("1", "2", "10", "03", "-4", "v5", "7x", "\u0668", "draft"):
        (tmp_path / name).mkdir()
    (tmp_path / "9").write_text("no folder")
    return tmp_path


def test_folders_with_plain_numbers_are_versions(entry: Path) -> None:
    assert [path.name for path in version_folders(entry)] == ["10", "2", "1"]


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("", ["10"]),
        ("version_policy { latest { num_versions: 2 } }", ["10", "2"]),
        ("version_policy { all { } }", ["10", "2", "1"]),
        ("version_policy { specific { versions: [ 1, 2, 3 ] } }", ["2", "1"]),
        ("version_policy { specific { versions: [ 3 ] } }", []),
    ],
)
def test_a_policy_chooses_among_them(entry: Path, policy: str, served: list[str]) -> None:
    assert [path.name for path in served_versions(entry, parse(policy))] == served


@pytest.mark.parametrize(
    ("asked", "names"), [("1", {"1"}), ("01", {"01", "1"}), ("0", {"0"}), ("v1", {"v1"}), ("9" * 40, {"9" * 40})]
)
def test_names_of_a_version(asked: str, names: set[str]) -> None:
    assert same_version(asked) == names


@pytest.mark.parametrize(
    "asked",
    [Server(device="cuda:99999999999"), Server(device=f"cuda:0,{'9' * 5000}"), Server(instances=3_000_000_000)],
    ids=["a GPU", "digits", "instances"],
)
def test_numbers_that_a_configuration_cannot_hold_are_refused(asked: Server) -> None:
    with pytest.raises(OptionError, match=r"is unknown|is more than a config\.pbtxt can hold"):
        Settings.of(asked)


def test_the_largest_numbers_are_taken() -> None:
    settings = Settings.of(Server(device="cuda:999999999", instances=(1 << 31) - 1))
    assert "count: 2147483647" in settings.apply("")
