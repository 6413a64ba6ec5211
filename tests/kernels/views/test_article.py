"""A kernels document as a page: its roofline, and the cases that were not measured."""

from servemark.results.saved import Saved
from servemark.results.schema.header import opening
from servemark.views.kinds import kind_of
from servemark.views.render.html import page
from tests.support.saved_documents import kernels


def test_kernels_lie_under_the_roof() -> None:
    saved = Saved("kernels", kernels(dict(opening())))
    found = kind_of(saved).article(saved)
    assert found.answer == "5 cases: 2 measured, 1 skipped, 1 failed, 1 still to come; other work used 2% of the cores"
    [roofline] = [figure for section in found.sections for figure in section.figures]
    assert roofline.table.rows == [["softmax rows=64 width=100 fp32", "0.625", "3.20", "memory", "51%"]]
    assert [key.words for key in roofline.keys] == ["100 GB/s of 1 MiB", "10 GB/s of 256 MiB", "bound by memory"]
    text = page("x", [saved])
    assert "FAILED gemm rows=64 width=100 fp32: wrong: off by 1" in text
    assert "skipped lrn rows=64 width=100 fp32: memory: needs 9 MiB" in text
