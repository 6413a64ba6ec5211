"""perf_analyzer, NVIDIA's C++ load generator, as a peer: where it is found and how it is run.

Taken from PATH, else from the PyPI wheels tritonclient==2.41.0 (the last that carries it) and nvidia-cuda-runtime-cu12,
kept in the user's cache folder; its libb64 comes from nvidia-pytriton's bundled libraries.
"""

import csv
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEELS = ("tritonclient==2.41.0", "nvidia-cuda-runtime-cu12==12.6.77")
HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "servemark" / "perf_analyzer"
TIMEOUT_S = 180


def command() -> tuple[str, dict[str, str]]:
    """The program and the environment it needs; downloaded on first use."""
    found = shutil.which("perf_analyzer")
    if found:
        return found, dict(os.environ)
    program = HOME / "perf_analyzer"
    if not program.exists():
        _download()
    return str(program), {**os.environ, "LD_LIBRARY_PATH": str(HOME)}


def measure(
    model: str, url: str, concurrency: int, seconds: float, protocol: str = "http", *, streaming: bool = False
) -> dict[str, float]:
    """One stable measurement at "host:port": requests/s and p50 in ms."""
    program, environment = command()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.csv")
        arguments = [program, "-m", model, "-u", url, "-i", protocol, "--concurrency-range", str(concurrency)]
        arguments += ["--streaming"] * streaming
        # Three windows, whatever their spread: pairs average the noise out, an unstable measurement would be none.
        arguments += ["-p", str(int(seconds * 1000 / 3)), "-s", "1000", "-f", str(report)]
        done = subprocess.run(
            arguments, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if not report.exists():
            raise SystemExit(f"perf_analyzer failed ({done.returncode}):\n{done.stdout}{done.stderr}")
        row = next(csv.DictReader(report.open()))
    return {"requests_per_s": float(row["Inferences/Second"]), "p50_ms": float(row["p50 latency"]) / 1000}


def _download() -> None:
    HOME.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", folder, *WHEELS]
        subprocess.run(pip, check=True, timeout=600, capture_output=True)
        for wheel in Path(folder).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if Path(name).name in {"perf_analyzer", "libcudart.so.12"}:
                        (HOME / Path(name).name).write_bytes(archive.read(name))
    spec = importlib.util.find_spec("pytriton")
    if spec is not None and spec.origin is not None:
        for library in Path(spec.origin).parent.parent.glob("nvidia_pytriton.libs/libb64-*.so.0d"):
            shutil.copy(library, HOME / "libb64.so.0d")
    (HOME / "perf_analyzer").chmod(0o755)
