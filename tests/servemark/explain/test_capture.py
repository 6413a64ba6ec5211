"""Both sides' stamps of the same requests: joined by their numbers, and not guessed from where most are missing."""

import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loadgen.driver.observers import FILE as STAMPS
from loadgen.kserve.control import Control
from loadgen.sut.channel import PLACE_OF_NUMBER, Payload, numbered
from servemark.errors import ServerError
from servemark.explain import capture
from servemark.explain.timeline import Sent

COUNT = 1000
NUMBERS = np.arange(COUNT)
SENT = Sent(NUMBERS, NUMBERS + 100, NUMBERS + 100, NUMBERS + 100, NUMBERS + 900, np.ones(COUNT, bool))


@pytest.mark.parametrize(("lost", "told"), [(0, True), (10, True), (11, False), (COUNT, False)])
def test_less_than_99_of_100_traces_name_no_cause(monkeypatch: pytest.MonkeyPatch, lost: int, told: bool) -> None:
    known = NUMBERS[lost:]
    traced = SimpleNamespace(numbers=known, stamps=np.stack([known + 200 + step for step in range(5)], axis=1))
    monkeypatch.setattr(capture, "read_trace", lambda _: traced)
    run: Any = SimpleNamespace(trace="trace.json", note="")
    served, words = capture._joined(SENT, run)
    assert (served is not None) is told
    assert bool(words) == bool(lost)
    if served is not None:
        assert int((served.queued == 0).sum()) == lost
    elif lost < COUNT:
        assert words == "11 of 1,000 answered requests have no trace of the server's, so that a cause would be a guess"


def test_traces_of_other_runs_are_left_out_beside_a_request_that_was_never_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = replace(SENT, sent=np.where(NUMBERS == 5, 0, SENT.sent), good=NUMBERS != 5)
    # Before this run, while another of its requests was in flight, and its own.
    first = np.concatenate([NUMBERS, NUMBERS + 90, NUMBERS + 200])
    traced = SimpleNamespace(numbers=np.tile(NUMBERS, 3), stamps=np.stack([first + step for step in range(5)], axis=1))
    monkeypatch.setattr(capture, "read_trace", lambda _: traced)
    run: Any = SimpleNamespace(trace="trace.json", note="")
    served, _ = capture._joined(sent, run)
    assert served is not None
    assert served.queued.tolist() == np.where(NUMBERS == 5, 0, NUMBERS + 200).tolist()


@pytest.mark.parametrize("content", [None, b"", b"\x93NUMPY"])
def test_a_run_that_kept_no_stamps_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / STAMPS).write_bytes(content)
    run: Any = SimpleNamespace(folder=tmp_path)
    capture._explain(run)
    assert capture.NO_STAMPS in capsys.readouterr().err


NUMBER = 7
ID = f"servemark{NUMBER:012d}"


def _stamps(key: int, first: int) -> list[dict[str, Any]]:
    """A request's entries, in the order in which the embedded Triton wrote them: one for each stamp."""
    names = ["HTTP_RECV_START", "QUEUE_START", "INFER_RESPONSE_COMPLETE", "COMPUTE_START", "COMPUTE_INPUT_END"]
    names += ["COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END"]
    return [{"id": key, "timestamps": [{"name": name, "ns": first + n}]} for n, name in enumerate(names)]


def test_requests_are_joined_over_entries_and_files(tmp_path: Path) -> None:
    (tmp_path / "trace.json.0").write_text(json.dumps([*_stamps(1, 100), {"id": 1, "request_id": ID}]))
    others = [{"id": 2, "request_id": "somebody's"}, {"id": 3, "request_id": "servemark000000000003", "parent_id": 1}]
    (tmp_path / "trace.json.1").write_text(json.dumps([*_stamps(2, 200), *_stamps(3, 300), *others]))
    found = capture.read_trace(tmp_path / "trace.json")
    assert found.numbers.tolist() == [NUMBER]
    assert found.stamps.tolist() == [[101, 103, 104, 105, 106]]


@pytest.mark.parametrize(
    "content",
    [
        '[{"id": 1',
        '[{"id": 1, "timestamps": 5}]',
        '[{"id": 1, "timestamps": [{"name": "QUEUE_START"}]}]',
        json.dumps([{"id": 1, "request_id": ID, "timestamps": [{"name": "QUEUE_START", "ns": 10**30}]}]),
        json.dumps([{"id": [1], "request_id": ID}]),
    ],
)
def test_what_is_not_a_trace_is_an_error_of_the_server_that_names_the_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "trace.json").write_text(content)
    with pytest.raises(ServerError, match=r"trace\.json cannot be read"):
        capture.read_trace(tmp_path / "trace.json")


def test_a_server_s_word_for_its_file_is_a_name_and_no_pattern_and_leads_to_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "a[1].json").write_text(json.dumps([*_stamps(1, 100), {"id": 1, "request_id": ID}]))
    assert capture.read_trace(tmp_path / "a[1].json").numbers.tolist() == [NUMBER]
    assert not len(capture.read_trace(tmp_path / "a**").numbers)
    with pytest.raises(ServerError, match="device"):
        capture.read_trace(Path("/dev/zero"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ServerError, match="pipe"):
        capture.read_trace(tmp_path / "pipe")


def test_numbers_stand_in_the_place_of_the_id_and_change_no_length() -> None:
    made = f'{{"id":"{PLACE_OF_NUMBER}"}}'.encode()
    found = [*numbered(iter([Payload(made), Payload(made)]))]
    assert [each.request for each in found] == [b'{"id":"servemark%012d"}' % number for number in (0, 1)]
    assert len(found[1].request) == len(made)
    assert not found[0].plain


@pytest.mark.parametrize("file", ["", "/tmp/t.json"])
def test_settings_of_before_come_back_and_a_server_without_a_trace_file_is_refused(file: str) -> None:
    said: list[Any] = []

    class Remembering(Control):
        def trace_settings(self, model: str, changed: Any = None) -> dict[str, Any]:  # noqa: ARG002
            said.append(changed)
            return {"trace_level": ["OFF"], "trace_rate": "1000", "trace_file": file}

    refused = contextlib.nullcontext() if file else pytest.raises(ServerError, match="no file for its trace")
    with refused, capture.tracing(Remembering("http://a:1"), "m") as found:
        assert found == Path(file)
    changes = [capture.TRACE_ON, {"trace_level": ["OFF"], "trace_rate": "1000"}]
    assert said == [None, *(changes if file else [])]
