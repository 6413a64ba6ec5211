"""The tab "servemark" of the web UI: figures, result and verdict; the page in a browser; and who may steer it."""

import json
import socket
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests

from loadgen.locust_bridge import result_page
from loadgen.locust_bridge.result_page import LIVE_EVERY_S, ResultPage, Run
from servemark.figures.registry import count_of, why_unknown
from servemark.paths import CHECKOUT
from servemark.results.directory import read
from servemark.workload import get
from tests.support import browser
from tests.support.locust_run import accounted, command, server_of, until
from tests.support.web import FORM, Web, forked_workers, web_ui

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
        until(lambda: "--slo 'soon' is not pXX:LIMIT" in web.log.read_text(), "the message")
        received, log = len(web.server.requests()), web.log.read_text()
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
    assert "stopped before its end" in failed_constraints["completed"]
    assert (last["result"]["partial"], accounted(last["result"])) == (True, received)
    assert "energy.per_inference" in last["result"]["figures"]
    assert "boundary" in last["result"]["details"]["energy"]
    # another run forgets it
    assert failed["result"] is None
    assert "--slo 'soon' is not pXX:LIMIT" in failed["error"]
    assert "Traceback" not in log


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


EVIL = "evil.example"
FOREIGN = [
    ("POST", {"Origin": f"http://{EVIL}"}),
    ("POST", {"Origin": "null"}),
    ("POST", {"Origin": "http://127.0.0.1:1"}),
    ("POST", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}),
    ("POST", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}),
    ("GET", {"Origin": f"http://{EVIL}"}),
    ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}),
    ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}),
    ("GET", {"Host": EVIL}),
    ("GET", {"Host": "127.0.0.1.evil.example"}),
    ("OPTIONS", {"Origin": f"http://{EVIL}", "Access-Control-Request-Method": "POST"}),
]
HIDDEN = ["out", "result_dir", "headers", "model_repository", "start_file", "csv_prefix", "html_file", "no_such"]


def swarm(web: Web, **changes: str) -> dict[str, Any]:
    form = FORM | {"host": web.server.url} | changes
    return dict(requests.post(f"{web.url}/swarm", data=form, timeout=10).json())


def test_requests_of_others_are_refused(tmp_path: Path) -> None:
    with web_ui(tmp_path) as web:
        for method, headers in FOREIGN:
            for path in ("/servemark/result", "/swarm", "/", "/logs", "/no_such"):
                answer = requests.request(method, web.url + path, headers=headers, timeout=10)
                assert answer.status_code == 403, (method, path, headers)
                assert answer.json().keys() == {"error"}
        port = web.url.rpartition(":")[2]
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        own: list[dict[str, str]] = [
            {"Origin": web.url},
            {"Host": f"localhost:{port}"},
            {"Host": f"[::1]:{port}"},
            link,
        ]
        for headers in own:
            answer = requests.get(f"{web.url}/servemark/result", headers=headers, timeout=10)
            assert (answer.status_code, answer.json()["state"]) == (200, "idle"), headers
            assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"

        for user in ({"user_class_name": "Ranking", "own": {"a": 1}}, {"user_class_name": "Ranking", "host": EVIL}):
            for kind in ("application/json", "text/plain", ""):
                body, headers = json.dumps(user), {"Content-Type": kind} if kind else {}
                answer = requests.post(f"{web.url}/user", data=body, headers=headers, timeout=10)
                assert (answer.status_code, answer.json().keys()) == (403, {"error"}), kind

        for name in HIDDEN:
            refused = swarm(web, **{name: str(tmp_path / "elsewhere")})
            assert (refused["success"], repr(name) in refused["message"]) == (False, True)
        assert web.server.requests() == []
        # Without credentials another host may be asked.
        with server_of(get("ranking_tiny")) as other:
            assert swarm(web, host=other.url)["success"]
            web.finished(1)
            assert other.requests()
    assert not (tmp_path / "elsewhere").exists()


