"""A real run read by Debian's Prometheus: every query of every panel and of every rule, over its HTTP API.

The run is a real one, against a golden server. GPU meters, energy and Triton's own metrics, which a machine that runs
this may not have, come from `recorded`, which the same Prometheus scrapes. Triton's names are those of its 2.51 with a
GPU ("Metrics" in its user guide). Counters grow by the second, so that rates of them are above 0; values are invented.
"""

import contextlib
import functools
import json
import math
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from dashboards import FOLDER
from dashboards.build import DASHBOARDS
from servemark.figures.registry import count_of
from servemark.monitoring.stack import export, native
from servemark.workload import get
from tests.support.locust_run import command as locust
from tests.support.locust_run import server_of, started, the_result, until
from tests.support.prometheus import ask, needs_prometheus, needs_promtool
from tests.support.web import free_port

MODEL = 'model="ranking_tiny_onnxruntime",version="1"'
GPU = 'gpu_uuid="GPU-0000"'
METER = 'boundary="gpu",source="nvml"'
TRITON_COUNTERS = {
    f"nv_inference_request_success{{{MODEL}}}": 100.0,
    f'nv_inference_request_failure{{{MODEL},reason="OTHER"}}': 1.0,
    f"nv_inference_count{{{MODEL}}}": 100.0,
    f"nv_inference_exec_count{{{MODEL}}}": 40.0,
    f"nv_inference_request_duration_us{{{MODEL}}}": 250_000.0,
    f"nv_inference_queue_duration_us{{{MODEL}}}": 50_000.0,
    f"nv_inference_compute_input_duration_us{{{MODEL}}}": 10_000.0,
    f"nv_inference_compute_infer_duration_us{{{MODEL}}}": 180_000.0,
    f"nv_inference_compute_output_duration_us{{{MODEL}}}": 10_000.0,
    f"nv_energy_consumption{{{GPU}}}": 300.0,
}
TRITON_GAUGES = {
    f"nv_inference_pending_request_count{{{MODEL}}}": 2.0,
    f"nv_gpu_utilization{{{GPU}}}": 0.6,
    f"nv_gpu_memory_used_bytes{{{GPU}}}": 4e9,
    f"nv_gpu_power_usage{{{GPU}}}": 300.0,
}
MACHINE_COUNTERS = {f"servemark_energy_joules_total{{{METER},RUN}}": 300.0}
MACHINE_GAUGES = {
    f"servemark_power_watts{{{METER},RUN}}": 300.0,
    'servemark_gpu_utilization_ratio{gpu="0",RUN}': 0.6,
    'servemark_gpu_memory_used_bytes{gpu="0",RUN}': 4e9,
    'servemark_gpu_power_watts{gpu="0",RUN}': 300.0,
    'servemark_gpu_temperature_celsius{gpu="0",RUN}': 55.0,
    'servemark_gpu_sm_clock_hertz{gpu="0",RUN}': 1.7e9,
    'servemark_gpu_throttled{gpu="0",reason="sw_power_cap",RUN}': 1.0,
    "servemark_cpu_utilization_ratio{RUN}": 0.5,
    "servemark_memory_used_bytes{RUN}": 8e9,
}


@contextlib.contextmanager
def recorded(run_labels: Callable[[], str]) -> Iterator[str]:
    """Expose it on loopback, the machine's metrics as soon as a run has labels; the address, "host:port"."""
    began = time.monotonic()

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            age_s = time.monotonic() - began
            counters = {name: rate * age_s for name, rate in (TRITON_COUNTERS | MACHINE_COUNTERS).items()}
            samples, labels = counters | TRITON_GAUGES | MACHINE_GAUGES, run_labels()
            shown = {
                name.replace("RUN", labels): value for name, value in samples.items() if labels or "RUN" not in name
            }
            text = "".join(f"{name} {value:.6f}\n" for name, value in shown.items())
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


