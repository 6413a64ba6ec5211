"""Files that others wrote: traces, tensors, saved results, model configurations."""

import csv
import io
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from google.protobuf import text_format
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from rich.console import Console

from loadgen.inputs.files import from_npz_folder, read_steps
from loadgen.load.trace import TIMES as TIME_NAMES
from loadgen.load.trace import read_trace
from loadgen.measurement.output_agreement import require_fit
from servemark.compare.saved.compare import compare_saved
from servemark.compare.saved.figures import Gate
from servemark.errors import ArtifactError, InputDataError, ResultError
from servemark.figures.latency import LATENCY
from servemark.repository.entry import Entry
from servemark.repository.model_config import Settings, named, parse
from servemark.results import directory as results
from servemark.views.render.terminal import show
from servemark.workload import get
from tests.fuzz.damage import damaged, hostile_json
from tests.fuzz.target import Target
from tests.support.results import histogram_of, latencies, result_of
from tests.support.small_models import CONFIG

WORKLOAD = get("ranking_tiny")
SETTINGS = Settings(device="cuda:0", max_batch=4, queue_delay_us=7, instances=2, threads=1, options={"a": "b"})
_FOLDER = tempfile.TemporaryDirectory(prefix="servemark-fuzz-")


def _file(name: str, data: bytes) -> Path:
    """A file with this content; the name is that of the previous input's."""
    path = Path(_FOLDER.name, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# Traces


def read_csv(data: bytes) -> None:
    """Arrival times as CSV: plain ones as the csv module reads them."""
    trace = read_trace(_file("t.csv", data))
    _ascending(trace)
    rows = [row for row in csv.reader(io.StringIO(data.decode(), newline="")) if row]
    if trace.first is None and all(len(row) == 1 for row in rows) and _is_float(rows[0][0]):
        assert trace.times_s.tolist() == [float(row[0]) for row in rows]


def read_jsonl(data: bytes) -> None:
    """Arrival times as JSON lines: each line as the json module reads it."""
    trace = read_trace(_file("t.jsonl", data))
    _ascending(trace)
    values = [json.loads(line) for line in map(str.strip, data.decode().split("\n")) if line]
    times = [next(v[key] for key in TIME_NAMES if key in v) if isinstance(v, dict) else v for v in values]
    assert trace.first is not None or trace.times_s.tolist() == [float(time) for time in times]


def _ascending(trace: Any) -> None:
    assert len(trace.times_s) > 0
    assert np.isfinite(trace.times_s).all()
    assert (np.diff(trace.times_s, prepend=0.0) >= 0).all()
    assert trace.samples is None or (len(trace.samples) == len(trace.times_s) and (trace.samples >= 0).all())
    results.to_json(trace.to_dict())


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


TIMES = st.lists(st.floats(0, 1e5, allow_nan=False), min_size=1, max_size=8).map(sorted)


@st.composite
def csv_traces(draw: DrawFn) -> bytes:
    """Times alone, with samples, or with a header."""
    times, kind = draw(TIMES), draw(st.integers(0, 2))
    file = io.StringIO()
    writer = csv.writer(file, quoting=draw(st.sampled_from((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))))
    if kind == 2:
        writer.writerow(["user", "time_s", "sample"])
    for number, time in enumerate(times):
        user = draw(st.sampled_from(("x", "a,b", 'say "x"', "two\nlines", "\u2028", "é")))
        row: list[object] = [user, time, number]
        writer.writerow([row[1:2], row[1:], row][kind])
    return file.getvalue().encode()


@st.composite
def json_traces(draw: DrawFn) -> bytes:
    """Numbers, or objects with samples and more."""
    times, named_samples = draw(TIMES), draw(st.booleans())
    users = st.sampled_from(("x", "\u2028", "\x85", "é"))
    rows: list[Any] = [
        {"time_s": time, "sample": number, "user": draw(users)} if named_samples else time
        for number, time in enumerate(times)
    ]
    return "".join(json.dumps(row, ensure_ascii=draw(st.booleans())) + "\n" for row in rows).encode()


# Tensors

PERF_TENSORS = WORKLOAD.inputs


def _right_arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return dict(next(iter(WORKLOAD.samples(rng))))


ARRAYS = _right_arrays()


def read_input_npz(data: bytes) -> None:
    """--input-data with a folder of .npz files: samples of the workload's shapes and datatypes."""
    folder = _file("npz/a.npz", data).parent
    _samples(from_npz_folder(folder, WORKLOAD))


def read_perf_json(data: bytes) -> None:
    """--input-data with a file as perf_analyzer takes it."""
    _samples(step.inputs for step in read_steps(_file("perf.json", data), WORKLOAD))


def _samples(samples: Any) -> None:
    for sample in samples:
        for tensor in WORKLOAD.inputs:
            assert sample[tensor.name].dtype == tensor.dtype
            assert tensor.fits(sample[tensor.name].shape)


def read_golden(data: bytes) -> None:
    """golden.npz of an entry: rows for each sample, of the workload's shapes."""
    entry = Entry(Path(_FOLDER.name), WORKLOAD.name, "onnxruntime")
    _file(f"{entry.model}/golden.npz", data)
    golden = entry.read_golden()
    assert golden is not None
    require_fit(golden, entry, WORKLOAD.inputs, WORKLOAD.outputs)
    for tensors, arrays in ((WORKLOAD.inputs, golden.inputs), (WORKLOAD.outputs, golden.outputs)):
        for tensor in tensors:
            assert arrays[tensor.name].dtype == tensor.dtype
            assert len(arrays[tensor.name]) == golden.rows > 0
            assert tensor.fits(arrays[tensor.name].shape[1:])


@st.composite
def archives(draw: DrawFn, prefixed: bool) -> bytes:
    """.npz files, whose arrays may be others, and whose members may say more than they hold."""
    arrays = {("input:" if prefixed else "") + name: np.stack([a] * 2) if prefixed else a for name, a in ARRAYS.items()}
    if prefixed:
        arrays |= {f"output:{t.name}": np.zeros((2, *map(abs, t.shape)), t.dtype) for t in WORKLOAD.outputs}
    for name in list(arrays):
        change = draw(st.integers(0, 15))
        if change == 0:
            arrays[name] = arrays[name].astype(
                draw(st.sampled_from(("f2", "i1", "U3", "O", "c8", ">f4", "V3", "M8[s]")))
            )
        elif change == 1:
            arrays[name] = np.zeros(
                draw(st.sampled_from(((), (0,), (2,), (2, 1), (2, 0, 3), (1,) * 20))), arrays[name].dtype
            )
        elif change == 2:
            del arrays[name]
    file = io.BytesIO()
    if draw(st.integers(0, 19)) == 0:
        np.save(file, np.zeros(3, "f4"))  # one array, and no archive
        return file.getvalue()
    kind = zipfile.ZIP_DEFLATED if draw(st.booleans()) else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=True)  # type: ignore[no-untyped-call]
            content = member.getvalue()
            if draw(st.integers(0, 5)) == 0:
                content = draw(damaged(st.just(content), NPY_WORDS))
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


