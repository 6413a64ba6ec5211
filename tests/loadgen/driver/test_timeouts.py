"""The time-out is a limit on latency: what came later failed, whenever the driver looked."""

import pytest

from loadgen.driver.event_loop import MS
from tests.golden.load import Load, constant_ns
from tests.golden.server import GoldenServer


@pytest.mark.parametrize("limit", [4, 1024])
def test_an_answer_after_its_time_out_is_none_also_where_it_comes_before_the_next_look(limit: int) -> None:
    schedule = constant_ns(200, 100)
    with GoldenServer(delay_s=0.25) as server:
        load = Load(server.port, timeout_s=0.2, connect=32, max_in_flight=limit).open(schedule)
    assert load.kinds == {"timeout": len(schedule)}
    assert all(outcome.done - outcome.scheduled > 200 * MS for outcome in load.outcomes)
    assert {outcome.message for outcome in load.outcomes} == {"no response within 0.2 s of its schedule"}


def test_what_a_closed_loop_was_answered_too_late_fails_and_the_loop_goes_on() -> None:
    with GoldenServer(delay_s=0.12) as server:
        load = Load(server.port, timeout_s=0.1).closed(2, 0.5)
    assert load.kinds.keys() == {"timeout"}
    assert load.kinds["timeout"] >= 2
