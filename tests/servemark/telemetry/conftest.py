"""Every board of a double is visible, whatever the variables of this machine."""

import pytest

from servemark.telemetry.energy.sources import VISIBLE


@pytest.fixture(autouse=True)
def every_board_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", *VISIBLE):
        monkeypatch.delenv(name, raising=False)
