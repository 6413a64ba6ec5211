"""wrk: one thread of C with epoll, about the least that a request can cost a client."""

import json
from pathlib import Path
from typing import ClassVar

from loadgen.peers.peer import REQUEST_TIMEOUT_S, Peer, PeerFigures, PeerLoad

PERCENTILES = (50, 90, 95, 99, 99.9)
_SCRIPT = """\
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


class Wrk(Peer):
    """Closed loop over HTTP. A response is read and its status counted; its body is not looked at."""

    name: ClassVar[str] = "wrk"
    install: ClassVar[str] = "apt install wrk"
    speaks: ClassVar[str] = "HTTP/1.1"
    closed_only: ClassVar[str] = "it has no open loop"

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        path, fields, body = load.parts()
        (folder / "body").write_bytes(body)
        script = _SCRIPT.format(
            body=json.dumps(str(folder / "body")),
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
