"""Observers of outcomes: bounded failures, spans of traced requests, and a log whose figures are the result's."""

import csv
import itertools
import re
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from loadgen.driver.observers import (
    MAX_KINDS,
    MAX_MESSAGES,
    MAX_SPANS,
    MAX_WORDS,
    OTHER,
    Failures,
    RequestLog,
    TracedPayload,
    Tracing,
)
from loadgen.sut.channel import Outcome, Payload
from servemark.errors import ResultError
from servemark.figures.registry import value_of, why_unknown
from servemark.library.arrays import CSV_FILE
from servemark.telemetry.metrics.catalog import traceparent
from servemark.workload import get
from tests.golden.server import GoldenServer
from tests.support.largest_file import largest_file
from tests.support.load_config import config
from tests.support.locust_run import accounted, command, run, server_of, started, the_result, until

REQUEST = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\nbody\r\n\r\n"


def outcome(payload: Payload, sent: int = 2_000) -> Outcome:
    return Outcome(payload, 1_000, sent, 5_000, None, "", None)


def test_one_in_n_requests_has_a_header_of_its_own() -> None:
    plain = Payload(REQUEST, (3,))
    found = list(itertools.islice(Tracing(3).requests(itertools.repeat(plain)), 7))
    assert [isinstance(each, TracedPayload) for each in found] == [True, False, False] * 2 + [True]
    assert all(each is plain for each in found if not isinstance(each, TracedPayload))
    for traced in (each for each in found if isinstance(each, TracedPayload)):
        head, _, body = traced.request.partition(b"\r\n\r\n")
        assert body == b"body\r\n\r\n"
        [value] = re.findall(rb"\r\ntraceparent: (00-[0-9a-f]{32}-[0-9a-f]{16}-01)$", head)
        assert value.decode() == traceparent(traced.trace_id, traced.span_id)
        assert traced.golden_rows == (3,)


def test_the_spans_are_those_of_traced_requests_that_were_sent() -> None:
    tracing = Tracing(1)
    [traced] = itertools.islice(tracing.requests(iter([Payload(REQUEST)])), 1)
    for each in (outcome(traced), outcome(Payload(REQUEST)), outcome(traced, sent=0)):
        tracing.take(each)
    [span] = tracing.taken()
    assert (span.sent_ns - span.scheduled_ns, span.done_ns - span.sent_ns) == (1_000, 3_000)
    assert abs(span.done_ns - (time.time_ns() - time.monotonic_ns())) < 10**9
    assert tracing.taken() == []


def test_spans_that_nobody_takes_are_bounded() -> None:
    tracing = Tracing(1)
    [traced] = itertools.islice(tracing.requests(iter([Payload(REQUEST)])), 1)
    for _ in range(MAX_SPANS + 10):
        tracing.take(outcome(traced))
    assert len(tracing.taken()) == MAX_SPANS


NS = 1e9
PROBES = 1
"""Requests alone before the load, which the log does not hold."""


def rows_of(out: Path) -> list[dict[str, Any]]:
    """The only log in an output directory, times in ns; None where a request was never sent."""
    [path] = out.glob(f"*/{CSV_FILE}")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        {key: value if key == "error" else int(value) if value else None for key, value in row.items()} for row in rows
    ]


def check_against_log(result: Any, rows: list[dict[str, Any]]) -> None:
    """Compute the figures anew."""
    end = result["scenario"]["measured_s"] * NS
    inside = [row for row in rows if 0 <= row["scheduled_ns"] < end]
    good = [row for row in inside if not row["error"]]
    for name, first in (("latency", "scheduled_ns"), ("service_time", "sent_ns")):
        values = np.array([row["done_ns"] - row[first] for row in good]) / 1e6
        assert result["figures"][f"{name}.mean"]["n"] == len(values)
        for key, exact in (
            ("min", values.min()),
            ("max", values.max()),
            ("mean", values.mean()),
            ("stdev", values.std()),
        ):
            assert value_of(result, f"{name}.{key}") == pytest.approx(exact)
        everything = np.append(values, [np.inf] * (len(inside) - len(good)))
        for percentile in (50, 90):
            nearest = np.percentile(everything, percentile, method="inverted_cdf")
            found = value_of(result, f"{name}.p{percentile}")
            if found is None and "late sending" in why_unknown(result, f"{name}.p{percentile}"):
                continue
            assert (np.inf if found is None else found) == pytest.approx(nearest, rel=0.0005, abs=0.0005)
    came = sum(not row["error"] and 0 <= row["done_ns"] < end for row in rows)
    assert value_of(result, "throughput.requests") == pytest.approx(came / result["scenario"]["measured_s"])
    kinds = [row["error"] for row in inside if row["error"]]
    assert result["details"]["errors"]["by_kind"] == {kind: kinds.count(kind) for kind in set(kinds)}


