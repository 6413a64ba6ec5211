"""`servemark serve`: Triton on the model repository, until Ctrl-C."""

import os
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from servemark.artifacts import Entry
from servemark.cli.options import DEFAULT_ENGINE, DEFAULT_REPOSITORY, Engine, Json, Repository
from servemark.errors import OptionError
from servemark.models import get
from servemark.output import note
from servemark.results import to_json

_CHECK_S = 0.5


def entries(workloads: list[str], engine: str, repository: Path) -> list[Entry]:
    """The repository entries of workloads. Raises OptionError, ArtifactError naming the export command."""
    from servers.engines import engine_names

    found = [Entry(repository, get(name).name, engine) for name in workloads]
    if engine not in engine_names():
        raise OptionError(f"unknown engine {engine!r}", fix=f"one of: {', '.join(engine_names())}")
    for entry in found:
        entry.require()
    return found


def model_names(names: list[str], engine: str, repository: Path) -> list[str]:
    """Names in Triton: of a workload its entry's, of anything else with a configuration its own, like a pipeline's.

    Raises OptionError, ArtifactError naming the export command.
    """
    models = []
    for name in names:
        by_hand = (repository / name / "config.pbtxt").is_file()
        models += [name] if by_hand else [entry.model for entry in entries([name], engine, repository)]
    return models


def serve(
    names: Annotated[
        list[str],
        typer.Argument(metavar="WORKLOAD...", help="Workloads, or other directories of the model repository."),
    ],
    engine: Engine = DEFAULT_ENGINE,
    http_port: Annotated[int, typer.Option(help="KServe v2 over HTTP; 0 picks a free port.")] = 8000,
    grpc_port: Annotated[int, typer.Option(help="KServe v2 over gRPC; 0 picks a free port.")] = 8001,
    metrics_port: Annotated[int, typer.Option(help="Prometheus metrics; 0 picks a free port.")] = 8002,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    mode: Annotated[str, typer.Option(help="auto, embedded, native (tritonserver on PATH) or docker.")] = "auto",
    start_timeout: Annotated[float, typer.Option(metavar="S", help="Give up when not ready by then.")] = 120.0,
    model_repository: Repository = DEFAULT_REPOSITORY,
    with_parent: Annotated[bool, typer.Option(hidden=True, help="End when the parent process ends.")] = False,
    json: Json = False,
) -> None:
    """Serve exported workloads and hand-written pipelines with Triton until Ctrl-C.

    Example: servemark serve ranking resnet50 --engine onnxruntime
    """
    import servers

    models = model_names(names, engine, model_repository)
    parent = os.getppid()
    signal.signal(signal.SIGTERM, _interrupt)
    server = servers.open_server(
        mode,
        model_repository,
        models,
        host=host,
        http_port=http_port,
        grpc_port=grpc_port,
        metrics_port=metrics_port,
        start_timeout_s=start_timeout,
    )
    try:
        with server:
            url = f"http://{server.http}"
            note(f"serving {', '.join(models)} at {url} (gRPC {server.grpc}, metrics {server.metrics}); Ctrl-C stops")
            note(f"log: {server.log}")
            if json:
                print(  # noqa: T201
                    to_json({"url": url, "grpc": server.grpc, "metrics": server.metrics, "models": models}),
                    end="",
                    flush=True,
                )
            while not with_parent or os.getppid() == parent:
                server.check()
                time.sleep(_CHECK_S)
    except KeyboardInterrupt:
        note("stopped")


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
