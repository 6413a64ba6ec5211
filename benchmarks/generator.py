"""Speed of the load generator: a registry of benchmarks, one command each.

    python -m benchmarks.generator peers --seconds 2 > docs/results/generator.txt
    python -m benchmarks.generator http            # or: grpc, streaming, latency, json, image, image-shm, ...
    python -m benchmarks.generator http grpc latency ceiling --baseline ../checkout-of-another-commit
    python -m benchmarks.generator turns --rounds 24 --seconds 6 --baseline ../checkout-of-another-commit

Those against other generators run in turns with them, on the same server and cores, and give ratios with their 95 %
intervals (from 5 rounds on). Each line with an aim says whether it was met. Peers are taken from PATH, or from the
variables PERF_ANALYZER, WRK, H2LOAD and HEY; one that is missing is named with the reason. `peers` takes about eleven
minutes with --seconds 2, on a machine that does nothing else.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import servers
from benchmarks.rig.load import (
    BOTH,
    FIRST_ANSWERS,
    IMAGE,
    NEITHER,
    START_WITHIN_S,
    Endpoints,
    Load,
    cores_awake,
    locust_command,
    measure_peer,
    measure_servemark,
    refusal,
)
from benchmarks.rig.null_server import NullServer
from benchmarks.rig.pairs import Aim, Claim, Figures, Side, alternate, rounds
from servemark.machine import environment
from servemark.paths import CHECKOUT
from servemark.stats.ratios import ratio_of_pairs

REPOSITORY = Path(__file__).parent / "rig/model_repo"
CPU = Claim("cpu_us", Aim(most=0.8))
OURS = "servemark"
TURN_S = 0.1
SETTLE_S = 2.0
"""After the first answers, as warm-up."""
TIMEOUT_S = 1800


@contextmanager
def triton(model: str) -> Iterator[Endpoints]:
    """Serve an identity model with the embedded Triton."""
    with servers.open_server("embedded", REPOSITORY, [model]) as server:
        yield Endpoints(server.http, server.grpc)


@contextmanager
def null(_model: str) -> Iterator[Endpoints]:
    """Serve nothing, fast."""
    with NullServer() as server:
        yield server.endpoints


@dataclass(frozen=True)
class Comparison:
    """A load that all make in turns, and what is claimed of it. `further` peers are shown, in two rounds."""

    title: str
    claims: Sequence[Claim]
    load: Load = field(default_factory=Load)
    serve: Callable[[str], AbstractContextManager[Endpoints]] = triton
    further: Sequence[str] = ()

    def __call__(self, pairs: int, seconds: float, cores: str, baseline: Path | None) -> None:
        """Measure and print; `baseline` is a checkout whose generator takes the peers' part."""
        with self.serve(self.load.model) as at:
            found = self.measure(at, pairs, seconds, cores, baseline)
        for claim in self.claims:
            theirs = found.get("baseline" if baseline else claim.peer)
            if theirs:
                print(claim.report(list(zip(found[OURS], theirs, strict=True)), baseline), flush=True)

    def measure(
        self, at: Endpoints, pairs: int, seconds: float, cores: str, baseline: Path | None = None
    ) -> dict[str, list[Figures]]:
        """Return the figures of each side that can make the load, round by round; print them and who cannot."""
        sides: dict[str, Side] = {OURS: partial(measure_servemark, at, self.load, seconds)}
        main, further = list[str](), list[str]()
        if baseline:
            sides["baseline"] = partial(measure_servemark, at, self.load, seconds, checkout=baseline)
        else:
            main, further = self.able(claim.peer for claim in self.claims), self.able(self.further)
        sides |= {name: partial(measure_peer, name, at, self.load, seconds) for name in (*main, *further)}
        print(f"{self.title}; cores kept awake for {cores}: {', '.join(sides)}", flush=True)
        with cores_awake(cores):
            return rounds(sides, pairs, len(sides) - len(further))

    def able(self, names: Iterable[str]) -> list[str]:
        """Return those that are installed and can make the load, each once."""
        return [name for name in dict.fromkeys(names) if refusal(name, self.load) is None]


