"""servemark's generator against its peers, or another checkout's, on one embedded Triton or a null server."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import servers
from benchmarks.rig import locust_load, peer_load
from benchmarks.rig.load import IMAGE, Endpoints, Figures, Load
from benchmarks.rig.null_server import NullServer
from benchmarks.rig.pairs import Aim, Claim, Side, rounds
from benchmarks.rig.peer_load import BOTH, NEITHER
from servemark.stats.ratios import ratio_of_pairs

REPOSITORY = Path(__file__).parents[1] / "rig/model_repo"
CPU = Claim("cpu_us", Aim(most=0.8))
OURS = "servemark"


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

    def __call__(self, pairs: int, seconds: float, cores: str = NEITHER, baseline: Path | None = None) -> None:
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
        sides: dict[str, Side] = {OURS: partial(locust_load.measure, at, self.load, seconds)}
        if baseline:
            sides["baseline"] = partial(locust_load.measure, at, self.load, seconds, checkout=baseline)
        else:
            sides |= {name: partial(peer_load.measure, name, at, self.load, seconds) for name in self.able(self.main)}
        seldom = len(sides)
        if not baseline:
            further = self.able(self.further)
            sides |= {name: partial(peer_load.measure, name, at, self.load, seconds) for name in further}
        print(f"{self.title}; cores kept awake for {cores}: {', '.join(sides)}", flush=True)
        with peer_load.cores_awake(cores):
            return rounds(sides, pairs, seldom)

    @property
    def main(self) -> list[str]:
        """Return the peers of which something is claimed."""
        return list(dict.fromkeys(claim.peer for claim in self.claims))

    def able(self, names: Sequence[str]) -> list[str]:
        """Return those that are installed and can make the load."""
        return [name for name in names if peer_load.refusal(name, self.load) is None]


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


def peers(pairs: int, seconds: float) -> None:
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
    if why := peer_load.refusal(claim.peer, comparison.load):
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
