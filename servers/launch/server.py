"""A Triton that servemark starts itself, whichever way, and the models that it loads anew."""

import contextlib
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path

import psutil

from servemark.errors import MAX_QUOTED, ArtifactError, ServerError
from servemark.machine.scratch import Scratch
from servemark.repository.entry import CONFIG, Entry, config_text
from servemark.repository.names import in_path, spellings
from servemark.telemetry import scrape_targets
from servemark.telemetry.http_request import Reply
from servers.engines import engine_names
from servers.launch.process import (
    REQUEST_TIMEOUT_S,
    Command,
    GuardedServer,
    Process,
    claim_ports,
    request,
    wait_until_ready,
)

_NO_GPU = re.compile(r"invalid or unsupported gpu id (\d+)")
_REFUSAL = re.compile(r"""E\d{4} .*?\] "?(?:Poll failed for model directory|failed to load model) '(.+?)': (.*)""")
_PARSER = re.compile(r".*Error parsing text-format inference\.ModelConfig: (.*)")
"""Protobuf's own line, which comes before Triton's and says more."""
ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  where a client of this machine finds "every address"
FREE_PORTS: Mapping[str, int] = {"--http-port": 0, "--grpc-port": 0, "--metrics-port": 0}
EXIT_TIMEOUT_S = 3
UNLOAD_TIMEOUT_S = 30.0
"""Ten times what it takes as a rule; a model whose process was killed never goes."""
NEVER_BY_ITSELF = 2**31 - 1
"""Of requests without a traceparent, one in this number is traced: none."""
TRACES = "--trace-config"
TUNABLES = "GLIBC_TUNABLES"
KEY_FIELD = "servemark-key"
"""The header field that opens what a Triton of ours restricts."""


class TritonLog:
    """The log of one server, read as it grows, for the reason why Triton does not take a model.

    Its repository index has the reason of a model whose backend refused it. A configuration that Triton itself refuses,
    and a model without a version, only the log names.
    """

    def __init__(self, path: Path, repository: Path) -> None:
        self._path, self._repository = path, repository
        self._place = 0
        self._parser_words = ""

    def check(self, models: Sequence[str]) -> None:
        """Raise ArtifactError with Triton's words once it has refused one of the models."""
        for line in self._new_lines():
            if parsing := _PARSER.match(line):
                self._parser_words = parsing[1]
            elif (found := _REFUSAL.match(_plain(line))) and found[1] in models:
                raise ArtifactError(
                    f"Triton cannot load {found[1]}: {(self._parser_words or found[2]).strip()[: 2 * MAX_QUOTED]}",
                    fix=f"correct {self._repository / found[1] / 'config.pbtxt'}, or the folders of versions beside it",
                )

    def _new_lines(self) -> list[str]:
        """Read the whole lines that have been written since the last time."""
        with self._path.open("rb") as file:
            file.seek(self._place)
            whole, end, _ = file.read().rpartition(b"\n")
        self._place += len(whole) + len(end)
        return whole.decode(errors="replace").splitlines()


def _plain(line: str) -> str:
    """Return a line with its message as it was meant: Triton writes messages as JSON strings."""
    before, quote, message = line.partition('] "')
    with contextlib.suppress(ValueError):
        return f"{before}] {json.loads(f'{quote[-1:]}{message}')}"
    return line


@dataclass(frozen=True)
class ServerJob:
    """Models that a Triton is to serve, and its address."""

    repository: Path
    """Holds the models; that of a server which is started holds no others, each as a link."""
    models: Sequence[str]
    host: str = "127.0.0.1"
    ports: Mapping[str, int] = field(default_factory=lambda: FREE_PORTS)
    """Flag -> port: --http-port, --grpc-port, --metrics-port. One of 0 is chosen at the start."""
    reloadable: bool = False
    """Allow clients that send the key to load and unload models while the server runs."""
    otlp: str = ""
    """The OpenTelemetry collector that gets the spans of requests which carry a traceparent."""
    more: Sequence[str] = ()
    """Further flags of Triton's."""
    scratch: Path = Path()
    """A directory of this server alone, for its log and for what it needs to start; known at the start."""
    key: str = field(default_factory=secrets.token_hex, repr=False)

    def arguments(self, repository: str | None = None) -> list[str]:
        """Triton's flags; `repository` where it sees the repository under another path.

        Whoever may load a model may run code: Triton takes the model's files from the request, a web page's included.
        So nobody may where nothing is reloaded. A key alone would be less: other users of this machine can read it on
        the command line. What they gain by it then is the level of logs and traces.
        """
        explicit = ["--model-control-mode=explicit", *(f"--load-model={model}" for model in self.models)]
        restricted = f"{'model-repository,' if self.reloadable else ''}trace,logging:{KEY_FIELD}={self.key}"
        loopback = [f"--{service}-address={self.host}" for service in ("http", "grpc", "metrics")]
        return [
            f"--model-repository={repository or self.repository}",
            *(explicit if self.reloadable else ["--model-control-mode=none"]),
            f"--http-restricted-api={restricted}",
            f"--grpc-restricted-protocol={restricted}",
            *loopback,
            *(f"{flag}={port}" for flag, port in self.ports.items()),
            # A model that fails to load must not end the server before its reason has been asked for.
            "--exit-on-error=false",
            f"--exit-timeout-secs={EXIT_TIMEOUT_S}",
            *(tracing(self.otlp) if self.otlp else []),
            *self.more,
        ]


