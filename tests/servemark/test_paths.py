"""Paths as they are printed."""

from pathlib import Path

import pytest

from servemark.paths import shown


@pytest.mark.parametrize(
    ("path", "words"),
    [("{here}/results/a", "results/a"), ("results/a", "results/a"), ("{here}", "."), ("/elsewhere/b", "/elsewhere/b")],
)
def test_a_path_is_shown_as_it_can_be_typed(
    path: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(Path(path.format(here=tmp_path))) == words
