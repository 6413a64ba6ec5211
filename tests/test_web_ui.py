"""Locust's web UI: our flags are its fields, and a run started there is measured like one from the command line."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from servemark.models import get
from tests.golden_server import GoldenServer
from tests.locust_run import accounted, command, results_in, server_of, started, until

FIELDS = {
    "model", "engine", "request_rate", "request_distribution", "duration", "warmup", "batch_size", "slo", "input_data",
    "seed", "stages", "trace", "gamma_cv",
}  # fmt: skip
FORM = {"user_count": "3", "spawn_rate": "3", "model": "ranking_tiny", "duration": "0.6", "warmup": "0.1"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Web:
    """A running web UI, the golden server it drives, and where its results go."""

    def __init__(self, url: str, server: GoldenServer, out: Path, log: Path) -> None:
        self.url = url
        self.server, self.out, self.log = server, out, log

    def answers(self) -> bool:
        try:
            return requests.get(self.url, timeout=5).ok
        except requests.ConnectionError:
            return False

    def options(self) -> dict[str, Any]:
        """The fields of the start form, from the page's own data."""
        page = requests.get(self.url, timeout=5).text
        match = re.search(r"window\.templateArgs = (\{.*\})", page)
        assert match
        arguments: dict[str, Any] = json.loads(match[1])
        assert arguments["host"] == self.server.url
        options: dict[str, Any] = arguments["extra_options"]
        return options

    def swarm(self, **changes: str) -> None:
        done = requests.post(f"{self.url}/swarm", data=FORM | {"host": self.server.url} | changes, timeout=10)
        assert done.json()["success"], done.text

    def stopped(self) -> bool:
        return bool(requests.get(f"{self.url}/stats/requests", timeout=5).json()["state"] == "stopped")

    def finished(self, count: int) -> list[dict[str, Any]]:
        """The results, when there are so many and Locust is ready again."""

        def found() -> list[dict[str, Any]]:
            results = [r for r in results_in(self.out) if r["metrics"]]
            return results if len(results) == count and self.stopped() else []

        try:
            return list(until(found, f"{count} results"))
        except TimeoutError as error:
            raise AssertionError(self.log.read_text()) from error


@contextmanager
def web_ui(tmp_path: Path, *more: str, base_path: str = "", **behaviour: Any) -> Iterator[Web]:
    port, log, out = free_port(), tmp_path / "log", tmp_path / "out"
    with server_of(get("ranking_tiny"), **{"delay_s": 0.01} | behaviour) as server:
        flags = ["--web-port", str(port), "--url", server.url, "--out", str(out)]
        flags += ["--web-base-path", base_path, *more] if base_path else more
        with started(command("ranking", *flags, headless=False), log):
            web = Web(f"http://127.0.0.1:{port}{base_path}", server, out, log)
            until(web.answers, "the web UI")
            yield web


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
    assert (closed["scenario"]["mode"], closed["scenario"]["concurrency"]) == ("closed", 3)
    assert (opened["scenario"]["mode"], opened["scenario"]["requested_rate"]) == ("open", 100)
    assert (last["scenario"]["mode"], last["scenario"]["concurrency"]) == ("closed", 2)
    assert not any(result["partial"] for result in (closed, opened, last))
    assert opened["metrics"]["latency_ms"]["count"] == 100
    assert sum(accounted(result) for result in (closed, opened, last)) == received


def test_stopping_and_bad_values(tmp_path: Path) -> None:
    with web_ui(tmp_path) as web:
        web.swarm(slo="soon")
        until(lambda: "--slo 'soon' is not pXX:MILLISECONDS" in web.log.read_text(), "the message")
        until(web.stopped, "the end of the run")
        assert results_in(web.out) == []

        web.swarm(slo="p90:100", duration="60")
        until(lambda: len(web.server.requests()) > 100, "load")
        assert requests.post(f"{web.url}/stop", timeout=30).ok
        [stopped] = web.finished(1)
        received, log = len(web.server.requests()), web.log.read_text()
    assert stopped["partial"] is True
    assert accounted(stopped) == received
    assert stopped["metrics"]["latency_ms"]["count"] > 50
    [completed] = [c for c in stopped["verdict"]["constraints"] if c["name"] == "completed"]
    assert "stopped before its end" in completed["remedy"]
    assert "Traceback" not in log
