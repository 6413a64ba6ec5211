"""All that waits for an NVIDIA GPU, in one go: what is there, the GPU tests, comparisons of engines on it.

    python -m tools.gpu_session [STAGE ...] [--minutes 45] [--out docs/results/h100]

`make test-gpu` runs it. A stage that fails or takes too long ends alone; what it has written by then stays, and
summary.md says what ran and how it ended. An engine that cannot use the GPU is left out, with the reason.
Exit code: 0 all stages were done, 1 one was not, 3 there is no GPU.
"""

import argparse
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from servemark.errors import ExitCode, ServerError
from servemark.frameworks import distribution_of
from servemark.frameworks.tensorrt_rtx import require_capable
from servemark.machine.environment import boards
from servemark.paths import CHECKOUT

MINUTES = 45.0
MIN_S = 45.0
"""A stage is not begun with less."""
GRACE_S = 30.0
"""From an interruption, at which pytest and servemark write what they have, to the end."""
DEVICE = "cuda:0"
ENGINES = ("pytorch", "onnxruntime", "tensorrt", "tensorrt_rtx", "tensorflow")
MEASURED = (ExitCode.VALID, ExitCode.INVALID, ExitCode.SLO_MISSED)
"""Any verdict is a result."""
GRAPHS = (
    "pytorch,onnxruntime:cuda_graph=false,onnxruntime:cuda_graph=true,"
    "tensorrt,tensorrt:cuda_graph=true,tensorrt_rtx,tensorrt_rtx:cuda_graph=true"
)
COMPARISONS = {
    "engines": [
        "resnet50",
        "pytorch,pytorch@fp16,onnxruntime:cuda_graph=true,onnxruntime@fp16:cuda_graph=true,"
        "tensorrt,tensorrt@fp16,tensorrt_rtx,tensorrt_rtx@fp16,tensorflow",
    ],
    "graphs_ranking": ["ranking", f"{GRAPHS},pytorch:compile=true:cuda_graph=true"],
    "graphs_transformer": ["transformer", GRAPHS],
    "precisions": [
        "resnet50",
        "pytorch,pytorch@bf16,onnxruntime,onnxruntime@fp16,tensorrt,tensorrt@fp16,tensorrt@int8,tensorrt@fp8",
    ],
}
"""Stage -> a workload and its contenders."""


@dataclass(frozen=True)
class Stage:
    """One command and the exit codes that mean it was done; `{out}` in it is a scratch folder."""

    name: str
    command: Sequence[str]
    limit_s: float
    done: Sequence[int] = (0,)
    keeps: Sequence[str] = ()
    """Files of the scratch folder that are results; they get the stage's name before theirs."""


def unusable(engine: str) -> str | None:
    """Say why an engine cannot use a GPU here; None where nothing speaks against it."""
    if engine == "tensorrt" and importlib.util.find_spec("tensorrt") is None:
        return "tensorrt is not installed: make setup GPU=1"
    if engine == "tensorrt_rtx":
        try:
            require_capable(DEVICE)
        except ServerError as error:
            return error.what
    if engine == "tensorflow":
        if distribution_of("tensorflow-cpu"):
            return "tensorflow-cpu is installed: make setup GPU=tensorflow makes an environment for it"
        return None if distribution_of("tensorflow") else "tensorflow is not installed: make setup"
    if engine == "onnxruntime":
        import onnxruntime

        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            return "onnxruntime is the CPU's: make setup GPU=1"
    return None