NPY_WORDS = (b"(1000000000000,)", b"(-1,)", b"'descr': '|O'", b"'shape': (1,", b"[" * 500, b"'<U1000000000'", b"b'")

# Results


def read_result(data: bytes) -> None:
    """result.json of one run, compared with itself and with a right one."""
    _file("runs/a/result.json", data)
    _file("runs/b/result.json", json.dumps(RESULT).encode())
    # Its library goes through all buckets of the histograms, which are right.
    with mock.patch.object(results, "read_latency", return_value=HISTOGRAM):
        _compare()


def read_histograms(data: bytes) -> None:
    """histograms.json of one run."""
    histogram = results.read_latency(_file("histograms/histograms.json", data).parent, RESULT)
    results.to_json(LATENCY.values(histogram))
    assert histogram.count == histogram.counts.sum()
    if data == HISTOGRAMS:
        assert histogram.count == HISTOGRAM.count


def _compare() -> None:
    sides = [str(Path(_FOLDER.name, "runs", name)) for name in "ab"]
    show(compare_saved(sides, Gate()), Console(file=io.StringIO()))


HISTOGRAM = histogram_of(latencies(10, 2000))
RESULT = json.loads(json.dumps(result_of(HISTOGRAM)))
HISTOGRAMS = json.dumps({"latency_us": HISTOGRAM.encode()}).encode()

# Model configurations


def read_config(data: bytes) -> None:
    """config.pbtxt, as it is and with settings."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    right = parse(text)
    for changed in (named(text, "other"), SETTINGS.apply(text)):
        again = parse(changed)
        assert again.backend == right.backend
    assert parse(text_format.MessageToString(right)) == right


def configs() -> st.SearchStrategy[bytes]:
    """Configurations as servemark writes them."""
    values = {
        "model": "m",
        "backend": "onnxruntime",
        "inputs": "",
        "outputs": "",
        "instances": "1",
        "queue_delay_us": "5",
    }
    return st.sampled_from((CONFIG.format(**values).encode(), b"", b'name: "m"\nmax_batch_size: 8\n'))


CONFIG_WORDS = (
    b'"\\777"', b"'\\x'", b"[a.b/c] {", b"max_batch_size: 99999999999", b"name: 'a' 'b'", b"instance_group {",
    b"# \xff", b"parameters { key: 'k' }", b"kind: KIND_X", b"kind: 77", b'"\\ud800"', b"max_batch_size: -1",
)  # fmt: skip

TARGETS = (
    Target("trace_csv", damaged(csv_traces()), read_csv, (InputDataError,), examples=150),
    Target("trace_json", damaged(json_traces()), read_jsonl, (InputDataError,), examples=150),
    Target("input_npz", damaged(archives(prefixed=False)), read_input_npz, (InputDataError,), examples=100),
    Target("golden_npz", damaged(archives(prefixed=True)), read_golden, (ArtifactError,), examples=100),
    Target(
        "perf_analyzer_json",
        hostile_json(st.just({"data": [{name: a.ravel().tolist() for name, a in ARRAYS.items()}]})),
        read_perf_json,
        (InputDataError,),
        examples=150,
    ),
    Target("result_json", hostile_json(st.just(RESULT)), read_result, (ResultError,), examples=20),
    Target("histograms_json", damaged(st.just(HISTOGRAMS)), read_histograms, (ResultError,), examples=25),
    Target("config_pbtxt", damaged(configs(), CONFIG_WORDS), read_config, (ArtifactError,), examples=40),
)
