"""Programs that make load: perf_analyzer and h2load, which speak gRPC too, and wrk, hey, ab and Locust for HTTP alone.

Each is found, told a load, and its report read.
"""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar

import numpy as np

from loadgen.kserve.grpc_inference import INFER
from loadgen.transport.server_url import protocol_of
from servemark.errors import ServemarkError

END_WITHIN_S = 120.0
"""Beyond a load's duration: what starting, connecting and reporting may take."""
REQUEST_TIMEOUT_S = 30


class PeerError(ServemarkError):
    """Another generator that could not be run, or that reported nothing."""


@dataclass(frozen=True)
class PeerLoad:
    """A load that every generator can be told: one request, again and again."""

    url: str
    """Like http://127.0.0.1:8000 or grpc://127.0.0.1:8001."""
    model: str
    request: bytes
    """As it travels: a whole HTTP/1.1 request, or an enclosed gRPC message. perf_analyzer makes its own."""
    in_flight: int
    """Of an open loop the most."""
    duration_s: float
    rate: float | None = None
    """Requests/s of an open loop; None: a closed loop."""
    poisson: bool = True
    """Arrivals of an open loop, else at constant distances."""

    @property
    def protocol(self) -> str:
        """Return the URL's, http or grpc."""
        return protocol_of(self.url)

    @property
    def endpoint(self) -> str:
        """Return the URL's HOST:PORT."""
        return self.url.partition("://")[2]

    def parts(self) -> tuple[str, dict[str, str], bytes]:
        """Return path, header fields and body of an HTTP/1.1 request; fields that a client adds itself are left out."""
        head, _, body = self.request.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines)
        for own in ("Host", "Content-Length"):
            fields.pop(own, None)
        return first.split(" ")[1], fields, body

    def written(self, folder: Path) -> tuple[str, dict[str, str], Path]:
        """Write the body into a folder: path and header fields as of `parts`, and its file."""
        path, fields, body = self.parts()
        file = folder / "body"
        file.write_bytes(body)
        return path, fields, file


@dataclass(frozen=True)
class PeerFigures:
    """A run by a generator's own report. None is what it does not say."""

    requests_per_s: float
    percentiles_ms: Mapping[float, float]
    """Of the latency as it defines it, by percentile."""
    failed: int | None = None
    late_share: float | None = None
    """Requests of an open loop that it calls late itself."""


class Peer(ABC):
    """A program that makes load. It is taken from the environment variable of its name in capitals, else from PATH."""

    name: ClassVar[str]
    install: ClassVar[str]
    """The command that installs it, or words."""
    speaks: ClassVar[str] = ""
    """All that it speaks; empty: gRPC too."""
    closed_only: ClassVar[str] = ""
    """The reason why it makes no open loop; empty: it makes one."""
    paced: ClassVar[bool] = False
    """True: its rate only slows a closed loop down, at constant distances, which still waits for answers."""

    @property
    def program(self) -> str | None:
        """Return where it is; None where it is not."""
        return shutil.which(os.environ.get(self.name.upper()) or self.name)

    def refusal(self, load: PeerLoad) -> str | None:
        """Return the reason why it cannot make a load; None if it can."""
        if self.program is None:
            return f"not on PATH, nor where {self.name.upper()}= says: {self.install}"
        if self.speaks and load.protocol != "http":
            return f"it speaks {self.speaks} only"
        if load.rate is None:
            return None
        return "it has no Poisson arrivals" if self.paced and load.poisson else self.closed_only or None

    def measure(self, load: PeerLoad, run: Callable[[Sequence[str]], str] | None = None) -> PeerFigures:
        """Run it once. `run` runs a command and returns what it prints. Raises PeerError."""
        if why := self.refusal(load):
            raise PeerError(f"{self.name}: {why}")
        with tempfile.TemporaryDirectory() as folder:
            command = self.command(load, Path(folder))
            output = run(command) if run else _run(command, load.duration_s + END_WITHIN_S)
            try:
                return self.read(output, Path(folder))
            except (OSError, LookupError, TypeError, ValueError) as error:
                raise PeerError(f"{self.name} reported nothing that can be read:\n{output.strip()}") from error

    @abstractmethod
    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        """Return the command line; files that it names are written into the folder."""

    @abstractmethod
    def read(self, output: str, folder: Path) -> PeerFigures:
        """Read its report: what it printed, and what it wrote. Raises ValueError, TypeError, LookupError, OSError."""


def _run(command: Sequence[str], timeout_s: float) -> str:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"{command[0]} did not end within {timeout_s:g} s") from error
    return done.stdout


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
