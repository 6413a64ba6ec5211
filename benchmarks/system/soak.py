"""An hour of load: whether memory stays flat and the schedule holds while some requests fail.

    python -m benchmarks.system.soak [--rate 2000] [--minutes 60] [--out docs/results/soak.txt]

`servemark run ranking` sends an open loop to the embedded Triton. One sample in a hundred names an item that the model
does not have, so the engine refuses that request. Resident memory is read every ten seconds; latency and schedule
delay are computed from the request log.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

import servers
from benchmarks.rig.aims import Aim
from exporters import export
from servemark.library import Requests, read_requests
from servemark.paths import MODEL_REPOSITORY
from servemark.repository.entry import Entry
from servemark.results.schema.run import Result
from servemark.workload import get

WORKLOAD, ENGINE = "ranking", "onnxruntime"
SAMPLES, WRONG_EVERY = 1_000, 100
ITEM_BEYOND_THE_MODEL = 2**30
READ_EVERY_S = 10.0
WARMUP_S = 5.0
SLICES = 12
MIB = 1 << 20
FLAT = Aim(most=8.0)
"""MiB that a process may add from a sixth of the time on. A kilobyte kept of each failure would add 60 in an hour."""
STEADY = Aim(least=0.5, most=2.0)
"""The median schedule delay of the last slice over that of the first after a sixth of the time."""


@dataclass
class Memory:
    """Resident MiB of one part of the system over the time of the soak."""

    seconds: list[float] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)

    def add(self, seconds: float, processes: Iterable[psutil.Process]) -> None:
        """Note the sum of what the processes hold now; one that has ended holds nothing."""
        total = 0
        for process in processes:
            try:
                total += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        if total:
            self.seconds.append(seconds)
            self.mib.append(total / MIB)

    def growth(self, start_s: float) -> float:
        """MiB gained between `start_s` and the end: the slope of a line fitted to the readings, times their span."""
        seconds, mib = np.array(self.seconds), np.array(self.mib)
        late = seconds >= start_s
        if late.sum() < 2:
            return float("nan")
        slope = np.polyfit(seconds[late], mib[late], 1)[0]
        return float(slope * np.ptp(seconds[late]))


@dataclass(frozen=True)
class Slice:
    """Figures of a part of the interval, from the request log; times in ms, percentiles as numpy interpolates them."""

    requests: int
    errors: int
    latency_p50: float
    latency_p99: float
    delay_p50: float
    delay_p99: float


def slices(requests: Requests, count: int, seconds: float) -> list[Slice]:
    """Cut the measured interval into equal slices by schedule time; requests of the warm-up are left out."""
    requests = requests[requests.measured]
    index = np.minimum((requests.scheduled_ns * count / (seconds * 1e9)).astype(int), count - 1)
    latencies, failures = requests.latency_ms, requests.error != ""
    delays = np.where(np.isnan(requests.sent_ns), latencies, requests.schedule_delay_ms)
    found = []
    for number in range(count):
        here = index == number
        answered = latencies[here & ~failures]
        found.append(
            Slice(
                int(here.sum()),
                int((here & failures).sum()),
                *(float(each) for each in np.percentile(answered, (50, 99))),
                *(float(each) for each in np.percentile(delays[here], (50, 99))),
            )
        )
    return found


def write_samples(folder: Path) -> None:
    """Requests as the workload draws them; one in WRONG_EVERY asks for an item beyond the model's table."""
    drawn = get(WORKLOAD).samples(np.random.default_rng(0))
    for number in range(SAMPLES):
        sample = dict(next(drawn))
        if number % WRONG_EVERY == WRONG_EVERY // 2:
            sample["seq"] = np.full_like(sample["seq"], ITEM_BEYOND_THE_MODEL)
        np.savez(folder / f"{number:04}.npz", **sample)


def parts(run: psutil.Process) -> dict[str, list[psutil.Process]]:
    """The processes of the soak by what they do: `run` and its children send, the rest of ours serve."""
    generator = [run, *run.children(recursive=True)]
    others = [each for each in psutil.Process().children(recursive=True) if each not in generator]
    guard = [each for each in others if "guard" in " ".join(each.cmdline())]
    return {"generator": generator, "guard": guard, "Triton": [each for each in others if each not in guard]}


