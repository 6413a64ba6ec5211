"""What really runs a model, as servemark's backends say it among Triton's metrics."""

import re
from dataclasses import replace
from http.client import HTTPException
from urllib.parse import urlsplit

from loadgen.sut.target import Placement
from loadgen.transport.http_request import ask

ENGINE_METRIC = "servemark_engine_info"
"""Always 1; its labels say engine, device and provider of each instance (servers/triton_backend/adapter.py)."""
TIMEOUT_S = 5.0
_LABELS = {"engine", "device", "provider"}
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def read_placement(placement: Placement, metrics_url: str | None, model: str) -> Placement:
    """Complete what the configuration says by what was read back from the engine, where the metrics are known."""
    if metrics_url is None:
        return placement
    try:
        parts = urlsplit(metrics_url)
        text = ask(parts.netloc, parts.path, timeout_s=TIMEOUT_S).body.decode(errors="replace")
    except (OSError, HTTPException):
        return placement
    labels = [dict(_LABEL.findall(line)) for line in text.splitlines() if line.startswith(f"{ENGINE_METRIC}{{")]
    instances = [found for found in labels if found.get("model") == model and found.keys() >= _LABELS]
    if not instances:
        return placement
    devices = ",".join(sorted({found["device"] for found in instances}))
    providers = ", ".join(sorted({found["provider"] for found in instances}))
    return replace(placement, engine=instances[0]["engine"], device=devices, provider=providers)
