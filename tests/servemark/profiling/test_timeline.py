"""Time is given to the innermost operator, parts add up to the inference, and rounds of loops are told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servemark.profiling.timeline import Event, Inference, phases, wall_us, with_steps


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
    busy = {at for event in events for at in range(int(event.start_us), int(event.end_us))}
    assert sum(of(*events)) == pytest.approx(len(busy))
    assert all(us >= -1e-9 for us in of(*events))


def run(*names: str) -> list[Event]:
    return [Event(name, "Add", at * 10.0, 5.0, module=name[0]) for at, name in enumerate(names)]


def test_rounds_of_a_loop_begin_with_its_first_node() -> None:
    events = with_steps(run("e1", "d1", "d2", "d1", "d2", "d1", "d2", "p1"))
    assert [event.step for event in events] == [None, 1, 1, 2, 2, 3, 3, None]
    assert phases(events) == [
        "before the steps: e",
        *["step 1"] * 2,
        *["step 2"] * 2,
        *["step 3"] * 2,
        "after the steps: p",
    ]


def test_a_loop_within_a_loop_belongs_to_the_outer_rounds() -> None:
    events = with_steps(run("a", "b", "b", "a", "b", "b"))
    assert [event.step for event in events] == [1, 1, 1, 2, 2, 2]


def test_loops_after_each_other_are_numbered_on() -> None:
    events = with_steps(run("a", "a", "x", "b", "b", "b"))
    assert [event.step for event in events] == [1, 2, None, 3, 4, 5]


def test_without_loops_phases_are_the_outermost_modules() -> None:
    assert phases([Event("a", "Add", 0, 1, "layer1.0.conv"), Event("b", "Add", 1, 1)]) == ["layer1", "no module"]