ALL_HTTP = ("h2load", "hey")
COMPARISONS = {
    "http": Comparison(
        "HTTP, FP32[64], 32 in flight, Triton",
        [Claim("requests_per_s", Aim(least=1.5)), CPU, Claim("requests_per_s", Aim(least=0.95), "wrk")],
        further=ALL_HTTP,
    ),
    "latency": Comparison(
        "HTTP, FP32[64], 1 in flight, Triton",
        [Claim("p50_ms", Aim(most=0.95)), Claim("cpu_us"), Claim("p50_ms", Aim(most=1.05), "wrk")],
        Load(concurrency=1),
        further=ALL_HTTP,
    ),
    "grpc": Comparison(
        "gRPC, FP32[64], 32 in flight, Triton",
        [Claim("requests_per_s", Aim(least=1.8)), CPU, Claim("requests_per_s", peer="h2load")],
        Load(protocol="grpc"),
    ),
    "grpc-latency": Comparison(
        "gRPC, FP32[64], 1 in flight, Triton",
        [Claim("p50_ms"), Claim("cpu_us"), Claim("p50_ms", peer="h2load")],
        Load(protocol="grpc", concurrency=1),
    ),
    "ceiling": Comparison(
        "HTTP, FP32[64], 32 in flight, a server that does nothing",
        [Claim("requests_per_s"), Claim("cpu_us"), Claim("requests_per_s", Aim(least=0.75), "wrk")],
        serve=null,
        further=ALL_HTTP,
    ),
    "streaming": Comparison(
        "gRPC streams, FP32[64], 32 in flight, Triton",
        [Claim("requests_per_s"), Claim("cpu_us")],
        Load(protocol="grpc", streaming=True),
    ),
    "json": Comparison(
        "HTTP, FP32[64] as JSON, 32 in flight, Triton",
        [Claim("requests_per_s", Aim(least=1.0)), CPU],
        Load(tensor_format="json"),
    ),
    "image": Comparison(
        "HTTP, 602,112 bytes each way in the messages, 8 in flight, Triton",
        [Claim("requests_per_s", Aim(least=1.1)), Claim("cpu_us")],
        Load("identity_image", concurrency=8, one_input=IMAGE),
    ),
    "image-shm": Comparison(
        "HTTP, 602,112 bytes each way in system shared memory, 8 in flight, Triton",
        [Claim("requests_per_s", Aim(least=1.2)), Claim("cpu_us")],
        Load("identity_image", shared_memory="system", concurrency=8, one_input=IMAGE),
    ),
}
MAIN = ("ceiling", "http", "latency", "grpc", "grpc-latency")
HEAD = """\
| load | peer | figure | servemark / peer, cores awake | cores idle | aim |
|---|---|---|---|---|---|"""
Found = dict[str, dict[str, list[Figures]]]
"""Figures of each side in rounds, by whose cores were awake."""


def peers(pairs: int, seconds: float, *_: object) -> None:
    """Measure the main loads against every peer, with cores awake for all and for none; print rounds, then a table."""
    lines = [HEAD]
    for name in MAIN:
        comparison = COMPARISONS[name]
        with comparison.serve(comparison.load.model) as at:
            found = {cores: comparison.measure(at, pairs, seconds, cores) for cores in (BOTH, NEITHER)}
        lines += rows(comparison, found)
        print(flush=True)
    print("\n".join(lines))


def rows(comparison: Comparison, found: Found) -> list[str]:
    """Return a line for each claim and each further peer; for one that was not run the reason."""
    figure = comparison.claims[0].figure
    claims = [*comparison.claims, *(Claim(figure, peer=name) for name in comparison.further)]
    return [f"| {' | '.join((comparison.title, claim.peer, *_cells(comparison, claim, found)))} |" for claim in claims]


def _cells(comparison: Comparison, claim: Claim, found: Found) -> Sequence[str]:
    """Return the figure's name, ratio, interval and medians by whose cores were awake, and what came of the aim."""
    if why := refusal(claim.peer, comparison.load):
        return claim.figure, f"not run: {why}", "", ""
    ratios, cells = [], []
    for cores in (BOTH, NEITHER):
        ours, theirs = ([getattr(each, claim.figure) for each in found[cores][name]] for name in (OURS, claim.peer))
        ratio = ratio_of_pairs(list(zip(ours, theirs, strict=False)))
        interval = "" if ratio.low is None else f" ({ratio.low:.2f} to {ratio.high:.2f})"
        medians = " against ".join(f"{statistics.median(each):.4g}" for each in (ours, theirs))
        cells.append(f"{ratio.value:.2f}{interval}; {medians}")
        ratios.append(ratio.value)
    verdicts = [claim.aim.verdict(ratio) for ratio in ratios]
    aim = verdicts[0] if verdicts[0] == verdicts[1] else f"awake: {verdicts[0]}; idle: {verdicts[1]}"
    return claim.figure, *cells, aim


@dataclass(frozen=True)
class Generator:
    """A generator that is stopped between its turns, with its own children (a process group)."""

    pid: int
    answered: Callable[[], int]

    def turn(self) -> tuple[float, float]:
        """Let it run; return requests/s and its CPU for each request (µs)."""
        before, used_ns, begin = self.answered(), self._cpu_ns(), time.perf_counter()
        os.killpg(self.pid, signal.SIGCONT)
        time.sleep(TURN_S)
        os.killpg(self.pid, signal.SIGSTOP)
        took_s = time.perf_counter() - begin
        requests = self.answered() - before
        if not requests:
            raise SystemExit("a generator sent nothing in its turn")
        return requests / took_s, (self._cpu_ns() - used_ns) / requests / 1000

    def _cpu_ns(self) -> int:
        return time.clock_gettime_ns(~self.pid << 3 | 2)  # clock_getcpuclockid(3)


