"""The tab "servemark" of the web UI: precise figures during a run, the result and its verdict after it."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests

from loadgen.locust_bridge import result_page
from loadgen.locust_bridge.result_page import LIVE_EVERY_S, ResultPage, Run
from servemark.figures.registry import count_of, why_unknown
from servemark.results.directory import read
from tests.support import browser
from tests.support.locust_run import until
from tests.support.web import Web, forked_workers, web_ui

DELAY_MS = 10.0
PERCENTILES = ("p50", "p90", "p95", "p99", "p99.9")


def standing(web: Web) -> dict[str, Any]:
    answer = requests.get(f"{web.url}/servemark/result", timeout=10)
    assert answer.headers["Content-Type"] == "application/json"
    return dict(answer.json())


def standing_when(web: Web, state: str, count: int = 0) -> dict[str, Any]:
    """The JSON once the run is in this state and so many requests have been answered."""

    def found() -> dict[str, Any] | None:
        now = standing(web)
        answered = count_of(now["result"] or {"figures": None}, "requests.answered")
        return now if now["state"] == state and answered >= count else None

    return dict(until(found, f"state {state} with {count} requests"))


def test_figures_of_a_run_and_its_result(tmp_path: Path) -> None:
    with web_ui(tmp_path, error_every=5) as web:
        index = requests.get(f"{web.url}/", timeout=10).text
        assert '"extended_tabs": [{"key": "servemark", "title": "servemark"}]' in index
        assert "./servemark/files/tab.js" in index
        assert "./files/page.js" in requests.get(f"{web.url}/servemark/", timeout=10).text
        for file in ("tab.js", "page.js", "page.css"):
            assert requests.get(f"{web.url}/servemark/files/{file}", timeout=10).ok
        assert standing(web) == dict.fromkeys(("answer", "title", "error", "directory", "result")) | {"state": "idle"}

        web.swarm(duration="100", slo="p90:1")
        live = standing_when(web, "running", 100)
        assert requests.post(f"{web.url}/stop", timeout=30).ok
        last = standing_when(web, "finished")
        [kept] = list(web.out.glob("*"))

        web.swarm(slo="soon")
        failed = standing_when(web, "failed")
    shown, figures = live["result"], {tag: found["value"] for tag, found in live["result"]["figures"].items()}
    percentiles = [figures[f"latency.{key}"] for key in PERCENTILES]
    supported = [value for value in percentiles if value is not None]
    assert DELAY_MS <= figures["latency.min"] <= supported[0]
    assert [*supported, figures["latency.max"]] == sorted([*supported, figures["latency.max"]])
    assert percentiles[-1] is None
    assert "needs 10000 samples" in why_unknown(shown, "latency.p99.9")
    assert why_unknown(shown, "schedule_delay.p99") == "a closed loop has no schedule"
    assert shown["details"]["errors"]["by_kind"].keys() == {"http_500"}
    assert figures["throughput.requests"] > 0
    assert 0 < shown["scenario"]["measured_s"] < 100
    assert shown["verdict"] is None
    assert live["title"] == "closed loop, concurrency 3"

    # what is shown is what was written
    assert last["result"] == read(kept)
    assert Path(last["directory"]).name == kept.name
    failed_constraints = {c["name"]: c["remedy"] for c in last["result"]["verdict"]["constraints"] if not c["ok"]}
    assert failed_constraints.keys() >= {"completed", "error_rate"}
    assert last["result"]["verdict"]["objective"] == "missed"
    assert all(failed_constraints.values())
    assert "energy.per_inference" in last["result"]["figures"]
    assert "boundary" in last["result"]["details"]["energy"]
    # another run forgets it
    assert failed["result"] is None
    assert "--slo 'soon' is not pXX:LIMIT" in failed["error"]


def test_the_workers_figures_come_together(tmp_path: Path) -> None:
    with web_ui(tmp_path, *forked_workers(2)) as web:
        until(lambda: requests.get(f"{web.url}/worker-count", timeout=10).json()["worker_count"] == 2, "two workers")
        web.swarm(duration="100", request_rate="100")
        live = standing_when(web, "running", 100)
        assert requests.post(f"{web.url}/stop", timeout=60).ok
        last = standing_when(web, "finished")
    figures = live["result"]["figures"]
    assert DELAY_MS <= figures["latency.min"]["value"] <= figures["latency.p50"]["value"]
    answered = count_of(live["result"], "requests.answered")
    assert figures["schedule_delay.mean"]["n"] == answered
    parts = [worker["requests"] for worker in last["result"]["workers"]]
    assert len(parts) == 2
    assert all(parts)
    assert answered <= count_of(last["result"], "requests.answered") <= sum(parts)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands still unless it is told otherwise."""
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(result_page, "time", clock)
    return clock


