"""Engine and device that really run a model, as servemark's backends report them among Triton's metrics."""

import re
from dataclasses import replace
from http.client import HTTPException
from urllib.parse import urlsplit

from loadgen.sut.target import Placement
from servemark.telemetry.http_request import ask

ENGINE_METRIC = "servemark_engine_info"
"""Always 1; its labels say engine, device and provider of each instance (servers/triton_backend/adapter.py)."""
TIMEOUT_S = 5.0
_LABELS = {"engine", "device", "provider"}
# From the start of a name only: a word of 8 MiB would be tried from each of its letters.
_LABEL = re.compile(r'\b(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def read_placement(placement: Placement, metrics_url: str | None, model: str) -> Placement:
    """Complete what the configuration says by what was read back from the engine, where the metrics are known."""
    if metrics_url is None:
        return placement
    try:
        parts = urlsplit(metrics_url)
        metrics = ask(parts.netloc, parts.path, timeout_s=TIMEOUT_S).body
    except (OSError, HTTPException):
        return placement
    return placement_in(metrics, placement, model)


def placement_in(metrics: bytes, placement: Placement, model: str) -> Placement:
    """Complete a placement by what metrics in Prometheus' text format say of a model."""
    text = metrics.decode(errors="replace")
    labels = [
        {
            name: _ESCAPED.sub(lambda found: {"n": "\n"}.get(found[1], found[1]), value)
            for name, value in _LABEL.findall(line)
        }
        for line in text.split("\n")
        if line.startswith(f"{ENGINE_METRIC}{{")
    ]
    instances = [found for found in labels if found.get("model") == model and found.keys() >= _LABELS]
    if not instances:
        return placement
    devices = ",".join(sorted({found["device"] for found in instances}))
    providers = ", ".join(sorted({found["provider"] for found in instances}))
    return replace(placement, engine=instances[0]["engine"], device=devices, provider=providers)
