"""h2load: one thread of C++, HTTP/1.1 and HTTP/2, and so gRPC."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from loadgen.kserve.grpc_inference import INFER
from loadgen.peers.peer import Peer, PeerFigures, PeerLoad

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
