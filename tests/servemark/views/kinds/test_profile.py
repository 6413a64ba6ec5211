"""A profile's article: the largest part in one sentence, all engines side by side, and what is not known."""

from pathlib import Path
from typing import Any

import pytest

from servemark.profiling.measure import Order
from servemark.results.saved import Saved
from servemark.views.kinds import profile
from servemark.views.render.markdown import to_markdown
from tests.support.profiled import profile_of
from tests.support.saved_documents import ceiling


@pytest.fixture
def saved() -> Saved:
    return Saved("p", profile_of(Order("ranking", "onnxruntime", Path()), ceiling()))


def test_the_answer_names_category_operator_and_share_of_the_peak(saved: Saved) -> None:
    assert profile.article(saved).answer == (
        "0.900 ms on onnxruntime: 40% in convolution, 40% in Conv at 200% of the peak FLOP/s"
    )


def test_operators_and_what_is_between_are_a_hundred_percent(saved: Saved) -> None:
    table: Any = next(s for s in profile.article(saved).sections if "category" in s.title).blocks[0]  # type: ignore[index]
    assert sum(float(row[1]) for row in table.rows) == pytest.approx(100, abs=0.2)


def test_what_is_missing_is_said(saved: Saved) -> None:
    text = to_markdown([saved])
    assert "openvino: it is not there" in text
    assert "counted as other, because no category knows them" in text
    assert "no GPU counters: a CPU" in text


def test_nothing_was_profiled() -> None:
    document = profile_of(Order("ranking", "onnxruntime", Path()))
    empty = Saved("p", {**document, "engines": document["engines"][1:]})
    assert profile.article(empty).answer == "nothing was profiled"


def test_a_gpu_was_busy_with_kernels_and_waited_in_the_rest(saved: Saved) -> None:
    """0.89 ms of kernels, in 1 ms with the profiler and in 0.9 ms without it."""
    text = to_markdown([Saved("p", {**saved.document, "device": "cuda:0"})])
    assert "cuda:0, which was busy for 0.890 ms: 89.0 % of the profiled inference, 98.9 % of one without" in text
    assert "which was busy" not in to_markdown([saved])