def soak(url: str, rate: float, seconds: float, folder: Path) -> tuple[dict[str, Memory], Path]:
    """One run, its memory by part, and the directory of its result."""
    samples = folder / "samples"
    samples.mkdir()
    write_samples(samples)
    command = [sys.executable, "-m", "servemark", "run", WORKLOAD, "--engine", ENGINE, "--url", url]
    command += ["--request-rate", f"{rate:g}", "--duration", f"{seconds:g}", "--warmup", f"{WARMUP_S:g}"]
    command += ["--input-data", str(samples), "--request-log", "--out", str(folder / "result")]
    memory: dict[str, Memory] = {}
    start = time.monotonic()
    with (folder / "output.txt").open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as run:
        try:
            while run.poll() is None:
                now = time.monotonic() - start
                try:
                    for name, processes in parts(psutil.Process(run.pid)).items():
                        memory.setdefault(name, Memory()).add(now, processes)
                except psutil.NoSuchProcess:
                    break
                time.sleep(READ_EVERY_S)
        finally:
            run.terminate()
    print((folder / "output.txt").read_text(), flush=True)
    [log] = (folder / "result").rglob("requests.csv")
    return memory, log.parent


def page(rate: float, minutes: float, memory: dict[str, Memory], found: list[Slice], run: Result) -> str:
    """The figures as a Markdown page."""
    machine = run["environment"]
    load = ", ".join(map(str, machine["load_average"] or [])) or "not known"
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in run["details"]["errors"]["by_kind"].items())
    broken = [each["name"] for each in run["verdict"]["constraints"] if not each["ok"]]
    settled_s = WARMUP_S + minutes * 60 / 6
    errors = sum(each.errors for each in found)
    requests = sum(each.requests for each in found)
    lines = [
        "# Soak",
        "",
        f"`python -m benchmarks.system.soak --rate {rate:g} --minutes {minutes:g}`: an open loop of `{WORKLOAD}` on "
        f"{ENGINE} and the embedded Triton.",
        f"One sample in {WRONG_EVERY} is refused by the engine, on purpose.",
        "",
        f"Machine: {machine['cpu']}, {machine['cores']} cores. Load average at the start: {load}.",
        f"{requests:,} requests, {errors:,} of them failed ({kinds}).",
        f"Constraints of the verdict that did not hold: {', '.join(broken) or 'none'}.",
        "",
        f"| resident memory | after {settled_s / 60:.0f} min | at the end | highest | growth | |",
        "|---|---|---|---|---|---|",
    ]
    for name, each in memory.items():
        settled = each.mib[min(int(np.searchsorted(each.seconds, settled_s)), len(each.mib) - 1)]
        growth = each.growth(settled_s)
        lines.append(
            f"| {name} | {settled:.1f} MiB | {each.mib[-1]:.1f} MiB | {max(each.mib):.1f} MiB | {growth:+.1f} MiB "
            f"| {FLAT.verdict(growth)} |"
        )
    first, last = found[len(found) // 6], found[-1]
    drift = last.delay_p50 / first.delay_p50
    lines += [
        "",
        f"Median schedule delay of the last slice over that of slice {len(found) // 6 + 1}: {drift:.2f} "
        f"({STEADY.verdict(drift)}).",
        "",
        "| from minute | requests | failed | latency p50 ms | p99 ms | schedule delay p50 ms | p99 ms |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {number * minutes / len(found):.4g} | {each.requests:,} | {each.errors:,} | {each.latency_p50:.3f} "
        f"| {each.latency_p99:.2f} | {each.delay_p50:.3f} | {each.delay_p99:.2f} |"
        for number, each in enumerate(found)
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Make the run and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=2000.0)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=None, help="also write the page to this file")
    options = parser.parse_args()
    export(get(WORKLOAD), ENGINE, MODEL_REPOSITORY)
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.open_server("embedded", MODEL_REPOSITORY, [Entry(MODEL_REPOSITORY, WORKLOAD, ENGINE).model]) as server,
    ):
        memory, directory = soak(server.http, options.rate, options.minutes * 60, Path(folder))
        result: Result = json.loads((directory / "result.json").read_text())
        requests = read_requests(directory)
        assert requests is not None
        found = slices(requests, SLICES, result["scenario"]["duration_s"])
    text = page(options.rate, options.minutes, memory, found, result)
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
