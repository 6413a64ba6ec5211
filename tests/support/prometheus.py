"""Debian's Prometheus as a process, and its HTTP API."""

import json
import shutil
import urllib.parse
import urllib.request
from typing import Any

import pytest

needs_prometheus = pytest.mark.skipif(
    not shutil.which("prometheus"), reason="no prometheus on PATH: apt-get install prometheus"
)
needs_promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="no promtool on PATH: apt-get install prometheus"
)


def ask(url: str, path: str, **parameters: str) -> Any:
    """Ask the API. Raises urllib.error.HTTPError if it refuses, as for a query that it cannot parse."""
    asked = f"{url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310  loopback
        return json.load(answer)["data"]
