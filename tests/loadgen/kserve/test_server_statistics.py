"""Triton's counters: what the server did in the interval, and whether it was started anew."""

from typing import Any

import pytest

from loadgen.kserve.control import Control
from loadgen.kserve.server_statistics import batch_sizes, composing_models, failure_kind, restarted
from servemark.figures.registry import number
from servemark.figures.server import NONE_EXECUTED, of_model
from tests.golden.load import Load, constant_ns
from tests.golden.server import GoldenServer


def test_figures_are_those_of_the_window() -> None:
    with GoldenServer(delay_s=0.01, capacity_per_s=200) as server:
        control = Control(server.url)
        Load(server.port).open([0] * 5)
        before = control.statistics("golden")
        # a gap longer than the service: nothing waits
        Load(server.port, batch=3).open(constant_ns(50, 20))
        after = control.statistics("golden")
    assert before is not None
    assert after is not None
    figures = of_model(before, after)
    assert number(figures, "server.compute_infer") == pytest.approx(15, abs=0.01)
    assert (number(figures, "server.batch_size"), batch_sizes(before, after)) == (3, {"3": 20})
    assert not restarted(before, after, answered=20)
    assert of_model(after, after)["server.queue"]["reason"] == NONE_EXECUTED


@pytest.mark.parametrize(
    ("before", "after", "answered", "restart"),
    [(0, 100, 100, False), (90, 190, 180, False), (100, 99, 0, True), (100, 150, 1000, True), (5, 5, 0, False)],
)
def test_a_restart_shows_in_the_counters(before: int, after: int, answered: int, restart: bool) -> None:
    def statistics(count: int) -> dict[str, Any]:
        return {"inference_stats": {"success": {"count": count, "ns": 0}}}

    assert restarted(statistics(before), statistics(after), answered) is restart
    assert not restarted(None, statistics(after), answered)


def test_a_backend_that_died_is_known_by_the_server_s_words() -> None:
    assert failure_kind("http_500", "Stub process 'm_0' is not healthy.") == "backend_died"
    assert failure_kind("http_500", "out of memory") == "http_500"


def test_each_model_of_a_pipeline_has_its_own_figures() -> None:
    def statistics(count: int) -> dict[str, Any]:
        steps = ("success", "queue", "compute_input", "compute_infer", "compute_output")
        durations = {step: {"count": count, "ns": count * 2_000_000} for step in steps}
        return {"inference_stats": durations, "inference_count": count, "execution_count": count}

    before, after = statistics(0), statistics(10)
    found = composing_models(
        {**before, "composing": {"a": before, "gone": before}}, {**after, "composing": {"a": after}}
    )
    assert [*found] == ["a"]
    figures = found["a"]["figures"]
    assert (number(figures, "server.calls"), number(figures, "server.compute_infer")) == (1, 2)
    assert composing_models(before, after) == {}
