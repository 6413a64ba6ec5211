"""`servemark serve`: Triton on the model repository, until Ctrl-C."""

import os
from typing import TYPE_CHECKING

from servemark import interrupts
from servemark.documents.commands.prepare import Serve
from servemark.errors import OptionError
from servemark.machine.addresses import is_loopback
from servemark.output import note
from servemark.repository.model_config import Settings
from servemark.results.directory import print_json
from servemark.runs.server import find_models, repository_with
from servemark.telemetry.metrics.publisher import http_url

if TYPE_CHECKING:
    from servers import Server

_CHECK_S = 0.5
EXPOSED = (
    "the embedded Triton 2.51 has known holes, and everybody who reaches this address may use them; "
    "--mode docker serves a newer one"
)


def serve(options: Serve) -> None:
    """Serve what is named."""
    import servers

    names, model_repository = list(options.names), options.model_repository
    by_hand, found = find_models(names, options.engine, model_repository, options.precision)
    settings = Settings.of(options)
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
                options.mode,
                repository,
                models,
                host=options.host,
                http_port=options.http_port,
                grpc_port=options.grpc_port,
                metrics_port=options.metrics_port,
                start_timeout_s=options.start_timeout_s,
                otlp=http_url("--otlp", options.otlp),
            ) as server,
        ):
            _show(server, models, options.host, json=options.json)
            while not options.with_parent or os.getppid() == parent:
                server.check()
                interrupts.sleep(_CHECK_S)
    except KeyboardInterrupt:
        note("stopped")


def _show(server: "Server", models: list[str], host: str, *, json: bool) -> None:
    """Say where a server answers."""
    url = f"http://{server.http}"
    note(f"serving {', '.join(models)} at {url} (gRPC {server.grpc}, metrics {server.metrics}); Ctrl-C stops")
    note(f"log: {server.log}")
    if server.mode == "embedded" and not is_loopback(host):
        note(f"warning: {EXPOSED}")
    if json:
        print_json({"url": url, "grpc": server.grpc, "metrics": server.metrics, "models": models})
