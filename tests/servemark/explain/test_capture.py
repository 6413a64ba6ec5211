"""Both sides' stamps of the same requests: joined by their numbers, and not guessed from where most are missing."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from servemark.explain import capture, triton_trace
from servemark.explain.timeline import Sent

COUNT = 1000
NUMBERS = np.arange(COUNT)
SENT = Sent(NUMBERS, NUMBERS + 100, NUMBERS + 100, NUMBERS + 100, NUMBERS + 900, np.ones(COUNT, bool))


@pytest.mark.parametrize(("lost", "told"), [(0, True), (10, True), (11, False), (COUNT, False)])
def test_less_than_99_of_100_traces_name_no_cause(monkeypatch: pytest.MonkeyPatch, lost: int, told: bool) -> None:
    known = NUMBERS[lost:]
    traced = SimpleNamespace(numbers=known, stamps=np.stack([known + 200 + step for step in range(5)], axis=1))
    monkeypatch.setattr(triton_trace, "read", lambda _: traced)
    run: Any = SimpleNamespace(trace="trace.json", note="")
    served, words = capture._joined(SENT, run)
    assert (served is not None) is told
    assert bool(words) == bool(lost)
    if served is not None:
        assert int((served.queued == 0).sum()) == lost
    elif lost < COUNT:
        assert words == "11 of 1,000 answered requests have no trace of the server's, so that a cause would be a guess"
