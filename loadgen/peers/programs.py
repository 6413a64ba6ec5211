"""The other generators: perf_analyzer and h2load, which speak gRPC too, and wrk, hey, ab and Locust for HTTP alone."""

import csv
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar

import numpy as np

from loadgen.kserve.grpc_inference import INFER
from loadgen.peers.peer import REQUEST_TIMEOUT_S, Peer, PeerFigures, PeerLoad

_AB_MOST_REQUESTS = 2_000_000
_WRK_SCRIPT = """\
local file = io.open({body}, "rb")
wrk.method, wrk.body = "POST", file:read("*a")
file:close()
wrk.headers = {{{fields}}}
function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  local report = string.format('"us": %d, "requests": %d, "failed": %d', summary.duration, summary.requests, failed)
  for _, each in ipairs({{{percentiles}}}) do
    report = report .. string.format(', "%s": %d', each, latency:percentile(each))
  end
  local out = io.open({report}, "w")
  out:write("{{" .. report .. "}}")
  out:close()
end
"""
"""Without a `request` function of its own the bytes are made once, so that no Lua runs for a request."""
_LOCUST_COLUMNS = (50, 66, 75, 80, 90, 95, 98, 99, 99.9)
_LOCUST_IMPORTS_S = 1
"""Its time runs while it still imports."""
_LOCUSTFILE = """\
from pathlib import Path

from locust import FastHttpUser, constant, constant_throughput, task


class Client(FastHttpUser):
    wait_time = {wait}
    body = Path({body!r}).read_bytes()

    @task
    def infer(self):
        self.client.post({path!r}, data=self.body, headers={fields!r})
"""


def _header(fields: Mapping[str, str]) -> list[str]:
    """Flags of ab and hey for header fields, of which the type of the body has its own."""
    given = (["-T", value] if name == "Content-Type" else ["-H", f"{name}: {value}"] for name, value in fields.items())
    return [*chain.from_iterable(given)]


class ApacheBench(Peer):
    """Apache's, of C, with keep-alive: closed loop. It shows whole ms, and counts a lost connection several times."""

    name: ClassVar[str] = "ab"
    install: ClassVar[str] = "apt install apache2-utils"
    speaks: ClassVar[str] = "HTTP/1.0"
    closed_only: ClassVar[str] = "it has no open loop"

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        path, fields, body = load.written(folder)
        # Without -r it ends at the first lost connection.
        command = [str(self.program), "-q", "-k", "-r", "-c", str(load.in_flight), "-s", str(REQUEST_TIMEOUT_S)]
        command += ["-t", f"{round(load.duration_s)}", "-n", str(_AB_MOST_REQUESTS), "-p", str(body)]
        return [*command, *_header(fields), load.url + path]

    def read(self, output: str, folder: Path) -> PeerFigures:  # noqa: ARG002 - the interface
        [rate] = re.findall(r"Requests per second: +([\d.]+)", output)
        failed = re.findall(r"(?:Failed requests|Non-2xx responses): +(\d+)", output)
        latencies = re.findall(r"^ +(\d+)% +(\d+)", output, re.MULTILINE)
        return PeerFigures(float(rate), {float(which): float(ms) for which, ms in latencies}, sum(map(int, failed)))


class Hey(Peer):
    """A goroutine for each request in flight: closed loop, which a rate only slows down. It shows 0.1 ms."""

    name: ClassVar[str] = "hey"
    install: ClassVar[str] = "apt install hey"
    speaks: ClassVar[str] = "HTTP"
    paced: ClassVar[bool] = True

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        path, fields, body = load.written(folder)
        command = [str(self.program), "-m", "POST", "-D", str(body), "-t", str(REQUEST_TIMEOUT_S)]
        command += ["-c", str(load.in_flight), "-z", f"{load.duration_s:g}s"]
        if load.rate is not None:
            command += ["-q", f"{load.rate / load.in_flight:g}"]  # of each worker
        return [*command, *_header(fields), load.url + path]

    def read(self, output: str, folder: Path) -> PeerFigures:  # noqa: ARG002 - the interface
        [rate] = re.findall(r"Requests/sec:\s+([\d.]+)", output)
        latencies = re.findall(r"(\d+)%+ in ([\d.]+) secs", output)
        statuses = re.findall(r"\[(\d+)\]\t(\d+) responses", output)
        errors = re.findall(r"^\s*\[(\d+)\]\t(?!\d+ responses)", output, re.MULTILINE)
        failed = sum(int(count) for status, count in statuses if status != "200") + sum(map(int, errors))
        return PeerFigures(float(rate), {float(which): float(s) * 1e3 for which, s in latencies}, failed)


