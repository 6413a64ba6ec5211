"""The load flags: the same for `locust -f loadgen/<task>.py`, its web UI and `servemark run`."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loadgen.load.arrivals import Distribution
from loadgen.load.scenario import Scenario
from loadgen.transport.access import Access
from loadgen.transport.server_url import DEFAULT_URLS, METRICS, metrics_url, normal_url, protocol_of
from servemark.errors import OptionError
from servemark.paths import DATA_ROOT, MODEL_REPOSITORY, RESULTS
from servemark.quantities import above, number, whole
from servemark.repository.entry import DEFAULT_ENGINE, FULL, Entry
from servemark.workload import Slo, Workload, get
from servemark.workload.agreement import PRECISIONS

SHARED_MEMORY = ("none", "system", "cuda")
"""In the requests and answers, or in memory that the server maps too: POSIX shared memory, or a GPU's."""


@dataclass(frozen=True)
class LoadConfig:
    """One run, resolved and checked. Times in seconds, rates in requests/s."""

    workload: Workload
    engine: str
    precision: str
    url: str
    metrics_url: str | None
    """Where the server shows what really runs a model, None where that is not known."""
    access: Access
    model_name: str | None
    batch_size: int
    scenario: Scenario
    seed: int
    slo: Slo | None
    input_data: str
    data_root: Path
    model_repository: Path
    out: Path
    result_dir: Path | None
    start_file: Path | None
    request_timeout_s: float
    max_in_flight: int
    max_error_share: float
    streaming: bool
    shared_memory: str
    request_log: bool

    @property
    def address(self) -> str:
        """The server as --url names it, the place of its metrics included."""
        return f"{self.url}{METRICS}{urlsplit(self.metrics_url).netloc}" if self.metrics_url else self.url

    @property
    def protocol(self) -> str:
        """How the server is asked: http or grpc."""
        return protocol_of(self.url)

    @property
    def entry(self) -> Entry:
        """The model's entry in the local repository, which holds the golden outputs."""
        return Entry(self.model_repository, self.workload.name, self.engine, self.precision)

    @property
    def model(self) -> str:
        """The model's name on the server."""
        return self.model_name or self.entry.model

    @property
    def open_loop(self) -> bool:
        """Whether a schedule decides when requests go out."""
        return self.concurrency is None

    @property
    def concurrency(self) -> int | None:
        """Requests that a closed loop keeps on their way, None for an open one."""
        return self.scenario.concurrency

    @property
    def duration_s(self) -> float:
        """Measured seconds."""
        return self.scenario.duration_s

    @property
    def warmup_s(self) -> float:
        """Seconds before, which do not count."""
        return self.scenario.warmup_s

    @property
    def windows(self) -> int:
        """How many windows the measured interval has."""
        return sum(self.scenario.windows_per_stage)

    @classmethod
    def from_options(cls, options: argparse.Namespace, lookup: Callable[[str], Workload] = get) -> "LoadConfig":
        """Resolve Locust's parsed options; the web UI gives text for what was None. Raises OptionError."""
        workload = lookup(options.model)
        batch_size = whole("--batch-size", options.batch_size, 1)
        if batch_size > workload.max_batch:
            raise OptionError(
                f"--batch-size {batch_size} is above {workload.name}'s maximum of {workload.max_batch}",
                fix=f"give at most --batch-size {workload.max_batch}",
            )
        share = number("--max-error-share", options.max_error_share)
        if not 0 <= share <= 1:
            raise OptionError(f"--max-error-share {share:g} is no share", fix="give a number from 0 to 1")
        host, _, metrics = (options.host or "").partition(METRICS)
        url = normal_url(host, options.protocol)
        if options.streaming and protocol_of(url) != "grpc":
            raise OptionError("--streaming is a way of gRPC", fix="add --protocol grpc")
        return cls(
            workload=workload,
            engine=options.engine,
            precision=_precision(options.precision),
            url=url,
            metrics_url=metrics_url(url, metrics),
            access=Access.from_options(options, url),
            model_name=options.model_name or None,
            batch_size=batch_size,
            scenario=Scenario.from_options(options),
            seed=whole("--seed", options.seed, 0),
            slo=Slo.parse(options.slo) if options.slo else None,
            input_data=options.input_data,
            data_root=Path(options.data_root),
            model_repository=Path(options.model_repository),
            out=Path(options.out),
            result_dir=Path(options.result_dir) if options.result_dir else None,
            start_file=Path(options.start_file) if options.start_file else None,
            request_timeout_s=above("--request-timeout", options.request_timeout, 0),
            max_in_flight=whole("--max-in-flight", options.max_in_flight, 1),
            max_error_share=share,
            streaming=options.streaming,
            shared_memory=_shared_memory(options.shared_memory),
            request_log=options.request_log,
        )

    def to_dict(self) -> dict[str, Any]:
        """The resolved configuration for result.json."""
        return {
            "workload": self.workload.name,
            "engine": self.engine,
            "precision": self.precision,
            "url": self.url,
            "model": self.model,
            "batch_size": self.batch_size,
            **self.scenario.to_config(),
            "seed": self.seed,
            "slo": str(self.slo) if self.slo else None,
            "input_data": self.input_data,
            "shared_memory": self.shared_memory,
            "request_timeout_s": self.request_timeout_s,
            "max_in_flight": self.max_in_flight,
            "max_error_share": self.max_error_share,
            "request_log": self.request_log,
            "windows": self.windows,
        }


