"""Requests ahead of a run: from the generator, a data set, JSON or .npz files; and golden samples among them."""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loadgen.sut.channel import Payload
from loadgen.targets.http import HttpTarget
from loadgen.targets.payloads import GOLDEN_EVERY, POOL_BYTES, POOL_REQUESTS
from loadgen.transport.http1_head import HEAD_END
from servemark.errors import InputDataError
from servemark.repository.entry import Golden
from servemark.workload import get
from tests.golden import tensors as golden_tensors
from tests.support.load_config import config
from tests.support.locust_run import golden_entry

STEP = {"user": [3], "seq": [1, 2, 3, 4, 5]}


def decode(payload: Payload) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a request, by the golden server's parser."""
    head, _, body = payload.request.partition(HEAD_END)
    length = int(head.split(b"Inference-Header-Content-Length: ")[1].split(b"\r\n")[0])
    tensors = tuple(golden_tensors.Tensor(t.name, t.datatype, t.shape) for t in get("ranking_tiny").inputs)
    request = golden_tensors.decode(body, length, tensors, 1024)
    return {v.name: np.frombuffer(v.raw, golden_tensors.NUMPY[v.datatype]).reshape(v.shape) for v in request.values}


def take(count: int, workload: str, *flags: str, golden: Golden | None = None) -> list[Payload]:
    return list(itertools.islice(HttpTarget(config(workload, *flags)).payloads(golden), count))


def test_synthetic_requests_are_the_workloads_and_equal_for_equal_seeds() -> None:
    first, again, other = (take(2 * POOL_REQUESTS, "ranking_tiny", "--seed", seed) for seed in ("1", "1", "2"))
    assert [p.request for p in first] == [p.request for p in again]
    assert [p.request for p in first[:5]] != [p.request for p in other[:5]]
    # the pool goes round
    assert first[0].request == first[POOL_REQUESTS].request
    samples = get("ranking_tiny").samples(np.random.default_rng(1))
    for payload, sample in zip(first[:20], samples, strict=False):
        for name, array in decode(payload).items():
            np.testing.assert_array_equal(array[0], sample[name])


def test_a_batch_is_made_of_consecutive_samples() -> None:
    single = [decode(p) for p in take(12, "ranking_tiny")]
    batched = [decode(p) for p in take(3, "ranking_tiny", "--batch-size", "4")]
    for index, row in itertools.product(range(3), range(4)):
        np.testing.assert_array_equal(batched[index]["seq"][row], single[4 * index + row]["seq"][0])


def test_each_row_of_a_batch_that_is_scored_is_the_example_of_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    seq = np.arange(5, dtype="i4")
    data = SimpleNamespace(
        example=lambda number: SimpleNamespace(requests=[{"user": np.array([number], "i4"), "seq": seq}])
    )
    monkeypatch.setattr("loadgen.targets.payloads.scorable", lambda *_: (data, [7, 8, 9, 6]))
    found = take(2, "ranking_tiny", "--batch-size", "2", "--quality")
    assert [payload.examples for payload in found] == [(7, 8), (9, 6)]
    assert [decode(payload)["user"][:, 0].tolist() for payload in found] == [[7, 8], [9, 6]]


def test_large_inputs_bound_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    room = 8 << 20  # a hundred pictures take a second
    assert room < POOL_BYTES
    monkeypatch.setattr("loadgen.targets.payloads.POOL_BYTES", room)
    requests = take(40, "resnet50", "--batch-size", "4")
    distinct = {id(payload) for payload in requests}
    size = len(requests[0].request)
    assert 1 < len(distinct) <= room // size + 1


def test_golden_requests_come_first_each_once_and_then_one_in_fifty_is_golden(tmp_path: Path) -> None:
    golden = golden_entry(tmp_path, rows=5).read_golden()
    assert golden is not None
    requests = take(3 + 20 * GOLDEN_EVERY, "ranking_tiny", "--batch-size", "2", golden=golden)
    assert [payload.golden_rows for payload in requests[:3]] == [(0, 1), (2, 3), (4, 0)]
    known = [payload for payload in requests[3:] if payload.golden_rows]
    assert len(known) == 20
    assert {row for payload in known for row in payload.golden_rows} == set(range(5))
    for payload in known:
        for name, array in decode(payload).items():
            np.testing.assert_array_equal(array, golden.inputs[name][list(payload.golden_rows)])


def test_golden_requests_are_among_those_of_a_trace(tmp_path: Path) -> None:
    golden, trace = golden_entry(tmp_path).read_golden(), tmp_path / "trace.jsonl"
    trace.write_text("".join(f'{{"time_s": {n / 200}, "sample": {n % 7}}}\n' for n in range(120)))
    requests = take(120, "ranking_tiny", "--arrival-trace", str(trace), "--warmup", "0", golden=golden)
    assert [number for number, payload in enumerate(requests) if payload.golden_rows] == [0, 50, 100]
    assert requests[1].request == requests[8].request != requests[2].request


def test_fewer_samples_than_a_batch_go_round(tmp_path: Path) -> None:
    file = tmp_path / "in.json"
    file.write_text(json.dumps({"data": [STEP]}))
    [payload] = take(1, "ranking_tiny", "--input-data", str(file), "--batch-size", "3")
    assert decode(payload)["user"].tolist() == [[3]] * 3


def test_a_trace_that_names_too_many_samples_is_refused(tmp_path: Path) -> None:
    data, trace = tmp_path / "in.json", tmp_path / "trace.csv"
    data.write_text(json.dumps({"data": [STEP]}))
    trace.write_text("0,0\n0.1,1\n")
    with pytest.raises(InputDataError, match="--arrival-trace names sample 1"):
        take(1, "ranking_tiny", "--arrival-trace", str(trace), "--input-data", str(data))
    with pytest.raises(InputDataError, match="--batch-size 1"):
        take(1, "ranking_tiny", "--arrival-trace", str(trace), "--batch-size", "2")


@pytest.mark.parametrize(
    ("workload", "fix"),
    [("ranking", "servemark data ml-100k --data-root"), ("minigo", "it cannot be fetched: lay it out in")],
)
def test_missing_data_are_fetched_or_laid_out(workload: str, fix: str, tmp_path: Path) -> None:
    with pytest.raises(InputDataError) as caught:
        take(1, workload, "--input-data", "dataset", "--data-root", str(tmp_path))
    assert str(caught.value.fix).startswith(fix)


@pytest.mark.parametrize(
    ("workload", "source", "words"),
    [
        ("ranking", "dataset", "the data set 'ml-100k' is not in"),
        ("ranking_tiny", "dataset", "has no data set of its own"),
        ("ranking", "no/such/path", "no/such/path: no such file or folder"),
        ("ranking_tiny", ".", "cannot read"),
        (
            "ranking",
            ".",
            "(?s)u.data is not there.*fix: servemark data ml-100k; or perf_analyzer's JSON .* a .npz file",
        ),
        ("ranking", "a.csv", r"(?s)a.csv/u.data cannot be read: Not a directory\n.*; or perf_analyzer's JSON"),
    ],
)
def test_missing_data_is_never_replaced(
    workload: str, source: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").touch()
    with pytest.raises(InputDataError, match=words):
        take(1, workload, "--input-data", source, "--data-root", str(tmp_path))
