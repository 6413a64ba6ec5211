"""`servemark dashboards`: Prometheus and Grafana beside a run."""

from typing import TYPE_CHECKING

import click

from servemark import interrupts
from servemark.documents.commands.show import DashboardsExport, DashboardsLoad, DashboardsUp
from servemark.errors import OptionError
from servemark.output import note
from servemark.paths import MONITORING
from servemark.results.directory import print_json

if TYPE_CHECKING:
    from servemark.monitoring.stack import Watching

_CHECK_S = 0.5


def up(options: DashboardsUp) -> None:
    """Start what watches runs, until Ctrl-C."""
    from servemark.monitoring import stack

    started = stack.start(options)
    try:
        _show(started, options)
        while True:
            started.process.check()
            interrupts.sleep(_CHECK_S)
    except KeyboardInterrupt:
        note("stopped")
    finally:
        with interrupts.finishing():
            started.process.stop()


def _show(started: "Watching", options: DashboardsUp) -> None:
    """Say where Prometheus and Grafana are, and what they read."""
    folder, metrics = options.data.resolve(), options.metrics
    note(f"Prometheus is at {started.prometheus}, its data in {folder}; Ctrl-C stops it")
    note(f"it reads the metrics of a run at {metrics}: servemark run ... --metrics-port {metrics.rpartition(':')[2]}")
    also = ", and those that servemark starts meanwhile" if folder == MONITORING.resolve() else ""
    note(f"and Triton's at {options.triton_metrics}{also}")
    if started.grafana:
        note(f"Grafana is at {started.grafana}, with the dashboards")
    else:
        note("no container engine with compose answers, so Grafana is not started. Into a Grafana of yours:")
        note(f"  servemark dashboards load http://127.0.0.1:3000 --prometheus {started.prometheus}")
    if options.json:
        print_json({"prometheus": started.prometheus, "grafana": started.grafana, "folder": str(folder)})


def export(options: DashboardsExport) -> None:
    """Write the files."""
    from servemark.monitoring import stack

    written = stack.export(
        options.folder, generator=options.metrics, triton=options.triton_metrics, force=options.force
    )
    if options.json:
        folder = options.folder
        print_json({"folder": str(folder), "files": [str(path.relative_to(folder)) for path in written]})
        return
    for path in written:
        click.echo(path)


def load(options: DashboardsLoad) -> None:
    """Load the dashboards."""
    from servemark import files
    from servemark.monitoring.stack import load_dashboards

    token_file = options.token_file
    try:
        token = files.text(token_file, files.TEXT_BYTES).strip() if token_file else ""
    except OSError as error:
        raise OptionError(f"--token-file {token_file}: {error.strerror}", fix="name a file with the token") from error
    except files.NotTextError as error:
        raise OptionError(f"--token-file {token_file}: {error}", fix=error.fix) from error
    with interrupts.anywhere():
        pages = load_dashboards(options.grafana, options.prometheus, token)
    if options.json:
        print_json({"dashboards": pages})
        return
    for page in pages:
        click.echo(page)
