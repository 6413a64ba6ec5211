"""`servemark init`: a starter configuration and locustfile, to be edited."""

from pathlib import Path

import click

from servemark.documents.commands.prepare import Init
from servemark.documents.files import starter
from servemark.documents.load import ConstantRate
from servemark.documents.request import Objectives, RunRequest
from servemark.errors import OptionError
from servemark.frameworks import serves_here
from servemark.results.objectives import written as objectives
from servemark.workload import get

RUN_FILE, LOCUSTFILE = "run.yaml", "locustfile.py"
RATE, DURATION_S = "100", 20.0

_RUN_FILE_HEAD = """\
# The request of a run: servemark run --config {name}
# Command-line options override it. A line counts without its leading #.
"""
_LOCUSTFILE = '''\
"""Drives {workload}: `locust --headless --request-rate {rate} -H http://HOST:8000`, or `locust` for its web UI.

`python -m loadgen --help` shows all options. What the class may set: docs/guides/locust.md.
"""

from loadgen.users import InferenceUser
from servemark.workload import get


class User(InferenceUser):
    """A client of the server."""

    own = get("{workload}")
'''


def init(options: Init) -> None:
    """Write the files."""
    found = get(options.workload)
    slo = objectives((found.slo,)) if found.slo else ""
    load = ConstantRate(rate=float(RATE), duration_s=DURATION_S)
    request = RunRequest(workload=found.name, load=load, objectives=Objectives(slo=slo))
    files = {
        Path(RUN_FILE): _RUN_FILE_HEAD.format(name=RUN_FILE) + "".join(starter(request)),
        Path(LOCUSTFILE): _LOCUSTFILE.format(workload=found.name, rate=RATE),
    }
    if there := [str(path) for path in files if path.exists() and not options.force]:
        raise OptionError(f"{' and '.join(there)} would be replaced", fix="--force, or another working directory")
    for path, text in files.items():
        path.write_text(text)
        click.echo(f"wrote {path}")
    if serves_here():
        click.echo(f"next: servemark run --config {RUN_FILE}, or locust --serve")
    else:  # the generator alone
        click.echo(f"next: servemark run --config {RUN_FILE} --url http://SERVER:8000, or locust -H http://SERVER:8000")
