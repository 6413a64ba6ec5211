"""Data sheets: found by the driver's name of a board, and never another board's."""

import pytest

from kernels.ceilings.vendor import SHEETS, promised, sheet_of
from kernels.measurement.precisions import PRECISIONS
from servemark.stats.unknown import unknown


@pytest.mark.parametrize(
    ("board", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 80GB HBM3"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A10", "A10"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100-SXM2"),
    ],
)
def test_a_board_has_its_own_sheet(board: str, name: str) -> None:
    assert sheet_of(board) == SHEETS[name]


@pytest.mark.parametrize("board", ["NVIDIA L40", "NVIDIA A10G", "NVIDIA A100-SXM4-96GB", "NVIDIA T400"])
def test_another_board_has_none(board: str) -> None:
    assert sheet_of(board) is None
    assert promised(board, "fp32") == (unknown(f"no data sheet of {board} is known here"),) * 2


def test_sheets_are_of_known_precisions_and_narrower_ones_are_not_slower() -> None:
    for sheet in SHEETS.values():
        rates = [sheet.tflops[name] for name in PRECISIONS if name in sheet.tflops]
        assert rates == sorted(rates)
        assert set(sheet.tflops) <= set(PRECISIONS)


def test_a_precision_that_the_board_lacks_has_a_reason() -> None:
    assert promised("Tesla T4", "bf16") == (unknown("the data sheet has no bf16"), 320)