TOLERANCE = 0.10
"""Of a p99."""
RUN_S, LINGER_S = 10, 60
LOAD = ["--request-rate", "150", "--duration", str(RUN_S), "--warmup", "4", "--slo", "p99:5,p50:1000", "--seed", "1"]
MISSED = 'ALERTS{alertname="ServemarkObjectiveMissed"}'
VARIABLES = {"workload": ".*", "engine": ".*", "device": ".*", "run": ".*", "model": ".*", "baseline": "golden"}
RULES = yaml.safe_load((FOLDER / "prometheus" / "rules" / "slo.yml").read_text())
EXPRESSIONS = [rule["expr"] for group in RULES["groups"] for rule in group["rules"]]
QUERIES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (f"{name}: {panel['title']} {target['refId']}", target, panel)
    for name in DASHBOARDS
    for panel in json.loads((FOLDER / "grafana" / "json" / f"{name}.json").read_text())["panels"]
    for target in panel.get("targets", [])
]
pytestmark = needs_prometheus


@dataclass(frozen=True)
class Watched:
    """A run that is over, its result, and the Prometheus that has read all of it."""

    url: str
    result: Any
    exposed: str
    """The run's metrics at its end, as text."""
    at_s: float
    """When all had been read; later the run's series are no longer there."""

    def now(self, query: str) -> Any:
        """The vector that an expression is, at the moment."""
        return ask(self.url, "query", query=substituted(query), time=f"{self.at_s}")["result"]

    def over_time(self, query: str) -> Any:
        """The series that a panel draws over the run."""
        shown = {"start": f"{self.at_s - 300}", "end": f"{self.at_s}", "step": "1"}
        return ask(self.url, "query_range", query=substituted(query), **shown)["result"]


def substituted(query: str, rate_interval: str = "4s") -> str:
    """Substitute variables in a panel's query as Grafana does: `$__rate_interval` is four scrapes."""
    text = query.replace("$__rate_interval", rate_interval).replace("$__range", "5m")
    return re.sub(r"\$(\w+)", lambda found: VARIABLES[found[1]], text)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Prometheus reads a run to its end."""
    tmp_path = tmp_path_factory.mktemp("watched")
    metrics, port = free_port(), free_port()
    folder, out, url = tmp_path / "stack", tmp_path / "out", f"http://127.0.0.1:{port}"
    flags = ["--metrics-port", str(metrics), "--metrics-grace", str(LINGER_S), "--out", str(out), *LOAD]
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(recorded(functools.partial(labels_of, metrics)))
        export(folder, generator=f"127.0.0.1:{metrics}", triton=address)
        options = [*native(str(shutil.which("prometheus")), folder, {"--prometheus-port": port}).argv]
        stack.enter_context(started(options, tmp_path / "prometheus.log"))
        until(lambda: reached(url, "count(up)", 1), "the first scrape")
        server = stack.enter_context(
            server_of(get("ranking_tiny"), capacity_per_s=400, exponential=True, error_every=20)
        )
        arguments = locust("ranking", "--model", "ranking_tiny", "--url", server.url, *flags)
        stack.enter_context(started(arguments, tmp_path / "run.log"))
        until(lambda: out.exists() and list(out.glob("*/result.json")) and ended(out), "the result")
        result = the_result(out)
        name = "servemark_request_latency_seconds"
        all_of_it = count_of(result, "requests.answered")
        until(lambda: reached(url, f"{name}_count", all_of_it), "the last scrape")
        for recorded_by_rules in ("servemark:objective_burn:rate30s", MISSED):
            until(functools.partial(reached, url, f"count({recorded_by_rules})", 1), "the rules")
        exposed = requests.get(f"http://127.0.0.1:{metrics}/metrics", timeout=5).text
        yield Watched(url, result, exposed, time.time())


def labels_of(port: int) -> str:
    """The labels of the run in its metrics, as Prometheus's text format has them; empty while there are none."""
    try:
        text = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=5).text
    except requests.ConnectionError:
        return ""
    found = re.search(r"^servemark_run_info\{(.*)\}", text, re.MULTILINE)
    names = "workload|engine|precision|device|scenario|run"
    return ",".join(re.findall(rf'(?:{names})="[^"]*"', found[1])) if found else ""


