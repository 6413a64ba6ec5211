"""The load's flags, declared once: a field of LoadFlags is a flag of every command that drives a load.

A new one is a field here, with the name that it has in loadgen/load/load_config.py.
"""

import functools
import inspect
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import Option

from servemark.cli._options import DEFAULT_DATA_ROOT, DEFAULT_REPOSITORY, DataRoot, Repository
from servemark.paths import RESULTS

Command = Callable[..., None]

SERVER = (
    "url", "protocol", "streaming", "headers", "tls_ca", "client_cert", "client_key", "shared_memory", "model_name",
)  # fmt: skip
"""Which server is asked, for what, and how."""
RANGES = ("concurrency_range", "request_rate_range")
HOW_MUCH = ("concurrency", "request_rate", *RANGES, "stages", "trace")
ARRIVALS = (*HOW_MUCH, "request_distribution", "gamma_cv")


@dataclass(frozen=True, kw_only=True)
class LoadFlags:
    """The flags as given. Most are text, since it is the locustfile that checks its options."""

    url: Annotated[
        str, Option("-u", "--url", help="A running server, http[s]://HOST:PORT[#metrics=PORT]; else one is started.")
    ] = ""
    protocol: Annotated[
        str, Option("-i", "--protocol", help="http or grpc; http, unless --url says grpc[s]://.", show_default=False)
    ] = ""
    streaming: Annotated[bool, Option("--streaming", help="gRPC: one stream for each connection, not calls.")] = False
    headers: Annotated[str, Option(metavar="FILE", help="Fields of every request, a Name: value a line.")] = ""
    tls_ca: Annotated[str, Option(metavar="FILE", help="PEM: the CA to trust, not the system's.")] = ""
    client_cert: Annotated[str, Option(metavar="FILE", help="PEM: a certificate of our own (mutual TLS).")] = ""
    client_key: Annotated[str, Option(metavar="FILE", help="PEM: its key, where that is another file.")] = ""
    shared_memory: Annotated[
        str,
        Option(metavar="KIND", help="Tensors in messages (none), or in memory that the server sees too: system, cuda."),
    ] = "none"
    batch_size: Annotated[str, Option("-b", "--batch-size", metavar="N", help="Samples in a request.")] = "1"
    concurrency: Annotated[str, Option(metavar="N", help="Closed loop: requests on their way.")] = ""
    concurrency_range: Annotated[str, Option(metavar="S:E[:STEP]", help="One run for each concurrency.")] = ""
    request_rate: Annotated[str, Option(metavar="R", help="Open loop: requests/s on a schedule.")] = ""
    request_rate_range: Annotated[str, Option(metavar="S:E[:STEP]", help="One run for each rate.")] = ""
    stages: Annotated[str, Option(metavar="S:R,...", help="Open loop in steps, seconds:rate, like 10:100,10:400.")] = ""
    trace: Annotated[
        str, Option(metavar="FILE", help="Open loop from a CSV or JSONL file of arrival times in seconds.")
    ] = ""
    request_distribution: Annotated[str, Option(metavar="D", help="poisson, constant or gamma (bursts).")] = "poisson"
    gamma_cv: Annotated[
        str, Option(metavar="CV", help="gamma: stdev/mean of the gaps; 1 is Poisson, 2 if not given.")
    ] = ""
    duration: Annotated[str, Option(metavar="S", help="Measured seconds; a closed loop's are the least.")] = "15"
    warmup: Annotated[str, Option(metavar="S", help="Seconds before, which do not count.")] = "3"
    seed: Annotated[int, Option(metavar="N", min=0, help="Seed of schedule and inputs.")] = 0
    slo: Annotated[str, Option(metavar="pXX:MS", help="Latency objective, like p99:50.")] = ""
    input_data: Annotated[str, Option(help="synthetic, dataset, or a path.")] = "synthetic"
    data_root: DataRoot = DEFAULT_DATA_ROOT
    out: Annotated[Path, Option(metavar="DIR", help="Where result directories are made.", show_default="results")] = (
        RESULTS
    )
    request_log: Annotated[
        bool, Option("--request-log", help="Keep each request's times: requests.csv in the result.")
    ] = False
    model_name: Annotated[str, Option(help="The model's name on the server.")] = ""
    request_timeout: Annotated[str, Option(metavar="S", help="Unanswered this long: failed.")] = "30"
    max_in_flight: Annotated[str, Option(metavar="N", help="Open loop: more requests wait.")] = "1024"
    max_error_share: Annotated[str, Option(metavar="X", help="Failed share a valid run may have.")] = "0.01"
    model_repository: Repository = DEFAULT_REPOSITORY

    def for_locust(self, **more: Any) -> dict[str, Any]:
        """The flags of every run, and `more`; server, seed and how much load it is are each run's own."""
        own = {"url", "seed", *HOW_MUCH}
        return {name: value for name, value in asdict(self).items() if name not in own} | more

    @property
    def concerns_a_server(self) -> bool:
        """Whether one of them is for a server, given or own."""
        return any(getattr(self, name) != getattr(LoadFlags, name) for name in SERVER)


def takes_load(*, without: Collection[str] = (), **defaults: Any) -> Callable[[Command], Command]:
    """Give a command the flags in the place of its parameter `load: LoadFlags`, as typer reads them from its signature.

    It does not take those that `without` names; `defaults` are this command's.
    """
    usual = LoadFlags(**defaults)
    hints = get_type_hints(LoadFlags, include_extras=True)
    flags = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(usual, field.name),
            annotation=hints[field.name],
        )
        for field in fields(LoadFlags)
        if field.name not in without
    ]

    def expand(command: Command) -> Command:
        @functools.wraps(command)
        def expanded(**given: Any) -> None:
            taken = {flag.name: given.pop(flag.name) for flag in flags}
            command(**given, load=LoadFlags(**defaults | taken))

        signature = inspect.signature(command)
        parameters: list[inspect.Parameter] = []
        for own in signature.parameters.values():
            parameters += flags if own.name == "load" else [own.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
        result: Any = expanded
        result.__signature__ = signature.replace(parameters=parameters)
        return expanded

    return expand
