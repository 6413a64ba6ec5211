"""`servemark dashboards`: Prometheus and Grafana beside a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from servemark import interrupts
from servemark.cli._options import DEFAULT_ENGINE, DEFAULT_REPOSITORY, Json, Repository
from servemark.documents.live import MAX_PORT
from servemark.errors import OptionError
from servemark.monitoring.files import GENERATOR, TRITON
from servemark.output import note
from servemark.results.directory import print_json
from servemark.telemetry.scrape_targets import MONITORING

if TYPE_CHECKING:
    from servemark.monitoring.stack import Watching

_CHECK_S = 0.5
Scraped = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Metrics of the generator: a run's --metrics-port on this machine.")
]
TritonScraped = Annotated[str, typer.Option(metavar="HOST:PORT", help="Triton's own metrics.")]

app = typer.Typer(
    help="""Watch a run: Prometheus, and Grafana with dashboards and alert rules.

    Example: servemark dashboards up
    """,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command(short_help="Start Prometheus and Grafana until Ctrl-C.")
def up(
    entry: Annotated[
        str,
        typer.Argument(metavar="ENTRY", help="Entry of the model repository that Triton serves; in containers alone."),
    ] = f"ranking_{DEFAULT_ENGINE}",
    metrics: Scraped = GENERATOR,
    triton_metrics: TritonScraped = TRITON,
    prometheus_port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=MAX_PORT, help="Prometheus; 0 picks a free port.")
    ] = 9090,
    grafana_port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=MAX_PORT, help="Grafana, in containers; 0 picks a free port.")
    ] = 3000,
    data: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder of the files and of Prometheus's data."),
    ] = MONITORING,
    model_repository: Repository = DEFAULT_REPOSITORY,
    json: Json = False,
) -> None:
    """Start Triton, Prometheus and Grafana in containers (Docker or Podman, with compose), until Ctrl-C.

    Without a container engine: the prometheus on PATH, and how to show the dashboards in a Grafana of yours.

    Example: servemark dashboards up ranking_onnxruntime
    """
    from servemark.monitoring import stack
    from servemark.repository.names import checked_model

    folder = data.resolve()
    wanted = stack.Stack(
        folder,
        model_repository / checked_model(entry),
        metrics,
        triton_metrics,
        prometheus_port,
        grafana_port,
    )
    started = stack.start(wanted)
    try:
        _show(started, metrics, triton_metrics, folder, json=json)
        while True:
            started.process.check()
            interrupts.sleep(_CHECK_S)
    except KeyboardInterrupt:
        note("stopped")
    finally:
        with interrupts.finishing():
            started.process.stop()


def _show(started: "Watching", metrics: str, triton_metrics: str, folder: Path, *, json: bool) -> None:
    """Say where Prometheus and Grafana are, and what they read."""
    note(f"Prometheus is at {started.prometheus}, its data in {folder}; Ctrl-C stops it")
    note(f"it reads the metrics of a run at {metrics}: servemark run ... --metrics-port {metrics.rpartition(':')[2]}")
    also = ", and those that servemark starts meanwhile" if folder == MONITORING.resolve() else ""
    note(f"and Triton's at {triton_metrics}{also}")
    if started.grafana:
        note(f"Grafana is at {started.grafana}, with the dashboards")
    else:
        note("no container engine with compose answers, so Grafana is not started. Into a Grafana of yours:")
        note(f"  servemark dashboards load http://127.0.0.1:3000 --prometheus {started.prometheus}")
    if json:
        print_json({"prometheus": started.prometheus, "grafana": started.grafana, "folder": str(folder)})


@app.command(short_help="Write dashboards, rules and provisioning to a folder.")
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write to.")],
    metrics: Scraped = GENERATOR,
    triton_metrics: TritonScraped = TRITON,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files of another content.")] = False,
    json: Json = False,
) -> None:
    """Write Grafana's dashboards and provisioning, Prometheus's configuration and rules, and the compose file.

    Example: servemark dashboards export monitoring
    """
    from servemark.monitoring import files

    written = files.export(folder, generator=metrics, triton=triton_metrics, force=force)
    if json:
        print_json({"folder": str(folder), "files": [str(path.relative_to(folder)) for path in written]})
        return
    for path in written:
        typer.echo(path)


@app.command(short_help="Load the dashboards into a Grafana that runs.")
def load(
    grafana: Annotated[str, typer.Argument(metavar="GRAFANA", help="Its URL, like http://127.0.0.1:3000.")],
    prometheus: Annotated[
        str, typer.Option(metavar="URL", help="Prometheus, as Grafana reaches it.")
    ] = "http://127.0.0.1:9090",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A service account's token. Else ~/.netrc names user and password."),
    ] = None,
    json: Json = False,
) -> None:
    """Load the dashboards into a Grafana through its API, with Prometheus as their data source.

    Example: servemark dashboards load http://127.0.0.1:3000 --token-file token.txt
    """
    from servemark import files
    from servemark.monitoring.grafana import load_dashboards

    try:
        token = files.text(token_file, files.TEXT_BYTES).strip() if token_file else ""
    except OSError as error:
        raise OptionError(f"--token-file {token_file}: {error.strerror}", fix="name a file with the token") from error
    except files.NotTextError as error:
        raise OptionError(f"--token-file {token_file}: {error}", fix=error.fix) from error
    with interrupts.anywhere():
        pages = load_dashboards(grafana, prometheus, token)
    if json:
        print_json({"dashboards": pages})
        return
    for page in pages:
        typer.echo(page)
