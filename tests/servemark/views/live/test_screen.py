"""Runs that go on, as lines of a terminal of any width."""

from typing import Any

import pytest
from rich.console import Console

from servemark.results.schema.run import LiveFigures
from servemark.views.live.screen import LiveRun, Screen, sparkline

FIGURES: LiveFigures = {
    "time_s": 1007.2,
    "elapsed_s": 7.2,
    "auto_warmup": False,
    "whole_s": 12,
    "answered": 8640,
    "asked_rate": 1200,
    "figures": {
        "latency.p50": {"value": 4.58, "unit": "ms"},
        "latency.p99": {"value": 18.76, "unit": "ms"},
        "schedule_delay.p99": {"value": 0.41, "unit": "ms"},
    },
    "second_p50_ms": 4.5,
    "second_p99_ms": 18.0,
    "in_flight": 12,
    "backlog": 0,
    "queue": 3,
    "errors": {"timeout": 2, "http_500": 10},
    "power_w": {"gpu_board": 95.2, "wall": 310},
    "constraints": {"completed": True, "schedule_delay_p99": True},
    "objectives": {"p99:20": "met"},
}


def drawn(screen: Screen, width: int = 80, *, terminal: bool = False, **environment: str) -> str:
    """A frame of this width: its text, or what a terminal gets."""
    colours: Any = "truecolor" if terminal else None
    console = Console(
        width=width, height=24, force_terminal=terminal, color_system=colours, highlight=False, _environ=environment
    )
    with console.capture() as captured:
        console.print(screen)
    return captured.get()


def run_of(*figures: dict[str, Any], name: str = "open loop, poisson 1200 requests/s") -> LiveRun:
    run = LiveRun(name)
    for changes in figures or ({},):
        run.take({**FIGURES, **changes})  # type: ignore[typeddict-item]  # some of its keys
    return run


def screen_of(*runs: LiveRun) -> Screen:
    screen = Screen("ranking_onnxruntime, http")
    screen.show(*runs)
    return screen


def test_a_frame_has_every_figure() -> None:
    before = {"time_s": 1006.2, "elapsed_s": 6.2, "answered": 7400, "second_p99_ms": 9.0}
    frame = drawn(screen_of(run_of(before, {})))
    for words in (
        "ranking_onnxruntime, http",
        "open loop, poisson 1200",
        "measuring, 5 of 12 s left",
        "1,240/s (asked 1,200)",
        "4.58",
        "18.76",
        "▅█",
        "0.410 ms",
        "12, 3 in the server's queue",
        "12: http_500 10, timeout 2",
        "95.2 W gpu_board, 310 W wall",
        "p99:20 MET",
        "VALID 2 constraints hold",
    ):
        assert words in frame, frame


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"elapsed_s": -2.4}, "warm-up, 2 s left"),
        ({"elapsed_s": -2.4, "auto_warmup": True}, "warm-up, at most 2 s left"),
        ({"elapsed_s": 12.5}, "12 s measured, waiting for answers"),
        ({"constraints": {}}, "not judged yet"),
        ({"constraints": {"completed": True, "achieved_rate": False}}, "INVALID achieved_rate"),
        ({"errors": {}}, "errors     0"),
        ({"backlog": 1500}, "12, 1,500 wait to be sent"),
        ({"figures": {}}, "delay p99  -"),
    ],
)
def test_each_state_has_its_words(changes: dict[str, Any], words: str) -> None:
    assert words in drawn(screen_of(run_of(changes)))


def test_before_its_first_figures_and_at_its_end() -> None:
    run = LiveRun("closed loop")
    screen = screen_of(run)
    assert drawn(screen).split() == ["ranking_onnxruntime,", "http", "run", "closed", "loop", "now", "starting"]
    with pytest.raises(KeyError), screen.until_stopped():
        raise KeyError
    assert "stopping" in drawn(screen)
    run.ended = True
    assert "ended" in drawn(screen)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    screen = screen_of(run_of(*({"second_p99_ms": float(second)} for second in range(100))))
    screen.say("metrics: http://127.0.0.1:9100/metrics and many more words than fit into a line of forty columns")
    lines = drawn(screen, width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) == 13
    newest = next(line for line in lines if line.startswith("p99"))
    assert newest.rstrip().endswith("█") == (width > 36)


def test_runs_that_go_on_at_once_stand_side_by_side() -> None:
    meterless = run_of({"power_w": {}, "errors": {}}, name="ncf, 30.0%")
    frame = drawn(screen_of(run_of(name="ranking, 70.0%"), meterless, LiveRun("din, 0.0%"))).splitlines()
    row = {line.split("  ")[0]: line for line in frame}
    assert [row["run"].index(name) for name in ("ranking", "ncf", "din")] == [11, 34, 57]
    assert row["now"].count("measuring") == 1 + row["now"].count("starting") == 2
    assert (row["errors"].split()[1], "95.2 W" in row["power"]) == ("12:", True)
    assert row["so far"].count("VALID") == 2


def test_runs_that_do_not_fit_side_by_side_stand_below() -> None:
    screen = screen_of(*(run_of(name=f"model_{number}") for number in range(5)))
    lines = drawn(screen, 40).splitlines()
    assert [line.split() for line in lines if line.startswith("run")] == [["run", f"model_{n}"] for n in range(5)]
    assert max(map(len, lines)) <= 40


def test_the_last_words_take_the_room_that_is_left() -> None:
    screen = screen_of(run_of())
    for number in range(50):
        screen.say(f"run {number}: met")
    lines = drawn(screen).splitlines()
    assert len(lines) == 24
    assert (lines[-1].strip(), lines[12].strip()) == ("run 49: met", "run 38: met")


def test_colours_are_left_out_where_they_are_not_wanted() -> None:
    assert "32m" in drawn(screen_of(run_of()), terminal=True)
    assert "32m" not in drawn(screen_of(run_of()), terminal=True, NO_COLOR="1")


def test_a_sparkline_ends_with_the_newest_value() -> None:
    assert sparkline([0, 7, 14], 3) == "▁▅█"
    assert sparkline([9, 9, 1, 2], 2) == "▅█"
    assert (sparkline([], 5), sparkline([0, 0], 5)) == ("", "▁▁")
