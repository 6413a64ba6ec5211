"""Suites with models of libraries: without their hub, kept in a folder of the test's own."""

from pathlib import Path

import pytest

from tests.support.hub_folders import without_hub

for library in ("torch", "timm", "torchvision", "transformers"):
    pytest.importorskip(library)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_hub(tmp_path, monkeypatch)
