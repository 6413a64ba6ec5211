"""`servemark init`: a starter configuration and locustfile, to be edited."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from servemark.cli._command import one_command
from servemark.cli._options import WorkloadName
from servemark.cli._run_file import is_switch, parameters, scalar, written
from servemark.errors import OptionError
from servemark.results.objectives import written as objectives
from servemark.workload import Workload, get

RUN_FILE, LOCUSTFILE = "run.yaml", "locustfile.py"
RATE, DURATION_S = "100", "15"

_RUN_FILE_HEAD = """\
# Options of a run: servemark run --config {name}
# Those of the command line come before these. A line without its # counts.
"""
_LOCUSTFILE = '''\
"""Drives {workload}: `locust --headless --request-rate {rate} -H http://HOST:8000`, or `locust` for its web UI.

Options besides Locust's own are those of a load: `servemark run --help` shows them.
"""

from loadgen.users import InferenceUser
from servemark.workload import get


class User(InferenceUser):
    """A client of the server."""

    own = get("{workload}")
'''


def init(
    context: typer.Context,
    workload: WorkloadName,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Write run.yaml and locustfile.py, a start for a workload, into the working directory.

    Example: servemark init ranking && servemark run --config run.yaml
    """
    assert context.parent is not None
    run = cast(Any, context.parent.command).commands["run"]
    found = get(workload)
    files = {
        Path(RUN_FILE): "".join(_run_file(found, parameters(run))),
        Path(LOCUSTFILE): _LOCUSTFILE.format(workload=found.name, rate=RATE),
    }
    if there := [str(path) for path in files if path.exists() and not force]:
        raise OptionError(f"{' and '.join(there)} would be replaced", fix="--force, or another working directory")
    for path, text in files.items():
        path.write_text(text)
        typer.echo(f"wrote {path}")
    typer.echo(f"next: servemark run --config {RUN_FILE}, or locust --serve")


def _run_file(workload: Workload, known: dict[str, Any]) -> Iterator[str]:
    """Lines for what a first run needs, then every other option with its default and its help."""
    given = {
        "workload": workload.name,
        "request-rate": RATE,
        **({"slo": objectives((workload.slo,))} if workload.slo else {}),
        "duration": DURATION_S,
    }
    yield _RUN_FILE_HEAD.format(name=RUN_FILE)
    yield written(given)
    for name, parameter in known.items():
        if name not in given:
            yield f"\n# {parameter.help}\n# {name}: {_shown(parameter)}\n"


def _shown(parameter: Any) -> str:
    """An option's default, or what its value looks like."""
    if is_switch(parameter):
        return "true"
    text = str(parameter.default or "")
    return scalar(text) if text else str(parameter.metavar or "")


app = one_command(init)
