"""Servers for contenders that take turns: one for all of them, one for each turn, or one that runs already."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

import servers
from loadgen.load.load_config import LoadConfig
from loadgen.targets.http import control_of
from servemark.compare.interleaved.contenders import Contender
from servemark.compare.interleaved.turn import Footprint
from servemark.errors import OptionError, ServerError
from servemark.frameworks.onnxruntime import FP16_ON_CPU
from servemark.machine import limits
from servemark.output import note
from servemark.repository.entry import Entry
from servemark.results.schema.comparison import ServedBy
from servemark.runs.server import address_of, note_death
from servemark.search.trial import Candidate
from servemark.telemetry.processes import memory_bytes
from servers.launch.product_server import LOOPBACK, Environment, ProductServer
from servers.products import TRITON, Deployment, product, version

START_TIMEOUT_S = 300.0
"""Triton loads the models of a comparison one after another; some engines take a minute to start."""
ENGINE_BYTES = 1 << 30
"""Memory that a framework takes besides the model; PyTorch and TensorFlow come near."""
WEIGHT_COPIES = 3
"""A file's bytes in memory: as it was read, as the engine packs it, and room for what is computed."""
ONNX_FILE = "model.onnx"
LEAST_DELAY_S = 0.001
"""Time that a request waits for others where a product needs a delay to join any, and config.pbtxt has none."""
NOT_IN_JSON = ("FP16", "BF16")


@dataclass(frozen=True)
class Participant:
    """A contender with the runs that it makes; their configuration has the model's name on the server."""

    contender: Contender
    config: LoadConfig

    @property
    def label(self) -> str:
        """The contender's name, unique in the comparison."""
        return self.contender.label

    def lasting(self, duration_s: float) -> "Participant":
        """The same with runs of another length, of a closed loop or at one rate."""
        load = msgspec.structs.replace(self.config.request.load, duration_s=duration_s)
        return replace(self, config=self.config.changed(load=load))


@dataclass(frozen=True)
class Hosted:
    """A server while it answers at an address; what is known of its processes where it was started for one turn."""

    address: str
    root: int | None = None
    """The process from which all of its processes descend; None where it is not known."""
    startup_s: float | None = None
    """Time from the start of its process until it was ready."""
    version: str | None = None
    """As the server says itself, where it was asked."""

    def asked(self, config: LoadConfig) -> LoadConfig:
        """Return the run at this server, whose address its request names where it names one."""
        named = config.changed(url=self.address) if config.server.url else config
        return named.at(self.address, self.root)

    def footprint(self) -> Footprint | None:
        """Return what it takes now; None of a server that is not one turn's own."""
        if self.startup_s is None:
            return None
        return Footprint(self.startup_s, None if self.root is None else memory_bytes(self.root))


ServerFactory = Callable[[Participant], AbstractContextManager[Hosted]]
"""Participant -> a context in which its server answers."""


def running_servers(participants: Sequence[Participant]) -> ServerFactory:
    """Return servers that run already; every model is asked for first. Raises ServerError."""
    for participant in participants:
        config = participant.config
        control_of(config).require_model(config.model, config.workload, config.entry.serve_command())
    return lambda participant: contextlib.nullcontext(Hosted(participant.config.address))


@contextlib.contextmanager
def triton(repository: Path, models: Sequence[str], protocol: str) -> Iterator[Hosted]:
    """One Triton with these models: those that wait for their turn cost memory and no time. Raises ServerError."""
    names = list(dict.fromkeys(models))
    with servers.open_server("auto", repository, names, start_timeout_s=START_TIMEOUT_S) as server:
        yield Hosted(address_of(server, protocol), server.root, server.startup_s, server.version)
        note_death(server)


def fit_together(folders: Sequence[Path]) -> bool:
    """Return True if all models fit into this machine's free memory at once, by a rough and generous estimate."""
    sizes = [sum(file.stat().st_size for file in (folder / "1").rglob("*") if file.is_file()) for folder in folders]
    return sum(WEIGHT_COPIES * size + ENGINE_BYTES for size in sizes) < limits.memory().available_bytes


