"""Masters and workers as processes: one load together, a lost worker is told, nobody is left behind."""

import contextlib
import itertools
import json
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from loadgen.load.arrivals import Share
from loadgen.load.load_config import LoadConfig
from loadgen.targets.http import HttpTarget
from servemark.figures.latency import LATENCY
from servemark.figures.registry import value_of
from servemark.paths import CHECKOUT
from servemark.stats.histogram import Histogram
from servemark.telemetry.metrics.exposition import cumulative
from servemark.workload import get
from tests.golden.server import GoldenServer
from tests.support.command_line import Servemark
from tests.support.load_config import config
from tests.support.locust_run import (
    DEADLINE_S,
    accounted,
    alive,
    command,
    golden_entry,
    server_of,
    started,
    the_result,
    until,
)
from tests.support.network import Host, Network, network
from tests.support.receiver import metrics_of, receiver
from tests.support.result_checks import constraint
from tests.support.web import forked_workers, free_port, web_ui

HEAD_END = b"\r\n\r\n"
_READ_LOG = "import sys, urllib.request as r; sys.stdout.write(r.urlopen(sys.argv[1] + '/golden/log').read().decode())"


@dataclass
class Server:
    """A golden server on the master's host; it is asked from there."""

    host: Host
    url: str

    def requests(self) -> list[dict[str, Any]]:
        """Return the requests that the server has received."""
        log: dict[str, list[dict[str, Any]]]
        if self.host.prefix:
            ask = [*self.host.prefix, sys.executable, "-c", _READ_LOG, self.url]
            log = json.loads(subprocess.run(ask, check=True, capture_output=True, text=True, timeout=20).stdout)
        else:
            log = requests.get(f"{self.url}/golden/log", timeout=20).json()
        return log["requests"]

    def contents(self) -> Counter[int]:
        """Count the requests with each content."""
        return Counter(request["crc32"] for request in self.requests())


