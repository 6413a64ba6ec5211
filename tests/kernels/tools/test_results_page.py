"""The page of kernels: a summary of each suite by family, with what was not measured."""

from pathlib import Path

import pytest

from kernels.tools.results_page import page, table
from servemark.errors import ResultError
from servemark.results import directory as results
from servemark.results.schema.header import SCHEMA_VERSION, opening
from servemark.views.blocks import Table
from tests.support.saved_documents import kernels


def test_columns_that_say_the_same_are_left_out() -> None:
    rows = [["a", "fp32", "torch", "1"], ["b", "fp32", "openvino", "2"]]
    assert table(Table(["case", "precision", "library", "ms"], rows)).splitlines() == [
        "| case | library | ms |",
        "|---|---|--:|",
        "| a | torch | 1 |",
        "| b | openvino | 2 |",
    ]


def test_a_page_says_what_was_measured_and_what_was_not(tmp_path: Path) -> None:
    results.write(tmp_path, kernels({**opening()}))
    text = "\n".join(page([tmp_path]))
    assert "\n## quick\n" in text
    assert "| softmax | 1 | 0 | 0 | 3.20 | 5.12 | memory 1 | 51% |" in text
    assert "rows=64 width=100 |" not in text  # single cases are those of `servemark show`
    assert "- FAILED gemm rows=64 width=100 fp32: wrong: off by 1" in text
    assert "- 5 cases: 2 measured, 1 skipped, 1 failed, 1 still to come; other work used 2% of the cores" in text


def test_a_folder_of_another_kind_is_an_error(tmp_path: Path) -> None:
    results.write(tmp_path, {"kind": "suite", "schema_version": SCHEMA_VERSION})
    with pytest.raises(ResultError, match="of the kind suite, not kernels"):
        list(page([tmp_path]))