def tiny(server: GoldenServer, out: Path, *flags: str) -> list[str]:
    """The flags of a run that logs its requests to such a server."""
    return ["--model", "ranking_tiny", "--url", server.url, "--out", str(out), "--request-log", *flags]


def cut_short(server: GoldenServer, out: Path, requests: int, *flags: str) -> tuple[Any, list[dict[str, Any]]]:
    """Interrupt a run once the server has had more requests; its result, and its log."""
    with started(command("ranking", *tiny(server, out, *flags)), out / "log") as process:
        until(lambda: len(server.requests()) > requests, "load")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 2
    result, rows = the_result(out), rows_of(out)
    assert len(rows) + PROBES == accounted(result)
    return result, rows


def test_the_figures_of_a_result_are_those_of_its_log(tmp_path: Path) -> None:
    with server_of(get("ranking_tiny"), delay_s=0.005, error_every=7, reset_every=11) as server:
        done = run("ranking", *tiny(server, tmp_path, "--request-rate", "200", "--warmup", "0.4", "--duration", "1.5"))
        received = len(server.requests())
    result, rows = the_result(tmp_path), rows_of(tmp_path)
    assert done.returncode == 2
    assert len(rows) + PROBES == accounted(result) == received
    assert min(row["scheduled_ns"] for row in rows) < 0
    check_against_log(result, rows)


def test_the_measured_schedule_is_that_of_the_seed_after_a_warm_up_that_ends_by_itself(tmp_path: Path) -> None:
    load = ["--request-rate", "200", "--duration", "1", "--warmup", "auto", "--seed", "3"]
    with server_of(get("ranking_tiny"), delay_s=0.002) as server:
        done = run("ranking", *tiny(server, tmp_path, *load), "--model-repository", str(tmp_path / "none"))
        received = len(server.requests())
    assert done.returncode in {0, 2}, done.stderr
    result, rows = the_result(tmp_path), rows_of(tmp_path)
    found = config("ranking_tiny", *load).scenario
    measured = found.measured_schedule(3)
    assert measured is not None
    due = np.sort([row["scheduled_ns"] for row in rows])
    np.testing.assert_array_equal(due[due >= 0], measured)
    check_against_log(result, rows)
    assert len(rows) + PROBES == received == accounted(result)
    warmed_s, scenario = result["scenario"]["warmup_s"], result["scenario"]
    assert 2.0 < warmed_s <= 3.0 == scenario["warmup"]["longest_s"]
    # the load went on until then, by its own schedule
    before = found.warmup_schedule(3) / NS - warmed_s
    np.testing.assert_allclose(due[due < 0] / NS, before[before < 0], atol=1e-6)


def test_the_log_of_a_run_that_is_cut_short_is_whole_too(tmp_path: Path) -> None:
    with server_of(get("ranking_tiny"), delay_s=0.05) as server:
        result, rows = cut_short(server, tmp_path, 150, "--users", "4", "--warmup", "0", "--duration", "60")
    assert {row["error"] for row in rows} <= {"", "interrupted"}
    check_against_log(result, rows)