def ended(out: Path) -> bool:
    return all(json.loads(path.read_text())["verdict"] for path in out.glob("*/result.json"))


def reached(url: str, query: str, value: float) -> bool:
    """Return True if a query has one value that is at least `value`."""
    try:
        found = ask(url, "query", query=query)["result"]
    except OSError:
        return False
    return bool(found) and float(found[0]["value"][1]) >= value


@pytest.mark.parametrize(("name", "target", "panel"), QUERIES, ids=[name for name, _, _ in QUERIES])
def test_every_query_of_every_panel_returns_data(
    name: str, target: dict[str, Any], panel: dict[str, Any], watched: Watched
) -> None:
    query = target["expr"]
    if target.get("instant"):
        values = [float(series["value"][1]) for series in watched.now(query)]
    else:
        values = [float(value) for series in watched.over_time(query) for _, value in series["values"]]
        assert panel["type"] != "heatmap" or any(value > 0 for value in values)
    assert [value for value in values if math.isfinite(value)], name


def test_the_stages_are_marked(watched: Watched) -> None:
    board = json.loads((FOLDER / "grafana" / "json" / "latency.json").read_text())
    [series] = watched.over_time(board["annotations"]["list"][0]["expr"])
    began = [float(value) / 1000 for _, value in series["values"]]
    assert max(began) - min(began) < 1
    assert watched.at_s - 600 < min(began) < watched.at_s


def test_variables_offer_the_run(watched: Watched) -> None:
    for label, value in (("workload", "ranking_tiny"), ("engine", "golden")):
        assert ask(watched.url, f"label/{label}/values", **{"match[]": "servemark_run_info"}) == [value]


@pytest.mark.parametrize("rate_interval", ["total", "60s"], ids=["as it stands", "over time"])
def test_the_p99_of_the_panels_is_the_result_s(rate_interval: str, watched: Watched) -> None:
    found = {target["legendFormat"]: target["expr"] for _, target, panel in QUERIES if panel["title"] == "latency"}
    total, moment = found["p99 {{run}}"], found["p99"]
    query = total if rate_interval == "total" else substituted(moment, rate_interval)
    [series] = watched.now(query)
    figures = watched.result["figures"]
    found_ms = float(series["value"][1]) * 1000
    if rate_interval == "total":
        assert found_ms == pytest.approx(figures["answered_latency.p99"]["value"], rel=TOLERANCE)
    else:  # a rate leaves out what came before the first scrape, which a busy machine makes late
        least, highest = figures["answered_latency.p95"]["value"], figures["latency.max"]["value"]
        assert least * (1 - TOLERANCE) <= found_ms <= highest * (1 + TOLERANCE)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_rule_has_data_to_judge(expression: str, watched: Watched) -> None:
    """An alert that does not fire is an empty answer; with its thresholds at 0 it has the values it compares."""
    watched.now(expression)
    judged = re.sub(r"(==|>) [\d.]+", ">= 0", expression)
    assert watched.now(judged)


def test_prometheus_evaluates_the_rules_and_reads_both_jobs(watched: Watched) -> None:
    rules = [rule for group in ask(watched.url, "rules")["groups"] for rule in group["rules"]]
    assert len(rules) == len(EXPRESSIONS)
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
    assert watched.now(MISSED), "one request in 20 fails, and one in 100 may"
    up = {series["metric"]["job"]: series["value"][1] for series in watched.now("up")}
    assert up == {"servemark": "1", "triton": "1"}


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_metrics(watched: Watched) -> None:
    command = [str(shutil.which("promtool")), "check", "metrics"]
    done = subprocess.run(command, input=watched.exposed, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
