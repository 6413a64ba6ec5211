"""MLCommons' LoadGen over our driver, against the golden server: both count and time the same requests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from loadgen.measurement.probe import probe
from loadgen.peers.official_loadgen import (
    LIBRARY,
    MULTI_STREAM_SAMPLES,
    LoadGenOutcomes,
    first_of,
    read_accuracy_log,
    read_log,
    run,
    why_invalid,
)
from loadgen.sut.channel import Payload
from servemark.documents.commands.measure import MlperfScenario
from servemark.errors import ResultError, ServerError
from servemark.results.schema.run import Plan
from tests.golden.load import Load, payloads
from tests.golden.server import GoldenServer

DELAY_MS = 100.0
ATTEMPTS = 8
"""Between the two clock readings of a request this machine may run something else; a wrong figure is always wrong."""


class Target:
    """The golden server, as LoadGen's system under test."""

    def __init__(self, server: GoldenServer) -> None:
        self.connect = Load(server.port).channels()


def plan(scenario: MlperfScenario, **changes: Any) -> Plan:
    chosen: Plan = {
        "scenario": scenario,
        "expected_qps": 40,
        "expected_latency_ms": DELAY_MS / 2,
        "min_duration_s": 1.0,
        "min_queries": 20,
        "latency_ms": 3 * DELAY_MS,
        "percentile": 90,
        "seed": 1,
    }
    return cast(Plan, {**chosen, **changes})


def drive(server: GoldenServer, asked: Plan, logs: Path, requests: Iterator[Payload] | None = None) -> LoadGenOutcomes:
    target: Any = Target(server)
    return run(target, first_of(requests or payloads(), LIBRARY), asked, logs, timeout_s=30, max_in_flight=256)


@pytest.mark.parametrize("scenario", MlperfScenario)
def test_both_sides_count_and_time_the_same_requests(scenario: MlperfScenario, tmp_path: Path) -> None:
    runs: list[tuple[float, float]] = []
    alike = False
    while not alike and len(runs) < ATTEMPTS:
        ours_ms, official_ms = both_sides(scenario, tmp_path / str(len(runs)))
        runs.append((ours_ms, official_ms))
        alike = ours_ms == pytest.approx(official_ms, rel=0.02)
    assert alike, f"p50 in ms, ours and LoadGen's, in each run: {runs}"


def both_sides(scenario: MlperfScenario, logs: Path) -> tuple[float, float]:
    """A run's p50 in ms, ours and LoadGen's, after everything else about it was found equal."""
    logs.mkdir()
    with GoldenServer(delay_s=DELAY_MS / 1e3) as server:
        # Offline: all samples at once, which a server that answers each after its delay is through with in one delay
        asked = plan(scenario, expected_qps=40 if scenario is MlperfScenario.SERVER else 2_000)
        seen = drive(server, asked, logs)
        served = len(server.requests())
    log = read_log(logs)
    samples = {MlperfScenario.MULTI_STREAM: MULTI_STREAM_SAMPLES}.get(scenario, 1)
    issued = log["result_query_count"] * samples
    if scenario is MlperfScenario.OFFLINE:
        issued = log["generated_samples_per_query"]
    assert seen.latency.count == served == issued >= 20
    assert not seen.errors
    assert log["effective_scenario"] == scenario.value
    assert (logs / "mlperf_log_summary.txt").read_text().count("Result is") == 1
    ours_ms = seen.latency.percentile(50)
    assert ours_ms >= DELAY_MS
    if scenario is MlperfScenario.OFFLINE:  # there LoadGen counts from the one query, ours from each sample's turn
        return ours_ms, ours_ms
    return ours_ms, log["result_50.00_percentile_latency_ns"] / 1e6


def test_the_server_scenario_is_held_against_its_bound(tmp_path: Path) -> None:
    with GoldenServer(delay_s=DELAY_MS / 1e3) as server:
        drive(server, plan(MlperfScenario.SERVER, latency_ms=DELAY_MS / 2), tmp_path)
    log = read_log(tmp_path)
    assert log["result_validity"] == "INVALID"
    assert log["result_perf_constraints_met"] is False


