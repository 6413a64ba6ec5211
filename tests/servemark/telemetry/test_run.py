import time
from contextlib import AbstractContextManager

import pytest

from servemark.documents.live import Exporter
from servemark.telemetry import run
from servemark.telemetry.energy.meter import UnavailableError
from servemark.telemetry.http_request import Reply
from servemark.telemetry.recording import Column
from servemark.telemetry.run import MAX_LINES, RunTelemetry, metrics_in, scrape
from tests.support.documents import validated
from tests.support.locust_run import until
from tests.support.raw_server import answering

S = 1_000_000_000
TRITON = """\
# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="ranking_onnxruntime",version="1"} 120
nv_inference_request_success{model="other",version="1"} 7
# HELP nv_inference_pending_request_count Instantaneous number of pending requests awaiting execution per-model.
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{model="ranking_onnxruntime",version="1"} 3
# HELP nv_inference_first_response_histogram_ms Duration from request to first response in milliseconds
# TYPE nv_inference_first_response_histogram_ms histogram
nv_inference_first_response_histogram_ms_count{model="ranking_onnxruntime",version="1"} 37
nv_inference_first_response_histogram_ms_sum{model="ranking_onnxruntime",version="1"} 10771
nv_inference_first_response_histogram_ms_bucket{model="ranking_onnxruntime",version="1",le="100"} 8
nv_inference_first_response_histogram_ms_bucket{model="ranking_onnxruntime",version="1",le="+Inf"} 37
# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{gpu_uuid="GPU-1"} 0.81
# HELP nv_energy_consumption GPU energy consumption in joules since the Triton Server started
# TYPE nv_energy_consumption counter
nv_energy_consumption{gpu_uuid="GPU-1"} 1234.5
# TYPE nv_pinned_memory_pool_total_bytes gauge
nv_pinned_memory_pool_total_bytes 268435456
# TYPE servemark_engine_info gauge
servemark_engine_info{engine="onnxruntime"} 1
"""
MODEL = (("model", "ranking_onnxruntime"), ("version", "1"))
GPU = (("gpu_uuid", "GPU-1"),)


def test_what_was_read_has_a_schema_and_says_where_the_measured_interval_lies() -> None:
    telemetry = RunTelemetry(50, metrics_url="http://127.0.0.1:9/metrics", model="m")
    began_ns = time.monotonic_ns()
    telemetry.start()
    until(telemetry.latest, "a reading")
    telemetry.stop()
    found = validated(telemetry.to_dict((began_ns + 2 * S, began_ns + 5 * S)))
    assert abs(found["start_epoch_s"] - time.time()) < 300
    assert -1 < found["measured_from_s"] - 2 < 1
    assert abs(found["measured_until_s"] - found["measured_from_s"] - 3) < 1e-5
    machine, server = found["series"]
    assert (machine["source"], server["source"]) == ("machine", "triton")
    assert {"cpu_utilization_ratio", "memory_used_bytes"} <= {column["name"] for column in machine["columns"]}
    assert {len(column["values"]) for column in machine["columns"]} == {len(machine["time_s"])}
    assert telemetry.cpu_utilization is not None
    assert 0 < telemetry.cpu_utilization < 1
    assert telemetry.latest_of_server() == {}


def test_nothing_is_read_at_a_rate_of_0() -> None:
    telemetry = RunTelemetry(0, metrics_url="http://127.0.0.1:9/metrics")
    telemetry.start()
    telemetry.stop()
    assert (telemetry.to_dict((0, S)), telemetry.cpu_utilization, dict(telemetry.latest())) == (None, None, {})


def test_other_exporters_have_a_series_each_under_their_names() -> None:
    silent = Exporter("node", "http://127.0.0.1:9/metrics", ("node_",))
    telemetry = RunTelemetry(50, exporters=[silent])
    telemetry.start()
    telemetry.stop()
    found = validated(telemetry.to_dict((0, S)))
    assert [each["source"] for each in found["series"]] == ["machine", "node"]


def test_figures_of_a_model_and_of_no_model() -> None:
    assert metrics_in(TRITON, "ranking_onnxruntime") == {
        Column("nv_inference_request_success", "", MODEL, counter=True): 120,
        Column("nv_inference_pending_request_count", "", MODEL): 3,
        Column("nv_inference_first_response_histogram_ms_count", "", MODEL): 37,
        Column("nv_inference_first_response_histogram_ms_sum", "", MODEL): 10771,
        Column("nv_gpu_utilization", "", GPU): 0.81,
        Column("nv_energy_consumption", "", GPU, counter=True): 1234.5,
    }


def test_no_more_lines_are_parsed_than_are_allowed() -> None:
    assert len(metrics_in("nv_gpu_utilization 1\n" * 10 * MAX_LINES, "m")) == 1
    many = "".join(f'nv_gpu_utilization{{gpu_uuid="{number}"}} 1\n' for number in range(2 * MAX_LINES))
    assert len(metrics_in(many, "m")) == MAX_LINES


def scraped(status: int, body: bytes) -> AbstractContextManager[str]:
    """The "host:port" of a server whose metrics these are."""
    return answering(lambda connection: connection.sendall(b"HTTP/1.1 %d x\r\n\r\n" % status + body))


def test_they_are_read_over_http_where_somebody_listens() -> None:
    with scraped(200, TRITON.encode()) as place:
        assert len(scrape(f"http://{place}/metrics", "ranking_onnxruntime")) == 6
    with pytest.raises(UnavailableError, match=f"http://{place}/metrics: .*refused"):
        scrape(f"http://{place}/metrics", "m")


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (503, b"", "answered 503"),
        (200, b"nv_gpu_utilization{ 1\n", "metrics: "),
        (200, b"node_load1 1\n", "no metric begins with nv_inference_ or nv_gpu_"),
    ],
    ids=["status", "no metrics", "others"],
)
def test_what_is_no_answer_has_a_reason(status: int, body: bytes, words: str) -> None:
    with scraped(status, body) as place, pytest.raises(UnavailableError, match=words):
        scrape(f"http://{place}/metrics", "m", timeout_s=30)


def test_another_exporter_is_read_by_the_beginnings_of_its_names() -> None:
    text = (
        "# TYPE node_load1 gauge\nnode_load1 0.5\n# TYPE node_cpu_seconds_total counter\n"
        'node_cpu_seconds_total{cpu="0",model="x"} 7\n# TYPE go_threads gauge\ngo_threads 9\n'
    )
    cpu = (("cpu", "0"), ("model", "x"))
    assert metrics_in(text, None, ("node_",)) == {
        Column("node_load1", ""): 0.5,
        Column("node_cpu_seconds_total", "", cpu, counter=True): 7,
    }
    assert Column("go_threads", "") in metrics_in(text, None, ("",))


@pytest.mark.parametrize(("url", "path"), [("http://h:1", "/"), ("http://h:1/m?name[]=a&b=c#d", "/m?name[]=a&b=c")])
def test_a_url_s_query_is_asked_too(url: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(_endpoint: str, path: str, **_: object) -> Reply:
        asked.append(path)
        return Reply(200, b"nv_gpu_utilization 1\n")

    monkeypatch.setattr(run, "ask", answer)
    scrape(url, None)
    assert asked == [path]
