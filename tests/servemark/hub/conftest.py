"""Models of libraries without their hub, kept in a folder of the test's own."""

from pathlib import Path

import pytest

from servemark.models.synthesis import images
from tests.support.hub_folders import without_hub

for library in ("torch", "timm", "torchvision", "transformers"):
    pytest.importorskip(library)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_hub(tmp_path, monkeypatch)
    monkeypatch.setattr(images, "POOL_SIZE", 16)  # a picture is drawn after all those before it in the pool
