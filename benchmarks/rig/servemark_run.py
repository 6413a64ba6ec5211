"""One `servemark run` as a user would type it, and its result."""

import json
import subprocess
import sys
import tempfile
from typing import Any

from servemark.repository.entry import Entry

TIMEOUT_S = 300


def metrics_of(entry: Entry, seconds: float, *flags: str) -> dict[str, Any]:
    """`metrics` of a run that may be INVALID, but whose requests were all answered."""
    command = [sys.executable, "-m", "servemark", "run", entry.workload, "--engine", entry.engine, "--json", *flags]
    with tempfile.TemporaryDirectory() as out:
        command += ["--warmup", "1", "--duration", f"{seconds:g}", "--out", out]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    metrics: dict[str, Any] | None = json.loads(done.stdout)["metrics"] if done.stdout else None
    if metrics is None or metrics["errors"]["count"] or metrics["latency_ms"]["p50"] is None:
        raise SystemExit(f"the run failed:\n{done.stderr}")
    return metrics