def test_a_run_that_is_cut_short_in_a_warm_up_of_no_known_length_keeps_its_log(tmp_path: Path) -> None:
    # ten answers are needed to end it
    load = ["--request-rate", "1", "--request-distribution", "constant", "--duration", "30", "--warmup", "auto"]
    with server_of(get("ranking_tiny")) as server:
        result, rows = cut_short(server, tmp_path, 1 + PROBES, *load)
    scenario = result["scenario"]
    assert (result["partial"], scenario["warmup_s"], scenario["measured_s"]) == (True, None, 0)
    steady, reason = (scenario["warmup"][key] for key in ("steady", "reason"))
    assert (steady, reason) == (None, "the run was cut short in its warm-up")
    assert len(rows) > 1
    assert all(row["scheduled_ns"] < 0 for row in rows)
    # Nothing was measured, and nothing is 0: neither the rates nor the CPU, and the generator limited nothing.
    assert (result["windows"], value_of(result, "requests.answered")) == ([], 0)
    assert {value_of(result, tag) for tag in ("throughput.requests", "generator.cpu")} == {None}
    assert result["verdict"]["skipped"].keys() == {"client_cpu", "other_load", "steady_state"}
    assert result["bottleneck"]["by"] is None


def test_a_request_that_was_never_sent_has_no_such_time(tmp_path: Path) -> None:
    log = RequestLog(tmp_path, 1000)
    log.take(Outcome(Payload(b""), 400, 0, 1500, "connection_refused", "", None))
    log.take(Outcome(Payload(b""), 1000, 1001, 2000, None, "", None))
    assert list(tmp_path.glob(CSV_FILE)) == []
    log.close()
    log.close()
    text = (tmp_path / CSV_FILE).read_text()
    assert text == "scheduled_ns,sent_ns,done_ns,error\n-600,,500,connection_refused\n0,1,1000,\n"


def test_a_full_disk_costs_the_log_and_not_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with largest_file(1000):
        log = RequestLog(tmp_path, 0)
        for _ in range(3):
            for number in range(1000):
                log.take(Outcome(Payload(b""), number, number, number, None, "", None))
            log.flush()
        log.close()
    assert "File too large" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_cannot_be_written_is_told_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="No such file or directory"):
        RequestLog(tmp_path / "nowhere", 0)


def test_kinds_with_a_servers_number_are_few_and_others_keep_their_name() -> None:
    failures = Failures()
    kinds = [failures.kind(f"http_{number}") for number in range(100, 1000)]
    assert kinds[:MAX_KINDS] == [f"http_{number}" for number in range(100, 100 + MAX_KINDS)]
    assert set(kinds[MAX_KINDS:]) == {OTHER}
    assert failures.kind("http_100") == "http_100"
    # What the verdict looks for has its name however late it comes.
    assert [failures.kind(kind) for kind in ("timeout", "backend_died", "generator_error")] == [
        "timeout", "backend_died", "generator_error",
    ]  # fmt: skip


def test_only_the_first_messages_of_a_kind_are_told() -> None:
    failures = Failures()
    told = [failures.words("http_503", f"request {number}") for number in range(20)]
    assert told == [f"request {number}" for number in range(MAX_MESSAGES)] + [""] * (20 - MAX_MESSAGES)
    assert failures.words("http_503", "request 0") == "request 0"
    assert failures.words("http_500", "request 7") == "request 7"


@pytest.mark.parametrize("answered", [True, False], ids=["answer", "connection"])
@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("no \x1b[2J \ud800", r"no \u001b[2J \ud800"),
        ("no token-1234 here", "no <cookie> here"),
        ("x" * 20_000_000, "x" * MAX_WORDS),
        ("x" * (MAX_WORDS - 3) + "token-1234", "x" * (MAX_WORDS - 3) + "<co"),
    ],
    ids=["control characters", "secret", "length", "secret at the end"],
)
def test_words_of_a_failure(said: str, kept: str, answered: bool, tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("Cookie: a=token-1234; b=token-5678\n")
    access = config("ranking_tiny", "--headers", str(tmp_path / "headers")).access
    response = SimpleNamespace(message=lambda: said) if answered else None
    outcome = Outcome(cast(Any, None), 0, 0, 0, "closed", "" if answered else said, cast(Any, response))
    kept_outcome, words = Failures(access).named(outcome)
    assert (kept_outcome.message, words) == (kept, kept)


def test_a_backend_that_died_is_known_by_the_server_s_words() -> None:
    for words, kind in (("Stub process 'm_0' is not healthy.", "backend_died"), ("out of memory", "http_500")):
        failed, _ = Failures().named(Outcome(Payload(b""), 0, 0, 0, "http_500", words, None))
        assert failed.error == kind
