"""Time is given to the innermost operator, parts add up to the inference, and rounds of loops are told.

Kernels of a real trace of a GPU stand each under the operator that launched it.
"""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servemark.errors import ServerError
from servemark.profiling.timeline import (
    Event,
    Inference,
    Kernel,
    Span,
    on_device,
    phases,
    read,
    traced,
    wall_us,
    with_steps,
)
from tests.support.gpu_traces import of_torch


def of(*events: Event) -> list[float]:
    return wall_us(Inference(1.0, events))


def test_a_loop_keeps_what_its_body_leaves() -> None:
    loop, first, second = Event("l", "Loop", 0, 100), Event("a", "Add", 10, 20), Event("b", "Mul", 40, 30)
    assert of(loop, first, second) == [50.0, 20.0, 30.0]


def test_threads_share_a_moment() -> None:
    assert of(Event("a", "Add", 0, 100, thread=1), Event("b", "Add", 50, 100, thread=2)) == [75.0, 75.0]


def test_durations_without_places_are_as_they_are() -> None:
    assert wall_us(Inference(1.0, [Event("a", "Add", 0, 7), Event("b", "Add", 0, 5)], placed=False)) == [7, 5]


spans = st.tuples(st.integers(0, 50), st.integers(0, 30), st.integers(1, 3))


@given(st.lists(spans, max_size=12))
def test_parts_add_up_to_the_time_in_which_anything_ran(drawn: list[tuple[int, int, int]]) -> None:
    events = [Event(str(n), "Add", start, length, thread=thread) for n, (start, length, thread) in enumerate(drawn)]
    busy = {at for event in events for at in range(int(event.start_us), int(event.start_us + event.duration_us))}
    assert sum(of(*events)) == pytest.approx(len(busy))
    assert all(us >= -1e-9 for us in of(*events))


def run(names: str) -> list[Event]:
    return [Event(name, "Add", at * 10.0, 5.0, module=name[0]) for at, name in enumerate(names.split())]


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        ("e1 d1 d2 d1 d2 d1 d2 p1", [None, 1, 1, 2, 2, 3, 3, None]),
        ("a b b a b b", [1, 1, 1, 2, 2, 2]),  # a loop within a loop belongs to the outer rounds
        ("a a x b b b", [1, 2, None, 3, 4, 5]),  # loops after each other are numbered on
    ],
)
def test_rounds_of_a_loop_begin_with_its_first_node(names: str, steps: list[int | None]) -> None:
    assert [event.step for event in with_steps(run(names))] == steps


def test_phases_are_rounds_or_else_the_outermost_modules() -> None:
    rounds = [f"step {number}" for number in (1, 1, 2, 2)]
    assert phases(with_steps(run("e1 d1 d2 d1 d2 p1"))) == ["before the steps: e", *rounds, "after the steps: p"]
    assert phases([Event("a", "Add", 0, 1, "layer1.0.conv"), Event("b", "Add", 1, 1)]) == ["layer1", "no module"]


def test_operators_are_the_outermost_ones_in_their_order() -> None:
    counts = Counter(each.name for each in read(of_torch()).operators)
    assert counts["aten::conv2d"] == counts["aten::batch_norm"] == 53
    assert "aten::cudnn_convolution" not in counts
    assert [each.name for each in read(of_torch()).operators][-2:] == ["aten::flatten", "aten::linear"]


def test_kernels_add_up_to_less_than_the_run_that_launched_them() -> None:
    found = read(of_torch())
    recorded = [each for each in of_torch()["traceEvents"] if each["cat"] == "kernel"]
    busy_us = sum(each.us for each in found.kernels)
    assert busy_us == pytest.approx(sum(each["dur"] for each in recorded), rel=1e-6) == pytest.approx(1643.8, abs=0.1)
    whole_us = max(each.start_us + each.us for each in found.kernels) - found.operators[0].start_us
    assert busy_us / whole_us == pytest.approx(0.159, abs=0.001)  # 232 kernels of 7 us wait for their launches


def test_an_operator_has_the_time_of_its_kernels() -> None:
    found = read(of_torch())
    operators, nobodys = on_device(found.operators, found.kernels)
    assert nobodys == []
    assert [each.name for each in operators] == [each.name for each in found.operators]
    assert sum(each.us for each in operators) == pytest.approx(sum(each.us for each in found.kernels))
    # The first convolution: two changes of layout, the product, the change back. Its call on the CPU took 2.7 ms.
    assert operators[0].us == pytest.approx(18.944 + 1.856 + 49.119 + 11.52, abs=0.01)
    assert found.operators[0].us == pytest.approx(2670.04, abs=0.01)
    [view] = [each for each in operators if each.name == "aten::flatten"]
    assert view.us == 0
    ends = [each.start_us + each.us for each in operators]
    assert all(end <= after.start_us + 1e-3 for end, after in zip(ends, operators[1:], strict=False))


def test_kernels_beside_each_other_share_the_time() -> None:
    def kernel(stream: int, at_us: float, us: float) -> dict[str, Any]:
        args = {"stream": stream, "correlation": stream}
        return {"cat": "kernel", "name": "k", "tid": stream, "ts": at_us, "dur": us, "args": args}

    found = read({"baseTimeNanoseconds": 5, "traceEvents": [kernel(1, 10.0, 20.0), kernel(2, 20.0, 20.0)]})
    assert [each.us for each in found.kernels] == pytest.approx([15.0, 15.0])
    assert found.zero_ns == 10_005


def test_the_innermost_operator_launched_a_kernel_and_one_outside_has_none() -> None:
    loop, body = Span("loop", 0.0, 100.0), Span("body", 10.0, 20.0)
    kernels = [
        Kernel("in the body", 40.0, 5.0, 15.0),
        Kernel("in the loop", 50.0, 7.0, 60.0),
        Kernel("late", 200.0, 1.0, 150.0),
        Kernel("unseen", 300.0, 2.0, None),
    ]
    operators, nobodys = on_device([body, loop], kernels)
    assert operators == [Span("body", 40.0, 5.0), Span("loop", 50.0, 7.0)]
    assert [(each.name, each.duration_us) for each in nobodys] == [("late", 1.0), ("unseen", 2.0)]


def test_a_gpu_of_which_nothing_is_seen_is_an_error() -> None:
    with pytest.raises(ServerError, match="nothing run on cuda:0"):
        traced(lambda: None, "cuda:0")


def test_a_call_on_the_cpu_is_traced() -> None:
    import torch

    data = torch.ones(64, 64)
    seconds, found = traced(lambda: data.matmul(data).relu_(), "cpu")
    assert [each.name for each in found.operators] == ["aten::matmul", "aten::relu_"]
    assert 0 < sum(each.us for each in found.operators) <= seconds * 1e6
