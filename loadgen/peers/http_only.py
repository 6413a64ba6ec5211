"""Generators that speak HTTP alone: ab, hey, wrk and Locust."""

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import ClassVar

from loadgen.peers.peer import REQUEST_TIMEOUT_S, Peer, PeerFigures, PeerLoad

_AB_MOST_REQUESTS = 2_000_000
_WRK_PERCENTILES = (50, 90, 95, 99, 99.9)
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
            percentiles=", ".join(map(str, _WRK_PERCENTILES)),
        )
        (folder / "script.lua").write_text(script)
        command = [str(self.program), "--threads", "1", "--connections", str(load.in_flight)]
        command += ["--duration", f"{round(load.duration_s)}s", "--timeout", f"{REQUEST_TIMEOUT_S}s"]
        return [*command, "--script", str(folder / "script.lua"), load.url + path]

    def read(self, output: str, folder: Path) -> PeerFigures:  # noqa: ARG002 - the interface
        report = json.loads((folder / "report.json").read_text())
        return PeerFigures(
            report["requests"] / report["us"] * 1e6,
            {each: report[f"{each}"] / 1e3 for each in _WRK_PERCENTILES},
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
