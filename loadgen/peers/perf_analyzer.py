"""perf_analyzer: NVIDIA's load generator for Triton, of C++, with a thread for each request in flight over HTTP."""

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from loadgen.peers.peer import Peer, PeerFigures, PeerLoad

WINDOWS = 3
"""It measures in windows until three are alike. Any three are alike enough here, so that no run is thrown away."""
ANY_SPREAD_PERCENT = 1000
PERCENTILES = (50, 90, 95, 99)


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
        percentiles_ms: dict[float, float] = {each: float(row[f"p{each} latency"]) / 1e3 for each in PERCENTILES}
        return PeerFigures(float(row["Inferences/Second"]), percentiles_ms, late_share=late)