def add_arguments(parser: argparse.ArgumentParser, models: list[str]) -> None:
    """Add the load flags to Locust's parser; Locust shows them as fields of its web UI unless told otherwise."""
    hidden: dict[str, Any] = {"include_in_web_ui": False}  # Locust's own keyword
    add = parser.add_argument
    add("--model", default=models[0], help=f"workload: {', '.join(models)} (or <name>_tiny)")
    add("--engine", default=DEFAULT_ENGINE, help="engine whose model <model>_<engine> is asked for")
    add("--precision", default=FULL, choices=PRECISIONS, help="what the model computes in; fp32 has no suffix")
    add("--request-rate", default=None, metavar="R", help="open loop: requests/s on a schedule; empty: closed loop")
    add(
        "--request-distribution",
        default=Distribution.POISSON.value,
        choices=[d.value for d in Distribution],
        help="gaps between scheduled requests",
    )
    add("--gamma-cv", default="", metavar="CV", help="gamma: stdev/mean of the gaps; 1 is Poisson, empty: 2")
    add("--stages", default="", metavar="S:R,...", help="open loop in steps, seconds:rate, like 10:100,10:400")
    add("--trace", default="", metavar="FILE", help="open loop from a CSV or JSONL file of arrival times in seconds")
    longer = "a closed loop goes on until it has an answer for each connection"
    add("--duration", default="15", metavar="S", help=f"measured seconds; {longer}")
    add("--warmup", default="3", metavar="S", help="seconds before, which do not count")
    add("--batch-size", default="1", metavar="N", help="samples in a request")
    add("--slo", default="", metavar="pXX:MS", help="latency objective, like p99:50; decides the exit code")
    add("--input-data", default="synthetic", help="synthetic, dataset, or a path (.json, folder of .npz, real data)")
    add("--seed", default="0", metavar="N", help="seed of schedule and inputs")
    # Other names for Locust's own: --host (server) and --users (number of connections kept busy).
    add(
        "--url",
        dest="host",
        metavar="URL",
        default=argparse.SUPPRESS,
        help=f"server, default {' or '.join(DEFAULT_URLS.values())}",
        **hidden,
    )
    add("--protocol", default="", choices=["", *DEFAULT_URLS], help="http or grpc; empty: what --url says", **hidden)
    add("--headers", default="", metavar="FILE", help="fields of every request, a Name: value a line", **hidden)
    add("--tls-ca", default="", metavar="FILE", help="PEM: the CA to trust, not the system's", **hidden)
    add("--client-cert", default="", metavar="FILE", help="PEM: a certificate of our own (mutual TLS)", **hidden)
    add("--client-key", default="", metavar="FILE", help="PEM: its key, where that is another file", **hidden)
    add("--shared-memory", default=SHARED_MEMORY[0], choices=SHARED_MEMORY, help="none: tensors in messages", **hidden)
    add("--streaming", action="store_true", help="gRPC: one stream for each connection, not calls", **hidden)
    add(
        "--concurrency",
        dest="num_users",
        metavar="N",
        type=int,
        default=argparse.SUPPRESS,
        help="closed loop: same as --users",
        **hidden,
    )
    add("--serve", action="store_true", help="start the embedded Triton for this run, and stop it after", **hidden)
    add("--model-name", default="", help="the model's name on the server, default <model>_<engine>", **hidden)
    add("--data-root", default=str(DATA_ROOT), metavar="DIR", help="where data sets lie, one folder for each", **hidden)
    add(
        "--model-repository",
        default=str(MODEL_REPOSITORY),
        metavar="DIR",
        help="local exports, for golden outputs",
        **hidden,
    )
    add("--out", default=str(RESULTS), metavar="DIR", help="where the result directory is made", **hidden)
    add("--request-log", action="store_true", help="keep each request's times: requests.csv in the result", **hidden)
    add("--start-file", default="", metavar="FILE", help="begin at the time (monotonic ns) that comes there", **hidden)
    add("--result-dir", default="", metavar="DIR", help="the result directory itself, made by the caller", **hidden)
    add(
        "--request-timeout",
        default="30",
        metavar="S",
        help="a request unanswered this long after its schedule failed",
        **hidden,
    )
    add("--max-in-flight", default="1024", metavar="N", help="open loop: more wait, and their wait counts", **hidden)
    add(
        "--max-error-share",
        default="0.01",
        metavar="X",
        help="share of failed requests that a valid run may have",
        **hidden,
    )


def _precision(text: str) -> str:
    if text not in PRECISIONS:
        raise OptionError(f"--precision {text!r} is unknown", fix=f"one of: {', '.join(PRECISIONS)}")
    return text


def _shared_memory(text: str) -> str:
    if text not in SHARED_MEMORY:
        raise OptionError(f"--shared-memory {text!r} is unknown", fix=f"one of: {', '.join(SHARED_MEMORY)}")
    return text