def test_credentials_go_to_one_host(tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("Authorization: Bearer secret-token\n")
    with web_ui(tmp_path, "--headers", str(tmp_path / "headers")) as web, server_of(get("ranking_tiny")) as other:
        refused = swarm(web, host=other.url)
        assert refused["message"] == f"--headers is for {web.server.url} alone: start Locust anew for another host"
        web.swarm()
        web.finished(1)
        assert other.requests() == []


@pytest.fixture
def site() -> Iterator[int]:
    """The port of another site, with an empty page."""

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


SEND = """
(async () => {{
  const form = {form};
  const blind = await fetch("{url}/swarm", {{method: "POST", mode: "no-cors", body: new URLSearchParams(form)}});
  const read = (path) => fetch("{url}" + path).then((answer) => answer.text(), () => "");
  return [blind.type, await read("/servemark/result"), await read("/logs")];
}})()
"""


@browser.needs_chromium
def test_a_page_of_another_site_in_a_browser(site: int, tmp_path: Path) -> None:
    mapped = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
    short = ["--model", "ranking_tiny", "--duration", "1", "--warmup", "0.1"]
    with web_ui(tmp_path, *short) as web, browser.page(tmp_path, mapped) as page:
        form = json.dumps(FORM | {"host": web.server.url, "arrival_trace": "/proc/self/environ"})
        for origin in (f"http://{EVIL}:{site}", f"http://localhost:{site}", f"http://127.0.0.1:{site}"):
            page.open(f"{origin}/")
            blind, *read = page.evaluate(SEND.format(form=form, url=web.url))
            assert blind == "opaque"  # it was sent
            assert not [text for text in read if "state" in text or "master" in text], origin
        # The site's own name may come to lead to the web UI.
        rebound = web.url.replace("127.0.0.1", EVIL)
        page.open(f"{rebound}/servemark/result")
        assert "has no other name" in page.evaluate("document.body.innerText")
        assert requests.get(f"{web.url}/servemark/result", timeout=10).json()["state"] == "idle"
        assert web.server.requests() == []

        # The page's own form still starts a run, with every field that it shows.
        page.open(f"{web.url}/")
        page.until("document.querySelector('button[type=submit]') !== null")
        page.evaluate("document.querySelector('button[type=submit]').click()")
        [result] = web.finished(1)
        assert result["request"]["workload"] == "ranking_tiny"


FIELDS = {
    "model", "engine", "request_rate", "request_distribution", "duration", "warmup", "batch_size", "slo", "input_data",
    "seed", "stages", "arrival_trace", "trace_speed", "gamma_cv",
}  # fmt: skip


def test_our_flags_are_fields_and_runs_are_measured(tmp_path: Path) -> None:
    with web_ui(tmp_path) as web:
        options = web.options()
        assert options.keys() >= FIELDS
        assert options.keys().isdisjoint({"out", "result_dir", "model_repository", "serve", "url", "concurrency"})
        assert options["request_distribution"]["choices"] == ["poisson", "constant", "gamma"]
        assert all(options[name]["help_text"] for name in FIELDS)

        web.swarm()
        [closed] = web.finished(1)
        web.swarm(request_rate="100", request_distribution="constant", duration="1")
        _, opened = web.finished(2)
        # cleared again, as the field is by hand
        web.swarm(request_rate="", user_count="2")
        *_, last = web.finished(3)
        received = len(web.server.requests())
    assert (closed["request"]["load"]["kind"], closed["request"]["load"]["concurrency"]) == ("closed-loop", 3)
    assert (opened["request"]["load"]["kind"], opened["request"]["load"]["rate"]) == ("constant-rate", 100)
    assert (last["request"]["load"]["kind"], last["request"]["load"]["concurrency"]) == ("closed-loop", 2)
    assert not any(result["partial"] for result in (closed, opened, last))
    assert count_of(opened, "requests.answered") == 100
    assert sum(accounted(result) for result in (closed, opened, last)) == received


def test_a_taken_port_is_told() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen(1)
        port = holder.getsockname()[1]
        line = command("ranking", f"--web-port={port}", headless=False)
        done = subprocess.run(line, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3
    assert f"the web UI cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "fix: --web-port PORT" in done.stderr
    assert "Traceback" not in done.stderr
