"""perf_analyzer, NVIDIA's C++ load generator, as a peer: where it is found and how it is run.

Taken from PATH, else from the PyPI wheels tritonclient==2.41.0 (the last that carries it) and nvidia-cuda-runtime-cu12,
kept in the user's cache folder; its libb64 comes from nvidia-pytriton's bundled libraries.
"""

import csv
import hashlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from benchmarks.rig import cpu_meter
from benchmarks.rig.load import Endpoints, Figures, Load

WHEELS = ("tritonclient==2.41.0", "nvidia-cuda-runtime-cu12==12.6.77")
SHA256 = {
    "perf_analyzer": "f1e1becf820f0b116d8d1745c50569e30d42ddace5a8bccf610914738bdacc8c",
    "libcudart.so.12": "095296727cfb5f51e5b3ae69a3cb88cbd7b6592f314ace0fdfc4e1d758c2aa85",
}
"""Of what the wheels carry, taken from them on 2026-11-22; it is compared each time before the program is run."""
HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "servemark" / "perf_analyzer"
RATE_THREADS = 32
OUTPUT_BYTES = 3 * 224 * 224 * 4
"""Shared memory for an output; what it reserves otherwise holds none of the image model's."""


def command() -> tuple[str, dict[str, str]]:
    """The program and the environment it needs; downloaded on first use. Raises SystemExit where it is another one."""
    found = shutil.which("perf_analyzer")
    if found:
        return found, dict(os.environ)
    program = HOME / "perf_analyzer"
    if not program.exists():
        _download()
    for name, digest in SHA256.items():
        if (found := hashlib.sha256((HOME / name).read_bytes()).hexdigest()) != digest:
            raise SystemExit(f"{HOME / name} has SHA-256 {found}, not {digest}; delete {HOME} to download it again")
    return str(program), {**os.environ, "LD_LIBRARY_PATH": str(HOME)}


def measure(server: Endpoints, load: Load, seconds: float) -> Figures:
    """One measurement of three windows, whatever their spread: pairs average the noise out, no run is thrown away."""
    program, environment = command()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.csv")
        arguments = [program, *flags(load, server.of(load))]
        arguments += ["-p", str(int(seconds * 1000 / 3)), "-s", "1000", "-f", str(report)]
        done = cpu_meter.run(arguments, server.counter(load.model), seconds, environment)
        if not report.exists():
            raise SystemExit(f"perf_analyzer failed ({done.code}):\n{done.output}")
        return read(report.read_text(), done)


def flags(load: Load, url: str) -> list[str]:
    """Return perf_analyzer's arguments for this load; everything else is its default, as its documentation shows it."""
    arguments = ["-m", load.model, "-u", url, "-i", load.protocol]
    if load.streaming:
        arguments.append("--streaming")
    if load.tensor_format != "binary":
        arguments += [f"--{each}-tensor-format={load.tensor_format}" for each in ("input", "output")]
    if load.rate is None:
        arguments += ["--concurrency-range", str(load.concurrency)]
    else:
        # Its default of 4 threads, each of which waits for its answer, would be late whatever the server does.
        arguments += ["--request-rate-range", f"{load.rate:g}", "--request-distribution", "poisson"]
        arguments += ["--max-threads", str(RATE_THREADS)]
    if load.shared_memory != "none":
        arguments += [f"--shared-memory={load.shared_memory}", f"--output-shared-memory-size={OUTPUT_BYTES}"]
    return arguments


def read(report: str, done: cpu_meter.Run) -> Figures:
    """Its CSV report, and the share of delayed requests, which only its standard output has, where there are any."""
    row = next(csv.DictReader(io.StringIO(report)))
    figures = Figures(float(row["Inferences/Second"]), float(row["p50 latency"]) / 1000, done.cpu_us)
    if "Request Rate" not in row:
        return figures
    delayed = re.search(r"([\d.]+)% of the requests were delayed", done.output)
    return figures._replace(late_share=float(delayed[1]) / 100 if delayed else 0.0)


def _download() -> None:
    HOME.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", folder, *WHEELS]
        subprocess.run(pip, check=True, timeout=600, capture_output=True)
        for wheel in Path(folder).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if Path(name).name in SHA256:
                        (HOME / Path(name).name).write_bytes(archive.read(name))
    spec = importlib.util.find_spec("pytriton")
    if spec is not None and spec.origin is not None:
        for library in Path(spec.origin).parent.parent.glob("nvidia_pytriton.libs/libb64-*.so.0d"):
            shutil.copy(library, HOME / "libb64.so.0d")
    (HOME / "perf_analyzer").chmod(0o755)
