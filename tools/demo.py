"""The main job on real input: two models behind one Triton, closed loop first, then a Poisson rate with an objective.

`make demo` runs it. MovieLens-100K drives `ranking` (a user and the last five films they rated), in the place of
Gowalla, which cannot be fetched. The photographs that scikit-learn ships drive `resnet50`.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import servers
from servemark.documents.request import DEFAULT_ENGINE
from servemark.documents.saved_load import described
from servemark.errors import ExitCode, ServemarkError
from servemark.figures.registry import value_of
from servemark.paths import MODEL_REPOSITORY, RESULTS, shown
from servemark.results.directory import RESULT_FILE, new_directory, read_run
from servemark.results.verdict import failed_constraints
from servemark.views.verdict import answer

ENGINE = DEFAULT_ENGINE
TIMEOUT_S = 300
REQUESTS = 130
"""An objective for p90 needs 100 answers. A Poisson schedule may have a fifth fewer than asked for."""


@dataclass(frozen=True)
class Job:
    """One model of the demo, with seconds for the closed and the open loop.

    The Poisson rate is a share of the throughput that the closed loop reached on this machine. The open loop is longer
    where that rate gives fewer than REQUESTS.
    """

    workload: str
    input_data: str
    concurrency: int
    slo: str
    closed_s: float
    open_s: float
    open_share: float


def jobs() -> list[Job]:
    """The two models and their real input."""
    sklearn = importlib.util.find_spec("sklearn")
    assert sklearn is not None
    assert sklearn.origin is not None
    photographs = Path(sklearn.origin).parent / "datasets" / "images"
    return [
        Job("ranking", "dataset", concurrency=8, slo="p99:20", closed_s=5, open_s=8, open_share=0.3),
        Job("resnet50", shown(photographs), concurrency=2, slo="p90:250", closed_s=5, open_s=14, open_share=0.4),
    ]


def servemark(*arguments: str, here: Sequence[str] = ()) -> int:
    """Run the command line as a user would, and show it so that it can be typed again: without what is for `here`."""
    print(f"\n$ servemark {' '.join(arguments)}", flush=True)
    command = [sys.executable, "-m", "servemark", *arguments, *here]
    return subprocess.run(command, check=False, timeout=TIMEOUT_S).returncode


def require(code: int) -> None:
    """End the demo where a step could not be done; a verdict other than VALID is a result, no failure."""
    if code not in (ExitCode.VALID, ExitCode.INVALID, ExitCode.SLO_MISSED):
        sys.exit(code)


def load(job: Job, url: str, folder: Path) -> list[Path]:
    """Both loops against one model; where their results are."""
    here = ["--url", url, "--out", str(folder), "--warmup", "1.5"]
    common = ["run", job.workload, "--input-data", job.input_data]
    closed = ["--concurrency", str(job.concurrency), "--duration", f"{job.closed_s:g}"]
    require(servemark(*common, *closed, here=here))
    first = newest(folder)
    rate = job.open_share * float(value_of(read_run(first), "throughput.requests") or 0.0)
    shown = f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"
    seconds = max(job.open_s, REQUESTS / max(float(shown), 1.0))
    open_loop = ["--request-rate", shown, "--slo", job.slo, "--duration", f"{seconds:.0f}"]
    require(servemark(*common, *open_loop, here=here))
    return [first, newest(folder)]


def newest(folder: Path) -> Path:
    """The result that was made last."""
    return max((file.parent for file in folder.glob(f"*/{RESULT_FILE}")), key=lambda found: found.stat().st_mtime_ns)


def closing(found: Sequence[Path]) -> str:
    """Summarise the demo: the runs, the number of VALID verdicts, and the next step."""
    results = [read_run(folder) for folder in found]
    valid = sum(result["verdict"]["valid"] for result in results)
    lines = ["What you have seen:"]
    lines += [f"  {result['workload']}, {described(result)}: {answer(result)}" for result in results]
    lines.append(f"{valid} of {len(results)} verdicts are VALID. Only figures of VALID runs may be quoted.")
    if valid < len(results):
        names = sorted({name for result in results for name in failed_constraints(result["verdict"])})
        lines.append(
            f"INVALID ({', '.join(names)}): a measurement was disturbed or too short, which other work on this machine "
            "may cause. Nothing is broken, and each remedy stands above."
        )
    lines += [
        "Next:",
        "  . .venv/bin/activate",
        f"  servemark show {shown(found[-1])} -v   # the last run again, every constraint",
        "  servemark list                                    # the models",
        "  servemark run ranking --max-rate --slo p99:20     # the highest rate within an objective",
        "  locust -f loadgen/ranking.py --serve              # the web UI",
    ]
    return "\n".join(lines)


def main() -> None:
    """Fetch, export, serve, load, stop, say what was seen."""
    require(servemark("data", "ml-100k"))
    require(servemark("export", *(job.workload for job in jobs())))
    models = [f"{job.workload}_{ENGINE}" for job in jobs()]
    folder = new_directory(RESULTS, "demo")
    found: list[Path] = []
    try:
        with servers.open_server("auto", MODEL_REPOSITORY, models) as server:
            print(f"\nTriton ({server.mode}) serves {', '.join(models)} at http://{server.http} for the runs below.")
            print("Typed again, each of them starts a Triton of its own.", flush=True)
            for job in jobs():
                found += load(job, f"http://{server.http}", folder)
    except ServemarkError as error:
        sys.exit(f"demo: {error}")
    print(f"\nTriton is stopped. {closing(found)}")


if __name__ == "__main__":
    main()