def test_failed_requests_are_counted_and_do_not_hang_loadgen(tmp_path: Path) -> None:
    with GoldenServer(delay_s=0.01, error_every=4) as server:
        seen = drive(server, plan(MlperfScenario.SERVER), tmp_path)
        failed = sum(entry["kind"] == "error" for entry in server.requests())
        served = len(server.requests())
    assert seen.errors == {"http_500": failed}
    assert failed == served // 4
    assert seen.latency.count == served - failed
    assert seen.messages["http_500"]
    assert read_log(tmp_path)["result_query_count"] == served


def test_answers_to_golden_samples_are_kept(tmp_path: Path) -> None:
    stream = (Payload(payload.request, (number,)) for number, payload in enumerate(payloads()))
    with GoldenServer(delay_s=0.01) as server:
        seen = drive(
            server,
            plan(MlperfScenario.SINGLE_STREAM, min_duration_s=0.5, latency_ms=None, percentile=None),
            tmp_path,
            stream,
        )
    assert len(seen.sampled) == min(seen.latency.count, 200)
    rows = [row for (row,), _ in seen.sampled]
    assert len(set(rows)) > 10


def test_the_probe_finds_the_delay_and_the_rate() -> None:
    with GoldenServer(delay_s=0.05) as server:
        target: Any = Target(server)
        latency_ms, rate = probe(target, payloads(), 4, least_s=0.5, timeout_s=5)
    assert latency_ms >= 50
    assert 0 < rate <= 4 / 0.05


def test_a_server_that_only_fails_is_an_error_before_loadgen_starts() -> None:
    with GoldenServer(error_every=1) as server:
        target: Any = Target(server)
        with pytest.raises(ServerError, match=r"http_500 \S"):
            probe(target, payloads(), 1, least_s=0.1, timeout_s=5)


def test_an_invalid_run_is_told_in_loadgen_s_words() -> None:
    """As LoadGen 6.0 writes them of a run of too few queries."""
    early = " * Only processed 43 queries.\n * Need to process at least 64 queries for early stopping."
    few = "Only processed 43 queries. Need to process at least 64 queries for early stopping."
    assert why_invalid({"result_invalid_reason": "", "early_stopping_result": early}) == few
    assert why_invalid({"result_invalid_reason": "Min duration\n not met", "early_stopping_result": early}) == (
        "Min duration not met"
    )
    assert why_invalid({}) == ""


DETAILS = {
    "cut in a line": b':::MLLOG {"key": "result_validity", "val',
    "an empty line": b":::MLLOG",
    "no key": b':::MLLOG {"value": 1}',
    "no value": b':::MLLOG {"key": "result_validity"}',
    "no object": b":::MLLOG [1, 2]",
    "deep": b":::MLLOG " + b"[" * 100_000,
    "bytes that are no text": b':::MLLOG {"key": "\xff\xfe", "value": 1}',
    "endless digits": b':::MLLOG {"key": "k", "value": ' + b"9" * 5_000 + b"}",
}
ANSWERS = {
    "empty": b"",
    "cut": b'[{"qsl_idx": 1, "data": "00',
    "no list": b"5",
    "no entry": b"[5]",
    "no data": b'[{"qsl_idx": 1}]',
    "no hex": b'[{"qsl_idx": 1, "data": "xy"}]',
    "an index that is a list": b'[{"qsl_idx": [1], "data": "00"}]',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("content", DETAILS.values(), ids=DETAILS)
def test_a_damaged_log_is_an_error_with_words(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "mlperf_log_detail.txt").write_bytes(b"noise\n" + content)
    with pytest.raises(ResultError, match=r"mlperf_log_detail\.txt cannot be read"):
        read_log(tmp_path)


@pytest.mark.parametrize("content", ANSWERS.values(), ids=ANSWERS)
def test_a_damaged_accuracy_log_is_an_error_with_words(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "mlperf_log_accuracy.json").write_bytes(content)
    with pytest.raises(ResultError, match=r"mlperf_log_accuracy\.json cannot be read"):
        read_accuracy_log(tmp_path)
