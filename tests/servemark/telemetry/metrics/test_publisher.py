"""The metrics' process: it serves what it was handed last, and whatever becomes of it the run goes on."""

import os
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from servemark.documents.live import Live
from servemark.errors import OptionError
from servemark.runs.mix import with_own_port
from servemark.telemetry.metrics import catalog
from servemark.telemetry.metrics.catalog import Sample, Snapshot
from servemark.telemetry.metrics.publisher import Publisher
from tests.support.load_config import config
from tests.support.locust_run import until


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with Publisher(Live(metrics_port=0)) as found:
        yield found


def in_flight(count: int) -> Snapshot:
    return Snapshot({"run": "r"}, [Sample.of(catalog.IN_FLIGHT, count)])


def scrape(url: str | None) -> str:
    assert url is not None
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - ours
        return str(answer.read().decode())


def test_the_endpoint_serves_the_last_snapshot_until_the_end() -> None:
    with Publisher(Live(metrics_port=0)) as publisher:
        assert "servemark" not in scrape(publisher.url)
        for count in (1, 2, 3):
            publisher.publish(in_flight(count))
        until(lambda: scrape(publisher.url).rstrip().endswith(" 3.0"), "the last snapshot")
        with pytest.raises(urllib.error.HTTPError):
            scrape(str(publisher.url).replace("/metrics", "/"))
        os.kill(publisher._process.pid, signal.SIGINT)  # as a Ctrl-C does, which goes to both
        publisher.finish(in_flight(4), 30)
        until(lambda: scrape(publisher.url).rstrip().endswith(" 4.0"), "the final snapshot")
    with pytest.raises(urllib.error.URLError):
        scrape(publisher.url)


def test_a_killed_process_is_one_note_and_no_error(publisher: Publisher, capfd: pytest.CaptureFixture[str]) -> None:
    os.kill(publisher._process.pid, signal.SIGKILL)
    publisher._process.wait()
    for _ in range(3):
        publisher.publish(in_flight(1))
    publisher.finish(in_flight(1), 30)
    assert capfd.readouterr().err.count("the run goes on") == 1


def test_a_stopped_process_costs_the_run_nothing(publisher: Publisher) -> None:
    os.kill(publisher._process.pid, signal.SIGSTOP)
    many = Snapshot({"run": "r" * 100_000}, [])
    for _ in range(100):  # more than a pipe holds
        publisher.publish(many)
    os.kill(publisher._process.pid, signal.SIGCONT)
    publisher.finish(in_flight(7), 30)
    assert until(lambda: scrape(publisher.url).rstrip().endswith(" 7.0"), "the final snapshot")


def test_a_port_that_is_taken_is_an_error_with_a_fix() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=f"{port}.*in use") as error, Publisher(Live(metrics_port=port)):
            pass
    assert "--metrics-port 0" in str(error.value)


def test_nothing_listens_unless_asked_and_the_parts_of_a_mix_have_ports_of_their_own() -> None:
    assert not config().live.publishes
    asked = config("ranking_tiny", "--metrics-port", "9100").live
    assert asked.metrics_host == "127.0.0.1"
    parts = [with_own_port(config("ranking_tiny", "--metrics-port", "9100"), number) for number in range(3)]
    assert [part.live.metrics_port for part in parts] == [9100, 9101, 9102]
    assert with_own_port(config("ranking_tiny", "--metrics-port", "0"), 1).live.metrics_port == 0
    with pytest.raises(OptionError, match="above 65535"):
        config("ranking_tiny", "--metrics-port", "70000")
