"""`servemark export`: workloads into the model repository."""

import itertools
from typing import TYPE_CHECKING

from servemark.documents.commands.prepare import Export
from servemark.documents.request import DEFAULT_ENGINE
from servemark.errors import ExitCode, OptionError, ServemarkError
from servemark.output import note, stderr
from servemark.repository.entry import FULL
from servemark.results.directory import print_json
from servemark.views.wording import agreement_words
from servemark.workload import get, names

if TYPE_CHECKING:
    from exporters import ExportReport


def export(options: Export) -> int:
    """Export the workloads; the exit code."""
    workloads, weights = options.workloads, options.weights
    if options.all_workloads and workloads:
        raise OptionError(f"--all and {workloads[0]!r} exclude each other", fix="leave out one of them")
    chosen = [get(name).name for name in (names() if options.all_workloads else workloads)]
    if not chosen:
        raise OptionError("no workload was named", fix="servemark export WORKLOAD..., or --all")
    # torch takes seconds to import; a typing mistake should not.
    import exporters
    from exporters.pipeline.export import Task, export_isolated

    engines, precisions = options.engine or [DEFAULT_ENGINE], options.precision or [FULL]
    # What an imported model can become depends on its file: its own export tells.
    if any(get(name).source is None for name in chosen):
        for name, each in itertools.product(engines, precisions):
            exporters.check_precision(name, each)
    if weights and len(chosen) > 1:
        raise OptionError(f"--weights {weights} are those of one workload", fix=f"name one, like {chosen[0]}")
    tasks = [
        Task(w, e, p, options.model_repository, options.force, weights)
        for w in chosen
        for e in engines
        for p in precisions
    ]
    reports, failures = [], []
    for task in tasks:
        try:
            report = export_isolated(task) if len(tasks) > 1 else task.export()
        except ServemarkError as error:
            # One workload that fails must not cost the others.
            place = f"{task.workload} on {task.engine}" + ("" if task.precision == FULL else f" {task.precision}")
            stderr.print(f"servemark: {place}: {error}", style="red")
            failures.append(error)
        else:
            note(_line(report))
            reports.append({**report.manifest, "folder": str(report.folder), "up_to_date": report.up_to_date})
    if options.json:
        print_json({"exports": reports})
    return int(failures[0].exit_code) if failures else int(ExitCode.VALID)


def _line(report: "ExportReport") -> str:
    """One line on what was made, and how well it agrees with eager PyTorch."""
    name, manifest = report.folder.name, report.manifest
    if report.up_to_date:
        return f"{name}: up to date"
    parity = f"not compared with {manifest['reference']}, because {manifest['unchecked']}"
    if agreement := manifest["output_agreement"]:
        parity = f"{agreement_words(agreement)} against {manifest['reference']}"
    own = f", weights {manifest['weights']['path']}" if manifest["weights"] else ""
    kept = "; your edited config.pbtxt was kept (--force overwrites it)" if report.config_kept else ""
    anew = f" (made anew: {report.outdated})" if report.outdated else ""
    return f"{name}: {parity}, {manifest['seconds']:.1f} s, peak {manifest['peak_rss_mib']:,} MiB{own}{kept}{anew}"
