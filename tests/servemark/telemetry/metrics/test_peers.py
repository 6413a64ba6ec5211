"""Debian's Prometheus against a real run: it reads what it says, and its p99 is the result's."""

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from servemark.figures.latency import LATENCY
from servemark.figures.registry import value_of
from servemark.telemetry.metrics.catalog import Kind, by_name
from tests.support.locust_run import command, golden_entry, server_of, smallest, started, the_result, until
from tests.support.prometheus import ask, needs_prometheus, needs_promtool
from tests.support.web import free_port, is_up

pytestmark = [pytest.mark.peer]
WITHIN = 0.10


@contextmanager
def prometheus(folder: Path, scraped: int) -> Iterator[str]:
    """One on loopback that reads a port, with its data in a folder of the test; its URL."""
    folder.mkdir()
    address, log = f"127.0.0.1:{free_port()}", folder / "log"
    targets = [{"targets": [f"127.0.0.1:{scraped}"]}]
    jobs = [{"job_name": "servemark", "scrape_interval": "500ms", "static_configs": targets}]
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": jobs}))
    arguments = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--web.listen-address={address}"]
    with started([*arguments, f"--storage.tsdb.path={folder}/data"], log) as process:
        until(lambda: is_up(f"http://{address}/-/ready") or process.poll() is not None, "Prometheus")
        assert process.poll() is None, log.read_text()
        yield f"http://{address}"


def value(url: str, query: str) -> float | None:
    """Return the one value of a query, None while there is none."""
    found = ask(url, "query", query=query)["result"]
    return float(found[0]["value"][1]) if found else None


def load(folder: Path, url: str, *flags: str) -> list[str]:
    workload = smallest("ranking")
    golden_entry(folder, workload.name)
    return command(
        "ranking", "--model", workload.name, "--url", url, "--out", str(folder / "out"), "--request-rate", "300",
        "--duration", "4", "--warmup", "0.5", "--slo", "p99:50", "--model-repository", str(folder), *flags,
    )  # fmt: skip


@needs_prometheus
def test_the_p99_that_prometheus_computes_is_the_result_s(tmp_path: Path) -> None:
    port = free_port()
    series = f"{LATENCY.metric}_bucket"
    slow: dict[str, Any] = {"delay_s": 0.004, "stall_s": 0.05, "stall_every_s": 1.0}
    with server_of(smallest("ranking"), **slow) as server, prometheus(tmp_path / "prometheus", port) as url:
        flags = ["--metrics-port", str(port), "--metrics-grace", "60"]
        with started(load(tmp_path, server.url, *flags), tmp_path / "log"):
            until(lambda: "stays for" in (tmp_path / "log").read_text(), "the final figures")
            result = the_result(tmp_path / "out")
            count = value_of(result, "requests.answered")
            until(lambda: value(url, f'{series}{{le="+Inf"}}') == count, "a scrape of the final figures")
            for percentile, key in [(0.5, "p50"), (0.99, "p99")]:
                found = value(url, f"histogram_quantile({percentile}, {series})")
                assert (found or 0.0) * 1e3 == pytest.approx(value_of(result, f"latency.{key}"), rel=WITHIN)
            assert value(url, "servemark_requests_scheduled_total - servemark_requests_sent_total") == 0
            names = ask(url, "label/__name__/values")
            assert {name for name in names if name.startswith("servemark_")} <= exposed()


def exposed() -> set[str]:
    """The names of all series that the catalog speaks of."""
    names = {metric.name for metric in by_name().values()}
    histograms = [metric.name for metric in by_name().values() if metric.kind is Kind.HISTOGRAM]
    return names | {f"{name}_{part}" for name in histograms for part in ("bucket", "count", "sum")}


@needs_promtool
def test_promtool_finds_nothing_to_say(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with server_of(smallest("ranking")) as server:
        flags = ["--metrics-port", "0", "--metrics-grace", "60"]
        with started(load(tmp_path, server.url, *flags), log):
            until(lambda: "stays for" in log.read_text(), "the final figures")
            [url] = set(re.findall(r"http://\S+/metrics", log.read_text()))
            with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - ours
                text = answer.read()
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)  # noqa: S607
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
