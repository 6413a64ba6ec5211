"""The main job on real input: two models behind one Triton, closed loop first, then a Poisson rate with an objective.

`make demo` runs it. MovieLens-100K drives `ranking` (a user and the last five films they rated), the photographs that
scikit-learn ships drive `resnet50`.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import servers
from servemark.errors import ExitCode, ServemarkError
from servemark.paths import MODEL_REPOSITORY
from servemark.results.directory import RESULT_FILE

ENGINE = "onnxruntime"
OPEN_SHARE = 0.4
"""The Poisson rate as a share of the throughput that the closed loop reached on this machine."""
TIMEOUT_S = 300


@dataclass(frozen=True)
class Job:
    """One model of the demo, with seconds for the closed and the open loop."""

    workload: str
    input_data: str
    concurrency: int
    slo: str
    closed_s: float
    open_s: float


def jobs() -> list[Job]:
    """The two models and their real input."""
    sklearn = importlib.util.find_spec("sklearn")
    assert sklearn is not None
    assert sklearn.origin is not None
    photographs = Path(sklearn.origin).parent / "datasets" / "images"
    return [
        Job("ranking", "dataset", concurrency=8, slo="p99:20", closed_s=5, open_s=8),
        Job("resnet50", str(photographs), concurrency=2, slo="p90:250", closed_s=5, open_s=14),
    ]


def servemark(*arguments: str) -> int:
    """Run the command line as a user would, showing the command."""
    print(f"\n$ servemark {' '.join(arguments)}", flush=True)
    return subprocess.run([sys.executable, "-m", "servemark", *arguments], check=False, timeout=TIMEOUT_S).returncode


def require(code: int) -> None:
    """End the demo where a step could not be done; a verdict other than VALID is a result, no failure."""
    if code not in (ExitCode.VALID, ExitCode.INVALID, ExitCode.SLO_MISSED):
        sys.exit(code)


def throughput(folder: Path) -> float:
    """Requests/s of the only result in a folder."""
    result = json.loads(next(folder.glob(f"*/{RESULT_FILE}")).read_text())
    return float(result["metrics"]["throughput"]["requests_per_s"])


def load(job: Job, url: str) -> None:
    """Both loops against one model."""
    common = ["run", job.workload, "--engine", ENGINE, "--url", url, "--input-data", job.input_data, "--warmup", "1.5"]
    with tempfile.TemporaryDirectory() as folder:
        closed = ["--concurrency", str(job.concurrency), "--duration", f"{job.closed_s:g}", "--out", folder]
        require(servemark(*common, *closed))
        rate = OPEN_SHARE * throughput(Path(folder))
    shown = f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"
    require(servemark(*common, "--request-rate", shown, "--slo", job.slo, "--duration", f"{job.open_s:g}"))


def main() -> None:
    """Fetch, export, serve, load, stop."""
    require(servemark("data", "ml-100k"))
    require(servemark("export", *(job.workload for job in jobs()), "--engine", ENGINE))
    models = [f"{job.workload}_{ENGINE}" for job in jobs()]
    try:
        with servers.open_server("auto", MODEL_REPOSITORY, models) as server:
            print(f"\nTriton ({server.mode}) serves {', '.join(models)} at http://{server.http}", flush=True)
            for job in jobs():
                load(job, f"http://{server.http}")
    except ServemarkError as error:
        sys.exit(f"demo: {error}")
    print("\nTriton is stopped. Next: servemark list, servemark run --help, locust -f loadgen/ranking.py --serve")


if __name__ == "__main__":
    main()
