"""The server of a run: one that runs already is taken, but never for a cold start; entries are made where needed."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

import servers
from exporters.pipeline.provenance import source_digest
from loadgen.load.load_config import LoadConfig
from servemark.errors import OptionError
from servemark.figures.registry import value_of
from servemark.repository.entry import Entry
from servemark.runs import server
from servemark.runs.server import server_for
from servemark.workload import get
from tests.golden.server import GoldenServer
from tests.support.load_config import config
from tests.support.locust_run import accounted, results_in, server_of

TINY = "ranking_tiny"


class Started:
    """A server of our own that is ready at once, in the place of a Triton."""

    startup_s = 1.25
    metrics = ""

    def __init__(self, golden: GoldenServer, begun: list[Self]) -> None:
        self.http, self._begun = golden.url.removeprefix("http://"), begun

    def __enter__(self) -> Self:
        self._begun.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def check(self) -> None:
        """It lives."""


@pytest.fixture(scope="module")
def golden() -> Iterator[GoldenServer]:
    with server_of(get(TINY)) as running:
        yield running


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch, golden: GoldenServer) -> list[Any]:
    """The servers that were started, while another one serves the model at the default port."""
    found: list[Any] = []
    monkeypatch.setattr(servers, "open_server", lambda *_, **__: Started(golden, found))
    monkeypatch.setattr(server, "export_where_needed", lambda *_: None)
    monkeypatch.setattr(server, "entries", lambda *_: [SimpleNamespace(model=f"{TINY}_onnxruntime")])
    monkeypatch.setattr(server, "_serves", lambda _: True)
    return found


def served(*flags: str) -> LoadConfig:
    with server_for([config(TINY, *flags)]) as [found]:
        return found


def test_a_server_that_runs_already_is_taken(begun: list[Any]) -> None:
    assert served().startup is None
    assert begun == []


def test_a_cold_start_has_a_server_of_its_own_each_time(begun: list[Any], golden: GoldenServer) -> None:
    before = time.monotonic_ns()
    for number in (1, 2):
        found = served("--cold-start")
        assert (found.url, len(begun)) == (golden.url, number)
        assert found.startup is not None
        assert found.startup.load_s == 1.25
        assert before < found.startup.ready_ns <= time.monotonic_ns()


def test_a_cold_start_takes_no_url(begun: list[Any]) -> None:
    with pytest.raises(OptionError, match="--url names http://h:8000") as error:
        served("--cold-start", "--url", "http://h:8000")
    assert (error.value.fix, begun) == ("leave out --url", [])


def test_each_repeat_is_a_cold_start_measured_from_its_first_request_on(
    begun: list[Any], golden: GoldenServer, servemark: Any, tmp_path: Path
) -> None:
    golden.reset()
    flags = ["--cold-start", "--repeat", "2", "--request-rate", "40", "--duration", "1", "--seed", "3"]
    flags += ["--out", str(tmp_path / "out"), "--model-repository", str(tmp_path)]
    _, out, _ = servemark("run", TINY, *flags)
    assert len(begun) == 2
    assert re.search(r"^ *run +load s +first answer ms +steady after s +cold start s\n +1 +1.25 ", out, re.MULTILINE)
    [first, second] = results_in(tmp_path / "out")
    sent = 0
    for result in (first, second):
        assert value_of(result, "generator.requests_outside_interval") == 0
        assert result["cold_start"]["load_s"] == 1.25
        assert result["cold_start"]["waited_s"] > 0
        assert result["cold_start"]["first_answer_ms"] > 0
        assert "fewer than 12 whole seconds" in result["cold_start"]["steady_after_s_reason"]
        sent += accounted(result)
    assert len(golden.requests()) == sent


@pytest.mark.parametrize(
    ("source", "made"),
    [(source_digest(get(TINY)), False), ("of a network of yesterday", True), (None, False), ("nothing is there", True)],
    ids=["current", "changed", "by hand", "missing"],
)
def test_an_entry_of_another_source_is_made_anew(
    source: str | None, made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, labels = Entry(tmp_path, TINY, "onnxruntime"), list[str]()
    if source != "nothing is there":
        entry.folder.mkdir()
        entry.manifest.write_text(json.dumps({"source_sha256": source} if source else {}))
    monkeypatch.setattr(server, "export_first", lambda *arguments: labels.append(arguments[-1]))
    server.export_where_needed([TINY], entry.engine, tmp_path, entry.precision)
    assert labels == [entry.model] * made
