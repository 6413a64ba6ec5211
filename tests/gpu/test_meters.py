"""The meters of a real GPU: what NVML says of it idle and under load."""

import time

import pytest

from servemark.telemetry import energy
from servemark.telemetry.sampler import Gpus

pytestmark = pytest.mark.gpu


def multiply(seconds: float) -> None:
    """Keep the first GPU busy."""
    import torch

    matrix = torch.randn(4096, 4096, device="cuda:0")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(10):
            torch.mm(matrix, matrix)
        torch.cuda.synchronize()


def test_every_figure_of_a_board_is_read() -> None:
    found = Gpus([0]).read()
    assert not {column.name: value for column, value in found.items() if isinstance(value, str)}


def test_a_busy_board_uses_more_than_an_idle_one() -> None:
    meter, reason = energy.open_meter("gpu_board", gpus=[0])
    assert meter is not None, reason
    multiply(0.5)
    time.sleep(2)
    readings = []
    for act in (time.sleep, multiply):
        meter.start()
        act(3)
        readings.append(meter.stop())
    idle, busy = readings
    assert idle.average_w is not None, idle.reason
    assert busy.average_w is not None, busy.reason
    assert busy.average_w > 1.2 * idle.average_w
    assert busy.boundary == "gpu_board"
