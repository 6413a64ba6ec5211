"""Engines on the first GPU: exported, loaded, held against golden samples, and served by Triton."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from servemark.figures.registry import count_of, value_of
from servemark.repository.entry import Entry
from servemark.workload import Engine, get
from servemark.workload.agreement import compare_outputs
from tests.support import exporting

SERVEMARK = (sys.executable, "-m", "servemark")
ONE_OF_EACH_KIND = ("resnet50_tiny", "ranking_tiny", "deepspeech2_tiny", "transformer_tiny", "ssd300_tiny")


def exported(repository: Path, name: str, engine: str, precision: str = "fp32") -> Entry:
    """Export in another process: here an exporter would keep TensorFlow off the GPU for good."""
    command = [*SERVEMARK, "export", name, "--engine", engine, "--precision", precision]
    subprocess.run([*command, "--model-repository", str(repository)], timeout=200, check=True)
    return Entry(repository, name, engine, precision)


def loaded(entry: Entry, **options: str) -> Any:
    return exporting.loaded(entry, "cuda:0", **options)


def check(engine: Engine, entry: Entry, sizes: tuple[int, ...]) -> None:
    """Hold the answers to the first golden samples against theirs."""
    workload, golden = get(entry.workload), entry.read_golden()
    assert golden is not None
    for size in sizes:
        answer = engine.run({name: array[:size] for name, array in golden.inputs.items()})
        for tensor in workload.outputs:
            found = compare_outputs(
                answer[tensor.name], golden.outputs[tensor.name][:size], workload.agreement.at(entry.precision)
            )
            assert found.agrees, f"{tensor.name} at batch {size}: {found}"


def served(name: str, engine: str, repository: Path, out: Path, *flags: str) -> Any:
    """Return the result of a load on Triton, which says where it ran: none of its answers failed, some were checked."""
    command = [*SERVEMARK, "run", name, "--engine", engine, "--model-repository", str(repository), "--out", str(out)]
    command += ["--json", "--duration", "5", "--concurrency", "4", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    result = json.loads(done.stdout)
    assert (result["engine"], result["device"]) == (engine, "cuda:0"), done.stderr
    assert value_of(result, "errors.count") == 0
    assert count_of(result, "outputs.checked") > 0
    return result
