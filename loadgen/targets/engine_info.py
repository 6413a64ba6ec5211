"""What really runs a model, as servemark's backends say it among Triton's metrics."""

import re
from dataclasses import replace

import requests

from loadgen.sut.target import Placement

ENGINE_METRIC = "servemark_engine_info"
"""Always 1; its labels say engine, device and provider of each instance (servers/triton_backend/adapter.py)."""
TIMEOUT_S = 5.0
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def read_placement(placement: Placement, metrics_url: str | None, model: str) -> Placement:
    """Complete what the configuration says by what was read back from the engine, where the metrics are known."""
    if metrics_url is None:
        return placement
    try:
        text = requests.get(metrics_url, timeout=TIMEOUT_S).text
    except requests.RequestException:
        return placement
    lines = [line for line in text.splitlines() if line.startswith(f"{ENGINE_METRIC}{{")]
    instances = [found for found in (dict(_LABEL.findall(line)) for line in lines) if found.get("model") == model]
    if not instances:
        return placement
    devices = ",".join(sorted({found["device"] for found in instances}))
    providers = ", ".join(sorted({found["provider"] for found in instances}))
    return replace(placement, engine=instances[0]["engine"], device=devices, provider=providers)