@dataclass
class ProductServers:
    """A server of its own for each turn, of the product that the contender names.

    One at a time, because some products use the CPU while nobody asks them: a neighbour that waits would cost.
    """

    repository: Path
    """Triton's."""
    protocol: str
    _deployments: dict[str, Deployment] = field(default_factory=dict)
    _triton: str | None = None
    """The version of the Triton that was started."""

    def require(self, contender: Contender, config: LoadConfig) -> None:
        """Check that a product is here, and can do what the runs ask for. Raises ServerError, OptionError."""
        about = product(contender.server)
        if contender.server != TRITON:
            Environment(contender.server).require()
        if self.protocol == "grpc" and not about.grpc:
            raise OptionError(f"{contender.server} has no KServe v2 over gRPC", fix="compare over HTTP")
        if about.single_samples and (contender.batch_size or config.batch_size) > 1:
            raise OptionError(f"a request to {contender.server} holds one sample", fix="leave out --batch-size")
        tensors = [*config.workload.inputs, *config.workload.outputs]
        if (
            self.protocol == "http"
            and not about.binary_tensors
            and (odd := [t.datatype for t in tensors if t.datatype in NOT_IN_JSON])
        ):
            raise OptionError(f"{odd[0]} tensors cannot travel as JSON", fix="compare servers over another workload")
        if contender.batching and not about.batching:
            raise OptionError(f"{contender.server} does not join requests", fix="leave out batching=on")

    def participant(self, participant: Participant, configuration: str) -> Participant:
        """Give a participant its server's requests, with a deployment as its config.pbtxt has it."""
        contender, config = participant.contender, participant.config
        entry = contender.entry(config.workload, config.model_repository)
        self._deployments[contender.label] = deployment(config, entry, configuration)
        if contender.server == TRITON:
            return participant
        url = f"{self.protocol}://{LOOPBACK}"  # each turn's server has a port of its own
        kind = product(contender.server).endpoint_type
        return Participant(
            contender, config.changed(url=url, protocol="", endpoint_type=kind, model_name=entry.model).at(url)
        )

    @contextlib.contextmanager
    def __call__(self, participant: Participant) -> Iterator[Hosted]:
        """Start the server of a participant. Raises ServerError."""
        if participant.contender.server == TRITON:
            with triton(self.repository, [participant.config.model], self.protocol) as hosted:
                self._triton = hosted.version
                yield hosted
            return
        label = participant.label
        server = ProductServer(participant.contender.server, self._deployments[label], start_timeout_s=START_TIMEOUT_S)
        with server:
            endpoint = server.grpc if self.protocol == "grpc" else server.http
            yield Hosted(f"{self.protocol}://{endpoint}", server.root, server.startup_s)
            try:
                server.check()
            except ServerError as error:
                note(f"{label}: {error}")

    def served_by(self, contender: Contender) -> ServedBy:
        """Describe the server of a contender, which has been started, for comparison.json."""
        about = product(contender.server)
        joins = self._deployments[contender.label].queue_delay_s is not None
        tensors = "gRPC" if self.protocol == "grpc" else "binary" if about.binary_tensors else "JSON"
        return {
            "server": contender.server,
            "version": self._triton if contender.server == TRITON else version(contender.server),
            "requests": about.endpoint_type or f"KServe v2, {tensors}",
            "batching": about.batching or None if joins else None,
            "guide": about.guide,
        }


def deployment(config: LoadConfig, entry: Entry, configuration: str) -> Deployment:
    """Make what a product serves of a config.pbtxt, which Triton reads itself. Raises ArtifactError."""
    settings = Candidate.of_config(configuration)
    delay_us = settings.queue_delay_us
    return Deployment(
        model=entry.model,
        artifact=entry.version / ONNX_FILE,
        inputs=config.workload.inputs,
        outputs=config.workload.outputs,
        max_batch=settings.max_batch,
        instances=settings.instances,
        threads=settings.threads,
        queue_delay_s=None if delay_us is None or not settings.max_batch else max(delay_us / 1e6, LEAST_DELAY_S),
        session_entries=dict([FP16_ON_CPU]) if config.precision == "fp16" else {},
    )