class Wrk(Peer):
    """One thread of C with epoll, about the least that a request can cost a client: closed loop.

    A response is read and its status counted; its body is not looked at.
    """

    name: ClassVar[str] = "wrk"
    install: ClassVar[str] = "apt install wrk"
    speaks: ClassVar[str] = "HTTP/1.1"
    closed_only: ClassVar[str] = "it has no open loop"

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        path, fields, body = load.written(folder)
        script = _WRK_SCRIPT.format(
            body=json.dumps(str(body)),
            report=json.dumps(str(folder / "report.json")),
            fields=", ".join(f"[{json.dumps(name)}] = {json.dumps(value)}" for name, value in fields.items()),
            percentiles=", ".join(map(str, PERCENTILES)),
        )
        (folder / "script.lua").write_text(script)
        command = [str(self.program), "--threads", "1", "--connections", str(load.in_flight)]
        command += ["--duration", f"{round(load.duration_s)}s", "--timeout", f"{REQUEST_TIMEOUT_S}s"]
        return [*command, "--script", str(folder / "script.lua"), load.url + path]

    def read(self, output: str, folder: Path) -> PeerFigures:  # noqa: ARG002 - the interface
        report = json.loads((folder / "report.json").read_text())
        return PeerFigures(
            report["requests"] / report["us"] * 1e6,
            {each: report[f"{each}"] / 1e3 for each in PERCENTILES},
            report["failed"],
        )


class Locust(Peer):
    """As its documentation shows it, in Python: closed loop, which a rate only slows down. It shows 1 ms."""

    name: ClassVar[str] = "locust"
    install: ClassVar[str] = "pip install locust"
    speaks: ClassVar[str] = "HTTP"
    paced: ClassVar[bool] = True

    @property
    def program(self) -> str | None:
        """Return the one beside this Python, which servemark needs anyway."""
        return shutil.which(os.environ.get("LOCUST") or Path(sys.executable).with_name("locust"))

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        path, fields, body = load.written(folder)
        wait = "constant(0)" if load.rate is None else f"constant_throughput({load.rate / load.in_flight:g})"
        file = folder / "client.py"
        file.write_text(_LOCUSTFILE.format(wait=wait, body=str(body), path=path, fields=fields))
        command = [str(self.program), "-f", str(file), "--headless", "--only-summary", "-H", load.url]
        users = str(load.in_flight)
        return [*command, "-u", users, "-r", users, "-t", f"{round(load.duration_s) + _LOCUST_IMPORTS_S}s"]

    def read(self, output: str, folder: Path) -> PeerFigures:  # noqa: ARG002 - the interface
        [totals, shares] = re.findall(r"^ +Aggregated +(.+)", output, re.MULTILINE)
        [failed], [rate] = re.findall(r"(\d+)\([\d.]+%\)", totals), re.findall(r"([\d.]+) +[\d.]+$", totals)
        return PeerFigures(
            float(rate), dict(zip(_LOCUST_COLUMNS, map(float, shares.split()), strict=False)), int(failed)
        )


PERCENTILES = (50, 90, 95, 99, 99.9)
WARM_UP_S = 1
_MICROSECONDS = 2
"""Column of its log: when a request began, its status, how long it took."""


