"""`servemark baseline`: keep a result under a name, for `servemark compare --baseline`."""

import click

from servemark.compare.saved.saved_runs import baseline_names, keep_baseline
from servemark.documents.commands.compare import Baseline
from servemark.output import note
from servemark.paths import BASELINES, shown
from servemark.results.directory import print_json


def baseline(options: Baseline) -> None:
    """Keep a baseline, or list them."""
    name = options.name
    if name:
        kept = keep_baseline(name, options.result, replace=options.force)
        note(f"kept in {shown(kept)}; servemark compare RESULT --baseline {name} --fail-on regression")
    listed = {each: str(BASELINES / each) for each in ([name] if name else baseline_names())}
    if options.json:
        print_json({"baselines": listed})
    elif not name:
        click.echo("\n".join(listed) if listed else "there is no baseline yet: servemark baseline NAME RESULT")