def test_many_who_look_cost_no_more_than_one(clock: SimpleNamespace) -> None:
    counts: Iterator[int] = iter(range(100))
    result: Any = {
        "figures": None,
        "verdict": None,
        "request": {"load": {"kind": "closed-loop"}},
        "resolved": {},
        "scenario": {},
    }
    run = Run(
        "running", lambda: (1.0, cast(Any, {"asked": next(counts)}), {"by_kind": {}, "messages": {}}), result=result
    )
    asked = []
    for now in (100, 100.2, 100 + LIVE_EVERY_S, 100.5 + LIVE_EVERY_S):
        clock.now = now
        shown: Any = run.to_dict()
        asked.append(shown["result"]["figures"]["asked"])
    assert asked == [0, 0, 1, 1]
    assert result["figures"] is None


def test_a_run_that_ends_without_a_result_says_so() -> None:
    page = ResultPage()
    page.begin(lambda: None)
    page.end()
    assert page.run.state == "failed"
    assert "before anything was measured" in str(page.run.error)
    page.begin(lambda: None)
    page.failed("no server")
    page.end()
    assert page.run.error == "no server"


@browser.needs_chromium
def test_the_tab_in_a_browser(tmp_path: Path) -> None:
    inside = "document.querySelector('iframe[title=servemark]').contentDocument"
    text, shown = f"{inside}.body.innerText", f"{inside}.documentElement.dataset.state"
    with web_ui(tmp_path, base_path="/bench", error_every=5) as web, browser.page(tmp_path) as page:
        web.swarm(duration="100", slo="p90:1", request_rate="100", request_distribution="constant")
        page.open(f"{web.url}/?tab=servemark")
        page.until(f"document.querySelector('iframe') && {shown} === 'running' && {text}.includes('http_500')")
        live = page.evaluate(text)
        page.evaluate(
            "[...document.querySelectorAll('[role=tab]')].find((tab) => tab.textContent === 'Charts').click()"
        )
        page.until("document.querySelector('iframe').style.display === 'none'")
        page.evaluate(
            "[...document.querySelectorAll('[role=tab]')].find((tab) => tab.textContent === 'servemark').click()"
        )
        page.until("document.querySelector('iframe').style.display === 'block'")
        assert requests.post(f"{web.url}/stop", timeout=30).ok
        page.until(f"{shown} === 'finished'")
        last, light = page.evaluate(text), page.evaluate(f"{inside}.documentElement.dataset.theme")
        page.open(f"{web.url}/servemark/", dark=True)
        page.until("document.documentElement.dataset.state === 'finished'")
        dark = page.evaluate("document.documentElement.dataset.theme")
        directory = standing(web)["directory"]
    assert "RUNNING" in live
    assert "of 100 s measured" in live
    assert "schedule delay of the generator" in live
    assert "http_500" in live
    assert "INVALID" in last
    assert "allow more with --max-error-rate" in last
    assert "stopped before its end" in last
    assert "MISSED" in last
    assert "p90 " in last
    assert directory in last
    assert (light, dark) == ("light", "dark")