@contextmanager
def stopped(load: Load, checkout: Path, seconds: float) -> Iterator[Generator]:
    """Start a checkout's generator for a run of `seconds`, and stop it once it has warmed up."""
    with tempfile.TemporaryDirectory() as folder, NullServer() as server:
        command = locust_command(server.endpoints, load, seconds, Path(folder), checkout)
        answered = server.endpoints.counter(load.model)
        process = subprocess.Popen(
            [sys.executable, *command],
            env={**os.environ, "PYTHONPATH": str(checkout)},
            cwd=checkout,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            until = time.monotonic() + START_WITHIN_S
            while answered() <= FIRST_ANSWERS:
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"the generator of {checkout} did not start")
                time.sleep(0.05)
            time.sleep(SETTLE_S)
            os.killpg(process.pid, signal.SIGSTOP)
            yield Generator(process.pid, answered)
        finally:
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def turns(count: int, seconds: float, _: str, baseline: Path | None) -> None:
    """Print the ratios of this checkout's generator to the baseline's, of `seconds` of turns of each in a round.

    The turns take a fraction of a second: one generator is stopped (SIGSTOP) while the other runs. A shared machine
    changes its speed by half from one second to the next, so that whole runs in turns need hours to tell a difference
    of 3 %. Both keep their connections to a server of their own that does nothing, and what a turn is worth is the
    server's count of requests over the time of the turn. Both are started anew in each round, because one process of
    the same code may be 5 % faster than the next.
    """
    if baseline is None:
        raise SystemExit("turns compares with another checkout: --baseline DIR")
    load = Load()
    print(f"{COMPARISONS['ceiling'].title}; turns of {TURN_S:g} s", flush=True)
    whole_s = 2 * (START_WITHIN_S + SETTLE_S) + 3 * seconds
    found = []
    for number in range(count):
        with stopped(load, CHECKOUT, whole_s) as ours, stopped(load, baseline, whole_s) as theirs:
            pairs = list(alternate(ours.turn, theirs.turn, round(seconds / TURN_S)))
        found.append([ratio_of_pairs([(a[place], b[place]) for a, b in pairs]).value for place in (0, 1)])
        rate, cpu = found[-1]
        print(f"round {number + 1}/{count}: {rate:.3f} of its requests/s, {cpu:.3f} of its CPU", flush=True)
    for place, name in enumerate(("requests_per_s", "cpu_us")):
        print(f"{name} ratio servemark / baseline: {ratio_of_pairs([(each[place], 1.0) for each in found])}")


TURNS, ALL = "turns", "all"
BENCHMARKS: dict[str, Callable[[int, float, str, Path | None], None]] = {"peers": peers, **COMPARISONS, TURNS: turns}
"""Each takes the number of pairs, the seconds of a run, whose cores are awake, and a checkout to compare with."""


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="+", choices=[*BENCHMARKS, ALL], metavar=f"{{{','.join(BENCHMARKS)},all}}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--baseline", type=Path, help="a checkout to compare with, instead of the peers")
    parser.add_argument(
        "--cores-awake", choices=(BOTH, NEITHER), default=NEITHER, help="of comparisons (default: %(default)s)"
    )
    options = parser.parse_args()
    names = [name for name in BENCHMARKS if name != TURNS] if ALL in options.benchmarks else options.benchmarks
    settings = ["--rounds", str(options.rounds), "--seconds", f"{options.seconds:g}"]
    settings += ["--cores-awake", options.cores_awake]
    if options.baseline:
        if others := sorted(set(names) - {*COMPARISONS, TURNS}):
            parser.error(f"--baseline goes with {', '.join(COMPARISONS)} and {TURNS}, not with {', '.join(others)}")
        settings += ["--baseline", str(options.baseline.resolve())]
    print(_machine(), flush=True)
    if len(names) == 1:
        BENCHMARKS[names[0]](options.rounds, options.seconds, options.cores_awake, options.baseline)
        return
    failed = []
    for name in names:
        # A process for each: Locust patches the one that it is imported into, and one failure leaves the others.
        command = ["-m", "benchmarks.generator", name, *settings]
        print(f"\n$ python {' '.join(command)}", flush=True)
        try:
            if subprocess.run([sys.executable, *command], check=False, timeout=TIMEOUT_S).returncode:
                failed.append(name)
        except subprocess.TimeoutExpired:
            failed.append(f"{name} (not done within {TIMEOUT_S} s)")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def _machine() -> str:
    found = environment.collect()
    load = os.getloadavg()[0]
    today = datetime.now(UTC).date().isoformat()
    return f"{today}, {found['cpu']}, {found['cores']} cores, Python {found['python']}, load average before {load:.2f}"


if __name__ == "__main__":
    main()
