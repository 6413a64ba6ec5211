"""`servemark serve`: Triton on the model repository, until Ctrl-C."""

import os
from typing import Annotated

import typer

from servemark import interrupts
from servemark.cli._command import one_command
from servemark.cli._options import (
    DEFAULT_ENGINE,
    DEFAULT_PRECISION,
    DEFAULT_REPOSITORY,
    Device,
    Engine,
    EngineOption,
    Instances,
    Json,
    Precision,
    Repository,
    completed,
    quantity,
)
from servemark.cli._own_models import takes_own_models
from servemark.errors import OptionError
from servemark.machine.addresses import is_loopback
from servemark.output import note
from servemark.quantities import SECONDS
from servemark.repository.model_config import Settings
from servemark.results.directory import print_json
from servemark.runs.entries import find_models, repository_with
from servemark.telemetry.metrics.destinations import http_url

_CHECK_S = 0.5
EXPOSED = (
    "the embedded Triton 2.51 has known holes, and everybody who reaches this address may use them; "
    "--mode docker serves a newer one"
)
MAX_PORT = 65535


def serve(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="WORKLOAD",
            help="Workloads, or other directories of the model repository.",
            autocompletion=completed,
        ),
    ],
    engine: Engine = DEFAULT_ENGINE,
    precision: Precision = DEFAULT_PRECISION,
    device: Device = "",
    option: EngineOption = None,
    instances: Instances = None,
    http_port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=MAX_PORT, help="KServe v2 over HTTP; 0 picks a free port.")
    ] = 8000,
    grpc_port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=MAX_PORT, help="KServe v2 over gRPC; 0 picks a free port.")
    ] = 8001,
    metrics_port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=MAX_PORT, help="Prometheus metrics; 0 picks a free port.")
    ] = 8002,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    mode: Annotated[str, typer.Option(help="auto, embedded, native (tritonserver on PATH) or docker.")] = "auto",
    start_timeout: Annotated[
        float, quantity("--start-timeout", "S", "Give up when not ready by then.", least=0, units=SECONDS)
    ] = 120.0,
    otlp: Annotated[
        str, typer.Option(metavar="URL", help="Collector (OTLP, HTTP) for spans of requests that carry a traceparent.")
    ] = "",
    model_repository: Repository = DEFAULT_REPOSITORY,
    with_parent: Annotated[bool, typer.Option(hidden=True, help="End when the parent process ends.")] = False,
    json: Json = False,
) -> None:
    """Serve exported workloads and hand-written pipelines with Triton until Ctrl-C.

    Example: servemark serve ranking resnet50 --engine onnxruntime
    """
    import servers

    by_hand, found = find_models(names, engine, model_repository, precision)
    settings = Settings.from_options(device, option or (), instances)
    if settings and by_hand:
        raise OptionError(
            f"{by_hand[0]} is configured by hand", fix=f"edit {model_repository / by_hand[0]}/config.pbtxt"
        )
    models = [*by_hand, *(entry.model for entry in found)]
    parent = os.getppid()
    try:
        with (
            repository_with(model_repository, found, settings) as repository,
            servers.open_server(
                mode,
                repository,
                models,
                host=host,
                http_port=http_port,
                grpc_port=grpc_port,
                metrics_port=metrics_port,
                start_timeout_s=start_timeout,
                otlp=http_url("--otlp", otlp),
            ) as server,
        ):
            url = f"http://{server.http}"
            note(f"serving {', '.join(models)} at {url} (gRPC {server.grpc}, metrics {server.metrics}); Ctrl-C stops")
            note(f"log: {server.log}")
            if server.mode == "embedded" and not is_loopback(host):
                note(f"warning: {EXPOSED}")
            if json:
                print_json({"url": url, "grpc": server.grpc, "metrics": server.metrics, "models": models})
            while not with_parent or os.getppid() == parent:
                server.check()
                interrupts.sleep(_CHECK_S)
    except KeyboardInterrupt:
        note("stopped")


app = one_command(takes_own_models(serve))
