"""Locust's web UI in a process of its own, as its page and its scripts see it."""

import contextlib
import itertools
import json
import os
import random
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

from servemark.workload import get
from tests.golden.server import GoldenServer
from tests.support.locust_run import command, results_in, server_of, started, until

FORM = {"user_count": "3", "spawn_rate": "3", "model": "ranking_tiny", "duration": "0.6", "warmup": "0.1"}


TEST_PROCESSES = 64
PORTS = range(10_048, 32_768 - TEST_PROCESSES, TEST_PROCESSES)
"""The first process's. They end below the ports that Linux gives to connections and to listeners that ask for any."""
_NEXT = itertools.cycle(random.SystemRandom().sample(PORTS, len(PORTS)))


def free_port() -> int:
    """A port for a process that is yet to start. Nobody who asks meanwhile is given it, here or in another process."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % TEST_PROCESSES
    for first in itertools.islice(_NEXT, len(PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", first + number))
            return first + number
    raise OSError("no port is free")


def forked_workers(count: int) -> list[str]:
    """Return the flags of a run over processes of its own, at a port that no other test's run has."""
    port = str(free_port())
    return ["--processes", str(count), "--master-port", port, "--master-bind-port", port]


def is_up(url: str) -> bool:
    """Return True if a server answers there with status 200."""
    try:
        return requests.get(url, timeout=5).status_code == 200
    except requests.RequestException:
        return False


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
            results = [r for r in results_in(self.out) if r["figures"]]
            return results if len(results) == count and self.stopped() else []

        try:
            return list(until(found, f"{count} results"))
        except TimeoutError as error:
            raise AssertionError(self.log.read_text()) from error


@contextlib.contextmanager
def web_ui(tmp_path: Path, *more: str, base_path: str = "", **behaviour: Any) -> Iterator[Web]:
    port, log, out = free_port(), tmp_path / "log", tmp_path / "out"
    with server_of(get("ranking_tiny"), **{"delay_s": 0.01} | behaviour) as server:
        flags = ["--web-port", str(port), "--url", server.url, "--out", str(out)]
        flags += ["--web-base-path", base_path, *more] if base_path else more
        with started(command("ranking", *flags, headless=False), log):
            web = Web(f"http://127.0.0.1:{port}{base_path}", server, out, log)
            until(web.answers, "the web UI")
            yield web