def survives_tracing(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a Triton that traces: its threads keep the memory that they free for themselves.

    Up to 2.61 at least, Triton unlocks a mutex in a trace's memory after it has freed it (`TraceManager::TraceRelease`
    in tracer.cc: the lock's guard outlives the last reference). That happens whenever an answer is sent before its
    trace is released, and ended five of seven runs of 2,000 requests/s within seconds (signal 11, "malloc(): invalid
    size"). In a thread's own cache the write does no harm; none of eight runs ended then.
    Source: glibc manual, "Memory Allocation Tunables".
    """
    given = environment.get(TUNABLES)
    return {**environment, TUNABLES: ":".join(filter(None, [given, "glibc.malloc.tcache_count=65535"]))}


def tracing(collector: str) -> list[str]:
    """Triton's flags for spans of its own, over OTLP; requests that carry a traceparent have them, whatever the rate.

    Source: Triton's user guide, "Trace", OpenTelemetry trace support, context propagation.
    """
    settings = [
        "mode=opentelemetry",
        "level=TIMESTAMPS",
        f"rate={NEVER_BY_ITSELF}",
        f"opentelemetry,url={collector.rstrip('/')}/v1/traces",
        "opentelemetry,resource=service.name=triton",
    ]
    return [f"--trace-config={setting}" for setting in settings]


class Server(GuardedServer):
    """A Triton process of our own."""

    def __init__(
        self, mode: str, command: Callable[[ServerJob], Command], job: ServerJob, start_timeout_s: float = 120.0
    ) -> None:
        super().__init__(start_timeout_s)
        self.mode = mode
        self.models = _with_steps(job.repository, job.models)
        self._command = command
        self._repository = job.repository.resolve()
        self._job = replace(job, models=self.models)
        """Its folders and ports are those of the process once it is started."""
        self._scraped: scrape_targets.ScrapeTarget | None = None
        self.version = ""
        """Triton's version, as it says itself, "" where it says none; known once ready."""

    @property
    def metrics(self) -> str:
        """The Prometheus endpoint, "host:port"."""
        return self._endpoint("metrics")

    @property
    def key(self) -> Mapping[str, str]:
        """The header field that model control asks for."""
        return {KEY_FIELD: self._job.key}

    @property
    def log(self) -> Path | None:
        """Triton's log; it goes with the server when all went well, and is kept after an error."""
        return self._process.log if self._process else None

    def start(self) -> None:
        """Start the process. Raises ServerError for a port in use, ArtifactError for a model that is not there."""
        for model in self.models:
            if not (self._repository / model).is_dir():
                entry = Entry.of_folder(self._repository / model)
                known = entry is not None and entry.engine in engine_names()
                raise ArtifactError(
                    f"{model} is not in {self._repository}", fix=entry.export_command() if entry and known else None
                )
        ports = claim_ports(self._job.host, self._job.ports)
        self._scratch = Scratch("triton")
        scratch = self._scratch.path
        served = scratch / "models"
        served.mkdir()
        for model in self.models:
            (served / model).symlink_to(self._repository / model)
        self._job = replace(self._job, repository=served, ports=ports, scratch=scratch)
        command = self._command(self._job)
        if any(argument.startswith(TRACES) for argument in self._job.arguments()):
            command = replace(command, environment=survives_tracing(command.environment))
        self._process = Process(command, scratch / "triton.log")
        self._scraped = scrape_targets.ScrapeTarget(scrape_targets.TRITON, self.metrics)

    def wait_ready(self, timeout_s: float) -> None:
        """Return once the models can be asked. Raises ServerError, ArtifactError, with Triton's words if it has any."""
        self.check()
        assert self._process
        said = TritonLog(self._process.log, self._repository)

        def check() -> None:
            self.check()
            said.check(self.models)

        try:
            wait_until_ready(self._not_ready, timeout_s, check)
        except ServerError as error:
            raise ServerError(error.what, fix=error.fix or f"read {self.log}") from error
        self.startup_s = self._process.age_s
        self.version = str(json.loads(request(self.http, "/v2").body).get("version", ""))

    def _not_ready(self) -> list[str]:
        """Name what is not ready yet.

        Raises OSError when unreachable, ServerError with the reason in Triton's repository index when a model failed to
        load; other servers have no such page.
        """
        paths = {"the server": ["/v2/health/ready"]}
        paths |= {model: [f"/v2/models/{each}/ready" for each in spellings(model)] for model in self.models}
        waiting = [
            name
            for name, known in paths.items()
            if all(request(self.http, path).status != HTTPStatus.OK for path in known)
        ]
        index = _post(self, "index", REQUEST_TIMEOUT_S) if waiting else None
        for entry in json.loads(index.body) if index and index.status == HTTPStatus.OK else ():
            if entry["name"] in self.models and entry.get("state") == "UNAVAILABLE" and entry.get("reason"):
                raise load_failure(entry["name"], entry["reason"])
        return waiting

    def workers(self) -> list[psutil.Process]:
        """The processes in which models run, of Python-based backends; none can be seen in a container."""
        return self._process.children() if self._process else []

    def stop(self) -> None:
        """End the server and everything it started."""
        if self._scraped:
            self._scraped.remove()
        super().stop()

    def _endpoint(self, service: str) -> str:
        host = ANY_HOST.get(self._job.host, self._job.host)
        shown = f"[{host}]" if ":" in host else host
        return f"{shown}:{self._job.ports[f'--{service}-port']}"


def load_failure(model: str, reason: str) -> ServerError:
    """Triton's reason as an error: a Python traceback follows "At:", and an error of ours carries its own fix."""
    what, _, fix = reason.partition("\n\nAt:")[0].partition("\n  fix: ")
    if wanted := _NO_GPU.search(what):
        what = f"it is to run on GPU {wanted[1]}, and Triton sees no such GPU here"
        fix = "name a GPU that `servemark doctor` shows, or an engine for CPUs and --device cpu"
    return ServerError(f"Triton cannot load {model}: {what}", fix=fix or None)


def _with_steps(repository: Path, models: Sequence[str]) -> list[str]:
    """List ensembles after the models they run: Triton loads those itself, but does not say when one of them cannot."""
    seen: set[str] = set()
    found: list[str] = []

    def add(model: str) -> None:
        if model in seen:
            return
        seen.add(model)  # before its steps: one of them may lead back to it
        folder = repository / model
        if (folder / CONFIG).is_file():
            for step in re.findall(r'\bmodel_name:\s*"([^"]+)"', config_text(folder)):
                add(step)
        found.append(model)

    for model in models:
        add(model)
    return found


def unload_model(server: Server, model: str) -> None:
    """Have a model go from a reloadable server; returns when nothing of it is left. Raises ServerError.

    KServe v2 calls this and `load_model` the model repository extension. A model is loaded anew, as its config.pbtxt
    says by now, after the old one has gone: asked to load a model that is loaded, Triton keeps what it can. The same
    configuration changes nothing then, also where the model's process has died, and another number of instances leaves
    the old ones as they are, long since warm, beside new ones.
    """
    workers = server.workers()
    try:
        _post(server, f"models/{in_path(model)}/unload", UNLOAD_TIMEOUT_S)
        wait_until_ready(lambda: _remains(server, model, workers), UNLOAD_TIMEOUT_S, server.check)
    except OSError as error:
        server.check()
        raise ServerError(f"the server at {server.http} did not unload {model}: {error}") from error


def load_model(server: Server, model: str, timeout_s: float) -> None:
    """Load a model; returns when it answers. Raises ServerError, with Triton's own message where it has one."""
    try:
        reply = _post(server, f"models/{in_path(model)}/load", timeout_s)
    except OSError as error:
        server.check()
        raise ServerError(f"the server at {server.http} did not load {model}: {error}") from error
    if reply.status != HTTPStatus.OK:
        raise load_failure(model, json.loads(reply.body).get("error", f"status {reply.status}"))


def _remains(server: Server, model: str, workers: list[psutil.Process]) -> list[str]:
    """List the remains of an unloaded model; a process ends about 2 s after the model has left the index."""
    index = _post(server, "index", REQUEST_TIMEOUT_S)
    states = {entry["name"]: entry.get("state") for entry in json.loads(index.body)}
    left = [f"the end of {model}"] if states.get(model) in {"READY", "UNLOADING", "LOADING"} else []
    return left + [f"the end of process {worker.pid}" for worker in workers if worker.is_running()]


def _post(server: Server, path: str, timeout_s: float) -> Reply:
    return request(server.http, f"/v2/repository/{path}", body=b"", headers=server.key, timeout_s=timeout_s)
