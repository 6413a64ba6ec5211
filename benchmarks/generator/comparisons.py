"""servemark's generator against perf_analyzer, or another checkout's, on one embedded Triton or a null server."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import servers
from benchmarks.rig import locust_load, perf_analyzer
from benchmarks.rig.aims import Aim, Claim
from benchmarks.rig.load import Endpoints, Load
from benchmarks.rig.null_server import NullServer
from benchmarks.rig.pairs import alternate

REPOSITORY = Path(__file__).parents[1] / "rig/model_repo"
IMAGE = (3, 224, 224)
CPU = Claim("cpu_us", Aim(most=0.8))


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
    """A load that both make in turns, and what is claimed of it."""

    title: str
    claims: Sequence[Claim]
    load: Load = field(default_factory=Load)
    serve: Callable[[str], AbstractContextManager[Endpoints]] = triton

    def __call__(self, pairs: int, seconds: float, baseline: Path | None = None) -> None:
        """Measure and print; `baseline` is a checkout whose generator takes perf_analyzer's part."""
        other = f"the generator in {baseline}" if baseline else "perf_analyzer"
        print(f"{self.title}: servemark against {other}", flush=True)
        found = []
        with self.serve(self.load.model) as at:
            for ours, theirs in alternate(
                lambda: locust_load.measure(at, self.load, seconds),
                lambda: (
                    locust_load.measure(at, self.load, seconds, checkout=baseline)
                    if baseline
                    else perf_analyzer.measure(at, self.load, seconds)
                ),
                pairs,
            ):
                found.append((ours, theirs))
                shown = (
                    f"{claim.figure} {getattr(ours, claim.figure):.5g} against {getattr(theirs, claim.figure):.5g}"
                    for claim in self.claims
                )
                print(f"pair {len(found)}/{pairs}: {', '.join(shown)}", flush=True)
        for claim in self.claims:
            print(claim.report(found, baseline), flush=True)


COMPARISONS = {
    "http": Comparison(
        "HTTP, FP32[64], concurrency 32",
        [Claim("requests_per_s", Aim(least=1.5)), CPU],
    ),
    "grpc": Comparison(
        "gRPC, FP32[64], concurrency 32",
        [Claim("requests_per_s", Aim(least=1.0)), CPU],
        Load(protocol="grpc"),
    ),
    "streaming": Comparison(
        "gRPC streams, FP32[64], concurrency 32",
        [Claim("requests_per_s"), Claim("cpu_us")],
        Load(protocol="grpc", streaming=True),
    ),
    "ceiling": Comparison(
        "HTTP, FP32[64], concurrency 32, null server",
        [Claim("requests_per_s"), Claim("cpu_us")],
        serve=null,
    ),
    "latency": Comparison(
        "HTTP, FP32[64], concurrency 1",
        [Claim("p50_ms", Aim(most=0.85)), Claim("cpu_us")],
        Load(concurrency=1),
    ),
    "json": Comparison(
        "HTTP, FP32[64] as JSON, concurrency 32",
        [Claim("requests_per_s", Aim(least=1.0)), CPU],
        Load(tensor_format="json"),
    ),
    "image": Comparison(
        "HTTP, 602,112 bytes each way in the messages, concurrency 8",
        [Claim("requests_per_s", Aim(least=1.1)), Claim("cpu_us")],
        Load("identity_image", concurrency=8, one_input=IMAGE),
    ),
    "image-shm": Comparison(
        "HTTP, 602,112 bytes each way in system shared memory, concurrency 8",
        [Claim("requests_per_s", Aim(least=1.2)), Claim("cpu_us")],
        Load("identity_image", shared_memory="system", concurrency=8, one_input=IMAGE),
    ),
}
