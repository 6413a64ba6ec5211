"""Pushing to a collector, and what it costs where nobody takes the metrics."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from servemark.documents.live import Live
from servemark.errors import OptionError
from servemark.figures.latency import LATENCY
from servemark.figures.registry import value_of
from servemark.telemetry.metrics import catalog
from servemark.telemetry.metrics.catalog import Sample, Snapshot
from servemark.telemetry.metrics.process import Pusher
from servemark.telemetry.metrics.publisher import Publisher
from tests.servemark.telemetry.metrics.test_exposition import histogram
from tests.support.load_config import config
from tests.support.locust_run import golden_entry, run, server_of, smallest, the_result, until
from tests.support.receiver import receiver
from tests.support.web import free_port

TRACED = ("--otlp-sample", "10", "--otlp", "http://h:4318")
SNAPSHOT = Snapshot(
    {"run": "mix/a", "workload": "ranking"},
    [Sample.of(catalog.REQUESTS, 3, "ok", "")],
    {LATENCY.metric: histogram(0.001, 0.002, 0.1)},
)


@pytest.mark.parametrize("how", ["refused", "400", "silent"])
def test_what_nobody_takes_is_counted_told_once_and_waited_for_briefly(
    how: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with receiver(status=400, silent=how == "silent") as found:
        url = f"http://127.0.0.1:{free_port()}" if how == "refused" else found.url
        with Publisher(Live(otlp=url)) as publisher:
            begun = time.monotonic()
            [sent] = publisher.finish(SNAPSHOT, 0.5 if how == "silent" else 30)
            waited_s = time.monotonic() - begun
    assert waited_s < 20
    assert (sent["to"], sent["url"]) == ("otlp", url)
    words = {"refused": "Connection refused", "400": "400", "silent": "not taken in time"}[how]
    assert (sent["sent"], sent["failed"] >= 1) == (0, True)
    assert words in str(sent["error"])
    if how != "silent":
        assert capfd.readouterr().err.count("the run goes on") == 1


def test_snapshots_are_sent_while_the_run_goes_on() -> None:
    taken: list[Snapshot] = []
    pusher = Pusher("u", taken.append, every_s=0.01)
    pusher.take(SNAPSHOT)
    until(lambda: len(taken) > 2, "several")
    sent = pusher.finish(30)
    assert (sent["sent"], sent["failed"]) == (len(taken), 0)


def test_the_last_snapshot_is_sent_also_where_another_is_on_its_way() -> None:
    taken: list[Snapshot] = []
    sending, may_end = Event(), Event()

    def send(snapshot: Snapshot) -> None:
        taken.append(snapshot)
        sending.set()
        may_end.wait(30)

    pusher, last = Pusher("u", send, every_s=0.01), Snapshot({"run": "mix/a"})
    pusher.take(SNAPSHOT)
    assert sending.wait(30)
    pusher.take(last)
    with ThreadPoolExecutor(1) as pool:
        finished = pool.submit(pusher.finish, 30)
        assert pusher._final.wait(30)
        may_end.set()
        assert (finished.result()["sent"], taken) == (2, [SNAPSHOT, last])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--otlp", "localhost:4318"], "not an HTTP URL"),
        (["--otlp", "http://h:x"], "not an HTTP URL"),
        (["--otlp", "http://me:secret@h:4318"], "netrc"),
        ([*TRACED, "--protocol", "grpc"], "HTTP"),
        ([*TRACED, "--shared-memory", "system"], "HTTP"),
    ],
)
def test_flags_that_cannot_be_are_refused(flags: list[str], words: str) -> None:
    with pytest.raises(OptionError, match=words) as error:
        config("ranking_tiny", *flags)
    assert "secret" not in str(error.value)


def test_a_run_whose_collector_is_dead_has_its_result_and_says_so(tmp_path: Path) -> None:
    workload = smallest("ranking")
    golden_entry(tmp_path, workload.name)
    url = f"http://127.0.0.1:{free_port()}"
    load = ["--request-rate", "50", "--duration", "1", "--warmup", "0.2", "--metrics-port", "0", "--otlp", url]
    with server_of(workload) as server:
        flags = ["--model", workload.name, "--url", server.url, "--out", str(tmp_path), *load]
        done = run("ranking", *flags, "--model-repository", str(tmp_path), "--metrics-grace", "0.1")
    result = the_result(tmp_path)
    assert done.returncode == result["verdict"]["exit_code"]
    assert value_of(result, "errors.count") == 0
    [sent] = result["telemetry"]  # on busy cores a second export may be due meanwhile
    assert sent.pop("failed") >= 1
    assert sent == {"to": "otlp", "url": url, "sent": 0, "error": "Connection refused"}
    assert json.loads((next(tmp_path.glob("*/histograms.json"))).read_text())
    assert done.stderr.count("the run goes on") == 1
    assert "stays for 0.1 s" in done.stderr
