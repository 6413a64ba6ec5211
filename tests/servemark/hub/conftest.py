"""Models of libraries without their hub, kept in a folder of the test's own."""

from pathlib import Path
from typing import Any

import pytest

from servemark.hub.blocks import network
from servemark.models.synthesis import images
from tests.support.hub_folders import without_hub

torch = pytest.importorskip("torch")
for library in ("timm", "torchvision", "transformers"):
    pytest.importorskip(library)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_hub(tmp_path, monkeypatch)
    monkeypatch.setattr(images, "POOL_SIZE", 16)  # a picture is drawn after all those before it in the pool


@pytest.fixture
def counted_on(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices on which networks are counted from here on."""
    count, devices = network._counted, []

    def seen(*arguments: Any) -> network.Counted:
        devices.append(next(each for each in arguments if isinstance(each, torch.device)).type)
        return count(*arguments)

    monkeypatch.setattr(network, "_counted", seen)
    return devices
