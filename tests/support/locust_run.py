"""A locustfile in a process of its own, against a golden server that looks like its workload."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from servemark.figures.registry import count_of
from servemark.paths import CHECKOUT, LOCUSTFILES
from servemark.repository.entry import Entry, Golden
from servemark.workload import Workload, get, workloads
from tests.golden.server import GoldenServer
from tests.support.documents import validated

DEADLINE_S = 120.0
POLL_S = 0.05
"""Each look may cost a server, or a search through all processes, a millisecond of the CPU that the tests wait for."""
Result = Any


def locustfiles() -> list[str]:
    """Names of all locustfiles: every file of loadgen/ that defines an InferenceUser."""
    return sorted(path.stem for path in LOCUSTFILES.glob("*.py") if "(InferenceUser)" in path.read_text())


def smallest(locustfile: str) -> Workload:
    """The first workload of a locustfile, its tiny variant where there is one."""
    first = next(workload for workload in workloads().values() if workload.locustfile == locustfile)
    return first.tiny or first


def server_of(workload: Workload, engine: str = "onnxruntime", **behaviour: Any) -> GoldenServer:
    """A golden server with the workload's name and tensors."""

    def texts(tensors: Any) -> list[str]:
        return [f"{t.name}:{t.datatype}:{','.join(map(str, t.shape))}" for t in tensors]

    model = f"{workload.name}_{engine}"
    return GoldenServer(model=model, inputs=texts(workload.inputs), outputs=texts(workload.outputs), **behaviour)


def golden_entry(repository: Path, name: str = "ranking_tiny", rows: int = 4) -> Entry:
    """A repository entry with golden samples only: real inputs, and outputs drawn at random."""
    workload, rng = get(name), np.random.default_rng(5)
    samples = [sample for _, sample in zip(range(rows), workload.samples(rng), strict=False)]
    entry = Entry(repository, name, "onnxruntime")
    entry.folder.mkdir(parents=True)
    outputs = {t.name: rng.integers(1, 90, (rows, *t.shape)).astype(t.dtype) for t in workload.outputs}
    entry.write_golden(Golden({t.name: np.stack([s[t.name] for s in samples]) for t in workload.inputs}, outputs))
    return entry


def command(locustfile: str | Path, *flags: str, headless: bool = True, program: str = "loadgen") -> list[str]:
    """The command line of a load generator from the checkout: as servemark starts it, or as Locust's users do."""
    path = f"loadgen/{locustfile}.py" if isinstance(locustfile, str) else str(locustfile)
    return [sys.executable, "-m", program, "-f", path, *(["--headless", "--only-summary"] * headless), *flags]


def run(locustfile: str | Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run Locust to its end."""
    line = command(locustfile, *flags, program="locust")
    return subprocess.run(line, cwd=CHECKOUT, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


@contextlib.contextmanager
def started(arguments: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is gone at the end of the block; its output goes to a file."""
    with log.open("wb") as file:
        process = subprocess.Popen(arguments, cwd=CHECKOUT, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)


def until(condition: Callable[[], Any], what: str) -> Any:
    """Poll until the condition holds and return its value. Raises TimeoutError."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(POLL_S)
    raise TimeoutError(f"{what}: not within {DEADLINE_S:g} s")


def alive(process: psutil.Process) -> bool:
    """Return True if the process runs; a zombie does not."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def results_in(out: Path) -> list[Result]:
    """The results in an output directory, oldest first."""
    return [validated(json.loads(path.read_text())) for path in sorted(out.glob("*/result.json"))]


def the_result(out: Path) -> Result:
    """The only one."""
    [result] = results_in(out)
    return result


def accounted(result: Result) -> int:
    """Count the requests of a result: good, failed, and those outside its interval."""
    tags = ("requests.answered", "errors.count", "generator.requests_outside_interval")
    return sum(count_of(result, tag) for tag in tags)
