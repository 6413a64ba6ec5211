import time

from servemark.documents.live import Exporter
from servemark.telemetry.run import RunTelemetry
from tests.support.documents import validated

S = 1_000_000_000


def test_what_was_read_has_a_schema_and_says_where_the_measured_interval_lies() -> None:
    telemetry = RunTelemetry(50, metrics_url="http://127.0.0.1:9/metrics", model="m")
    began_ns = time.monotonic_ns()
    telemetry.start()
    deadline = time.monotonic() + 60
    while not telemetry.latest() and time.monotonic() < deadline:
        time.sleep(0.01)
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