@dataclass(frozen=True)
class H2load(Peer):
    """Closed loop, a connection for each request in flight. A gRPC status is not looked at."""

    name: ClassVar[str] = "h2load"
    install: ClassVar[str] = "apt install nghttp2-client"
    closed_only: ClassVar[str] = "its rate is that of connections, not of requests"
    timed: bool = True
    """Log each request, without which there are no percentiles. It costs one system call for each."""

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        if load.protocol == "grpc":
            path, fields, body = INFER, {"content-type": "application/grpc", "te": "trailers"}, load.request
        else:
            path, fields, body = load.parts()
        (folder / "body").write_bytes(body)
        command = [str(self.program), "--threads", "1", "--clients", str(load.in_flight), "--max-concurrent-streams=1"]
        command += ["--duration", f"{round(load.duration_s)}", f"--warm-up-time={WARM_UP_S}"]
        command += ["--data", str(folder / "body"), *(["--h1"] if load.protocol == "http" else [])]
        command += [f"--log-file={folder / 'log'}"] if self.timed else []
        for name, value in fields.items():
            command += ["--header", f"{name}: {value}"]
        return [*command, f"http://{load.endpoint}{path}"]

    def read(self, output: str, folder: Path) -> PeerFigures:
        [rate] = re.findall(r"finished in [\d.]+m?s, ([\d.]+) req/s", output)
        [total] = re.findall(r"requests: (\d+) total", output)
        [good] = re.findall(r"status codes: (\d+) 2xx", output)
        percentiles_ms: dict[float, float] = {}
        if self.timed:
            if not (folder / "log").stat().st_size:
                raise ValueError("its log is empty")  # it gives up a connection that was reset
            took_us = np.loadtxt(folder / "log", usecols=_MICROSECONDS, ndmin=1)
            values = np.percentile(took_us, PERCENTILES, method="inverted_cdf") / 1e3
            percentiles_ms = dict(zip(PERCENTILES, values.tolist(), strict=True))
        return PeerFigures(float(rate), percentiles_ms, int(total) - int(good))


WINDOWS = 3
"""It measures in windows until three are alike. Any three are alike enough here, so that no run is thrown away."""
ANY_SPREAD_PERCENT = 1000
_PERF_ANALYZER_PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True)
class PerfAnalyzer(Peer):
    """Closed and open loop, HTTP and gRPC; it makes its requests itself, by the model's metadata."""

    name: ClassVar[str] = "perf_analyzer"
    install: ClassVar[str] = "pip install perf-analyzer (2.60 of April 2026 wants glibc 2.38)"
    more: tuple[str, ...] = ()
    """Further flags; everything else is its default, as its documentation shows it."""

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        window_ms = round(load.duration_s * 1000 / WINDOWS)
        command = [str(self.program), "-m", load.model, "-u", load.endpoint, "-i", load.protocol, *self.more]
        command += ["-p", str(window_ms), "-s", str(ANY_SPREAD_PERCENT), "-f", str(folder / "report.csv")]
        if load.rate is None:
            return [*command, "--concurrency-range", str(load.in_flight)]
        # Its default of 4 threads, each of which waits for its answer, would be late whatever the server does.
        command += ["--request-rate-range", f"{load.rate:g}", "--max-threads", str(load.in_flight)]
        return [*command, "--request-distribution", "poisson" if load.poisson else "constant"]

    def read(self, output: str, folder: Path) -> PeerFigures:
        """Read its CSV report, and the share of delayed requests, which only its output has, where there are any."""
        row = next(csv.DictReader(io.StringIO((folder / "report.csv").read_text())))
        delayed = re.search(r"([\d.]+)% of the requests were delayed", output)
        late = (float(delayed[1]) / 100 if delayed else 0.0) if "Request Rate" in row else None
        percentiles_ms: dict[float, float] = {
            each: float(row[f"p{each} latency"]) / 1e3 for each in _PERF_ANALYZER_PERCENTILES
        }
        return PeerFigures(float(row["Inferences/Second"]), percentiles_ms, late_share=late)


PEERS: dict[str, Peer] = {peer.name: peer for peer in (PerfAnalyzer(), Wrk(), H2load(), Hey(), ApacheBench(), Locust())}