@contextlib.contextmanager
def golden_server(network: Network, log: Path, **behaviour: Any) -> Iterator[Server]:
    """A golden server with the tensors of the tiny ranking model, which every host reaches."""
    config = server_of(get("ranking_tiny"), **behaviour).config
    serve = [sys.executable, "-m", "tests.golden.server", "--host", network.server, "--config", config]
    with subprocess.Popen(
        [*network.centre.prefix, *serve], cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=log.open("wb"), text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = json.loads(process.stdout.readline())["port"]
            yield Server(network.centre, f"http://{network.server}:{port}")
        finally:
            process.kill()


@contextlib.contextmanager
def workers(network: Network, port: int, folder: Path, *flags: str) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """A worker on each host of the network; their output goes to worker-<n>.log."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(started([*host.prefix, *_worker(host, port, flags)], folder / f"worker-{number}.log"))
            for number, host in enumerate(network.hosts)
        ]


def _worker(host: Host, port: int, flags: Sequence[str]) -> list[str]:
    """A worker's command: nothing but where the master is."""
    line = command("ranking", "--worker", "--master-host", host.master, "--master-port", str(port), *flags)
    return [part for part in line if part not in {"--headless", "--only-summary"}]


def master(network: Network, port: int, *flags: str) -> list[str]:
    """The master's command; it waits for all workers."""
    ours = ["--master", "--master-bind-host", "*", "--master-bind-port", str(port)]
    ours += ["--expect-workers", str(len(network.hosts))]
    return [*network.centre.prefix, *command("ranking", *ours, *flags)]


def contents_of(config: LoadConfig, count: int) -> Counter[int]:
    """Count each content that one process sends in `count` requests."""
    encoded = HttpTarget(config).payloads(None)
    return Counter(zlib.crc32(payload.request.partition(HEAD_END)[2]) for payload in islice(encoded, count))


TINY = ["--model", "ranking_tiny"]


def test_three_workers_in_separate_networks_send_one_load(tmp_path: Path) -> None:
    load = ["--request-rate", "250", "--duration", "1", "--warmup", "0.3", "--seed", "3"]
    out = tmp_path / "out"
    with network(3) as hosts, golden_server(hosts, tmp_path / "server", delay_s=0.002) as server:
        port = free_port()
        flags = [*TINY, *load, "--url", server.url, "--out", str(out), "--model-repository", str(tmp_path)]
        with (
            started(master(hosts, port, *flags), tmp_path / "log") as process,
            workers(hosts, port, tmp_path, "--model-repository", str(tmp_path)) as crew,
        ):
            assert process.wait(DEADLINE_S) in {0, 2}, (tmp_path / "log").read_text()
            pids = {worker.pid for worker in crew}
        received = server.contents()
    resolved = config("ranking_tiny", *load)
    schedule = resolved.scenario.schedule(3)
    assert schedule is not None
    result = the_result(out)
    # what one process would have sent: as many requests, with the same contents, each once; and each worker's first
    # one alone before that
    assert received == contents_of(resolved, len(schedule)) + contents_of(resolved, 3)
    assert accounted(result) == len(schedule) + 3
    assert value_of(result, "generator.workers") == len(result["workers"]) == 3
    assert {worker["pid"] for worker in result["workers"]} == pids
    assert [worker["index"] for worker in result["workers"]] == [0, 1, 2]
    inside = ((schedule >= 0.3e9) & (schedule < 1.3e9)).sum()
    assert sum(worker["requests"] for worker in result["workers"]) == inside == value_of(result, "requests.answered")
    assert not result["partial"]
    assert constraint(result, "clock_sync")["value"] > 0
    if hosts.reason:
        pytest.skip(f"all of it held, but in one network: {hosts.reason}")


def test_a_killed_worker_makes_the_run_invalid_and_the_others_go_on(tmp_path: Path) -> None:
    load = ["--request-rate", "60", "--duration", "5", "--warmup", "0.1", "--request-distribution", "constant"]
    with server_of(get("ranking_tiny"), delay_s=0.002) as server:
        flags = [*TINY, *load, *forked_workers(3), "--url", server.url]
        flags += ["--out", str(tmp_path), "--model-repository", str(tmp_path)]
        with started(command("ranking", *flags), tmp_path / "log") as process:
            until(lambda: len(server.requests()) > 140, "load")
            _, each, _ = psutil.Process(process.pid).children()
            each.kill()
            assert process.wait(DEADLINE_S) == 2
        received = len(server.requests())
    result = the_result(tmp_path)
    found = constraint(result, "workers")
    assert (found["ok"], found["value"], found["limit"]) == (False, 2, 3) or "sent late" in found["remedy"]
    assert f"pid {each.pid}): it was lost: no heartbeat came from it" in found["remedy"]
    [lost] = [worker for worker in result["workers"] if worker["trouble"]]
    assert lost["pid"] == each.pid
    # the shares of the others were sent to their end; of the lost one what it had sent is there, and what it had told
    whole = round(60 * 5.1)
    shares = {index: Share(index, 3).count(whole) for index in range(3)}
    others = sum(shares.values()) - shares[lost["index"]]
    assert others <= accounted(result) <= received < whole
    assert 0 < lost["requests"] < shares[lost["index"]]
    assert sum(worker["requests"] for worker in result["workers"]) == value_of(result, "requests.answered")
    assert not result["partial"]


def test_a_worker_that_cannot_prepare_ends_the_run_with_its_words(tmp_path: Path) -> None:
    out, hosts = tmp_path / "out", Network([Host()])
    golden_entry(tmp_path / "repository")
    with server_of(get("ranking_tiny")) as server:
        port = free_port()
        repository = str(tmp_path / "repository")
        flags = [*TINY, "--url", server.url, "--out", str(out), "--model-repository", repository, "--duration", "60"]
        with (
            started(master(hosts, port, *flags), tmp_path / "log") as process,
            workers(hosts, port, tmp_path, "--model-repository", str(tmp_path / "empty")) as [worker],
        ):
            assert process.wait(DEADLINE_S) == 3
            assert worker.wait(DEADLINE_S) == 0, "the master sends its workers home"
        received = server.requests()
    log = (tmp_path / "log").read_text()
    assert "golden.npz is not there, which the master has" in log
    assert "worker 0 (" in log
    assert "--model-repository DIR" in log
    assert received == []


def test_a_closed_loop_is_split_and_a_second_run_from_the_web_ui_works(tmp_path: Path) -> None:
    with web_ui(tmp_path, *forked_workers(2), "--model-repository", str(tmp_path)) as web:
        until(lambda: web.log.read_text().count("reported as ready") == 2, "the workers")
        web.swarm()
        [closed] = web.finished(1)
        web.swarm(request_rate="100", request_distribution="constant", duration="1")
        _, opened = web.finished(2)
        received = len(web.server.requests())
    assert sorted(worker["max_in_flight"] for worker in closed["workers"]) == [1, 2], "of 3 connections"
    assert (closed["request"]["load"]["concurrency"], value_of(closed, "generator.max_in_flight")) == (3, 3)
    assert value_of(opened, "requests.answered") == 100
    assert Counter(worker["requests"] for worker in opened["workers"]) == {50: 2}
    assert accounted(closed) + accounted(opened) == received
    assert not closed["partial"]
    assert not opened["partial"]


OWN = """
import itertools
import subprocess

import numpy as np

from servemark.workload import Tensor, Workload

def samples(rng):
    import wave  # noqa: F401 - for the first time in this process

    for number in itertools.count():
        if number % 100 == 0:
            subprocess.run(["true"], check=True)
        yield {"x": rng.random(3, dtype=np.float32)}


def build():
    raise AssertionError("a worker needs no network")


WORKLOAD = Workload(
    name="own_model", title="own", inputs=(Tensor("x", "FP32", (3,)),), outputs=(Tensor("y", "FP32", (2,)),),
    max_batch=8, build=build, samples=samples,
)
"""
"""A workload file whose samples import, and start processes: under gevent only one thread can."""


@pytest.mark.parametrize("known_by", [pytest.param("the server", marks=pytest.mark.slow), "a file"])
def test_the_command_starts_its_own_workers(known_by: str, servemark: Servemark, tmp_path: Path) -> None:
    """They drive models that the zoo has not, and the master's metrics are their sum.

    Workers that ask a server for its model: also tests/loadgen/targets/test_open.py.
    """
    (tmp_path / "own.py").write_text(OWN)
    flags = ["--workload-file", str(tmp_path / "own.py"), "--model-name", "m"] if known_by == "a file" else []
    flags += ["--request-rate", "100", "--request-distribution", "constant", "--duration", "0.6", "--warmup", "0.1"]
    flags += ["--workers", "2", "--json", "--out", str(tmp_path), "--model-repository", str(tmp_path)]
    tensors = {"inputs": ["x:FP32:3"], "outputs": ["y:FP32:2"]}
    # Not faster: a saved histogram has whole microseconds, which below a millisecond may lie beyond a metric's bound.
    with GoldenServer(model="m", **tensors, delay_s=0.002) as server, receiver() as collector:
        name = "own_model" if known_by == "a file" else "m"
        done = servemark("run", name, *flags, "--url", server.url, "--otlp", collector.url)
        received = len(server.requests())
    assert done.code == 2, done.err  # one window does not show a steady state
    result, metrics = json.loads(done.out), metrics_of(collector)
    count = value_of(result, "requests.answered")
    assert (value_of(result, "errors.count"), count) == (0, 60)
    assert accounted(result) == received == 70 + 2, "and each worker's first one alone"
    assert value_of(result, "generator.workers") == 2
    assert value_of(result, "cpu.generator") is not None
    assert sum(worker["requests"] for worker in result["workers"]) == count
    assert result["telemetry"][0]["failed"] == 0
    for name in ("requests_total", "requests_scheduled_total", "requests_sent_total"):
        assert metrics[f"servemark_{name}"].sum.data_points[0].as_double == count, name
    assert metrics["servemark_requests_in_flight"].gauge.data_points[0].as_double == 0
    merged = Histogram.decode(json.loads(next(tmp_path.glob("*/histograms.json")).read_text())["latency_us"])
    [latency] = metrics[LATENCY.metric].histogram.data_points
    assert list(itertools.accumulate(latency.bucket_counts)) == cumulative(merged, tuple(latency.explicit_bounds))


def test_workers_that_the_master_forked_end_with_it_whatever_ends_it(tmp_path: Path) -> None:
    with server_of(get("ranking_tiny"), delay_s=0.005) as server:
        flags = [*TINY, *forked_workers(2), "--url", server.url]
        flags += ["--out", str(tmp_path), "--model-repository", str(tmp_path), "--duration", "60", "--users", "2"]
        with started(command("ranking", *flags), tmp_path / "log") as process:
            until(lambda: len(server.requests()) > 20, "load")
            forked = psutil.Process(process.pid).children()
            assert len(forked) == 2
            process.kill()
            until(lambda: not any(map(alive, forked)), "their end")
