"""Progress: time that is left by what was expected and by how fast it goes."""

import pytest

from kernels.measurement.progress import Progress, duration


def test_what_is_left_follows_the_speed_so_far() -> None:
    now = 0.0
    progress = Progress(100.0, lambda: now)
    now = 20.0  # twice as long as expected
    assert progress.done(10.0) == " (3 min 0 s left)"
    progress.skip(30.0)
    now = 40.0
    assert progress.done(10.0) == " (1 min 40 s left)"
    progress.left_s = 0.0
    assert progress.done(0.0) == ""


def test_nothing_done_tells_nothing() -> None:
    assert Progress(100.0, lambda: 5.0).done(0.0) == ""


@pytest.mark.parametrize(("seconds", "words"), [(5.4, "5 s"), (65, "1 min 5 s"), (7322, "2 h 2 min")])
def test_times_are_said_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