def stages() -> list[Stage]:
    """The work, what tells most first; an engine that cannot be used is in no comparison."""
    python = (sys.executable, "-m")
    tests = (*python, "pytest", "-m", "gpu", "-v", "--no-header", "--durations=20", "-p", "no:cacheprovider")
    meters = "tests/gpu/test_meters.py"  # which an idle board must be idle for
    servemark = (*python, "servemark")
    out = ("--out", "{out}")
    found = [
        Stage("doctor", (*servemark, "doctor"), 60),
        Stage("meters", (*tests, "-n", "0", meters), 60),
        Stage("tests", (*tests, "-n", "8", "tests/gpu", f"--ignore={meters}"), 400),
    ]
    load = ("--device", DEVICE, "--skip-unavailable", "--rounds", "5", "--duration", "4", "--concurrency", "8")
    for name, (workload, contenders) in COMPARISONS.items():
        usable = [each for each in contenders.split(",") if unusable(re.split("[@:]", each)[0]) is None]
        if len(usable) > 1:
            command = (*servemark, "compare", workload, "--engines", ",".join(usable), *load, *out)
            found.append(Stage(name, command, 600, MEASURED, ("comparison.md", "comparison.json")))
    engines = [
        part for engine in ("pytorch", "onnxruntime") if unusable(engine) is None for part in ("--engine", engine)
    ]
    profile = (*servemark, "profile", "resnet50", "--device", DEVICE, *engines, "-b", "8", "--batches", "1,8,32", *out)
    found.append(Stage("profile", profile, 240, (0, ExitCode.INVALID), ("result.json",)))
    explain = (*servemark, "explain", "resnet50", "--device", DEVICE, "--engine", "pytorch", "--verbose", *out)
    found.append(Stage("explain", (*explain, "--concurrency", "8"), 120, MEASURED))
    run = (*servemark, "run", "resnet50", "--engine", "pytorch", "--device", DEVICE, "--batch-size", "8", "--json")
    for kind in ("none", "system", "cuda"):
        target = ("--concurrency", "4", "--duration", "5", "--shared-memory", kind)
        found.append(Stage(f"shared_memory_{kind}", (*run, *target, *out), 120, MEASURED))
    kernels = (*servemark, "kernels", "--device", DEVICE, "--case-limit", "20", *out)
    types = ("--precision", "fp32", "--precision", "bf16", "--precision", "fp16")
    found.append(Stage("kernels_quick", (*kernels, *types), 560, (0, ExitCode.INVALID), ("result.json",)))
    direct = ("kernels.tools.direct_timer", "--device", DEVICE, "--rounds", "3")
    found.append(Stage("kernels_direct", (*python, *direct), 120))
    suite = ("--suite", "deepbench-device")
    found.append(Stage("kernels_deepbench", (*kernels, *suite), 240, (0, ExitCode.INVALID), ("result.json",)))
    return found


def carry_out(stage: Stage, folder: Path, left_s: float) -> str:
    """Run a stage into <folder>/<stage>.txt; returns `done`, or how it ended."""
    if left_s < MIN_S:
        return "not begun: no time left"
    scratch = folder / f".{stage.name}"
    scratch.mkdir(parents=True)
    limit_s = min(stage.limit_s, left_s)
    try:
        with (folder / f"{stage.name}.txt").open("w") as log:
            command = [part.replace("{out}", str(scratch)) for part in stage.command]
            code = _run(command, log.fileno(), limit_s)
        for name in stage.keeps:
            for file in sorted(scratch.rglob(name))[:1]:
                shutil.copy2(file, folder / f"{stage.name}-{name}")
    finally:
        shutil.rmtree(scratch)
    if code is None:
        return f"interrupted after {limit_s:.0f} s"
    return "done" if code in stage.done else f"failed with exit code {code}"


def _run(command: Sequence[str], log: int, limit_s: float) -> int | None:
    """Run a command in a session of its own; its exit code, None where it had to be interrupted."""
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):  # where nothing that it started is left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def report(folder: Path, head: str, endings: Sequence[tuple[str, str, float]]) -> None:
    """Write summary.md anew, after each stage: a run that is cut short leaves it too."""
    left_out = [f"- {engine}: {reason}" for engine in ENGINES if (reason := unusable(engine))]
    rows = [f"| {name} | {ending} | {seconds:.0f} |" for name, ending, seconds in endings]
    lines = [f"# {head}", "", "| stage | ended | s |", "|---|---|---|", *rows]
    lines += ["", "Engines left out:", "", *left_out] if left_out else []
    (folder / "summary.md").write_text("\n".join(lines) + "\n")


def main() -> int:
    """Run the stages that are asked for in their order, all of them by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    import torch

    _, reason, driver, cuda = boards()
    if not torch.cuda.is_available():
        print(f"torch {torch.__version__} sees no NVIDIA GPU; {reason or 'NVML sees one'}", file=sys.stderr)
        return int(ExitCode.BAD_INPUT)
    gpu = torch.cuda.get_device_name(0)
    known = {stage.name: stage for stage in stages()}
    unknown = sorted({*options.stages} - {*known})
    if unknown:
        parser.error(f"no stage here is called {', '.join(unknown)}: {', '.join(known)}")
    todo = [known[name] for name in options.stages or known]
    slug = re.sub(r"\W+", "_", gpu.lower().removeprefix("nvidia").strip())
    folder = options.out or CHECKOUT / "docs" / "results" / slug
    folder.mkdir(parents=True, exist_ok=True)
    head = f"{time.strftime('%Y-%m-%d')}, {gpu}, driver {driver}, CUDA {cuda}"
    deadline = time.monotonic() + options.minutes * 60
    endings: list[tuple[str, str, float]] = []
    for stage in todo:
        began = time.monotonic()
        ending = carry_out(stage, folder, deadline - began)
        endings.append((stage.name, ending, time.monotonic() - began))
        print(f"{stage.name}: {ending}, {endings[-1][2]:.0f} s", flush=True)
        report(folder, head, endings)
    return int(any(ending != "done" for _, ending, _ in endings))


if __name__ == "__main__":
    sys.exit(main())
