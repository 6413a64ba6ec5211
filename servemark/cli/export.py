"""`servemark export`: workloads into the model repository."""

import itertools
from typing import TYPE_CHECKING, Annotated

import typer

from servemark.cli._command import one_command
from servemark.cli._options import DEFAULT_ENGINE, DEFAULT_REPOSITORY, Json, Repository, completed
from servemark.cli._own_models import takes_own_models
from servemark.errors import OptionError, ServemarkError
from servemark.output import note, stderr
from servemark.repository.entry import FULL
from servemark.results.directory import print_json
from servemark.views.wording import agreement_words
from servemark.workload import get, names
from servemark.workload.agreement import PRECISIONS

if TYPE_CHECKING:
    from exporters import ExportReport


def export(
    workloads: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORKLOAD", help="Workloads; `servemark list` shows them.", autocompletion=completed),
    ] = None,
    engine: Annotated[list[str] | None, typer.Option(help="Inference engine; may be given again.")] = None,
    precision: Annotated[
        list[str] | None, typer.Option(metavar="P", help=f"{', '.join(PRECISIONS)}; may be given again.")
    ] = None,
    all_workloads: Annotated[bool, typer.Option("--all", help="Export every workload.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Export again, and overwrite an edited config.pbtxt.")] = False,
    weights: Annotated[
        str,
        typer.Option(metavar="FILE", help="Weights (.safetensors, state_dict) from now on; `seeded`: random ones."),
    ] = "",
    model_repository: Repository = DEFAULT_REPOSITORY,
    json: Json = False,
) -> None:
    """Export workloads, check each against eager PyTorch, and write Triton repository entries.

    Example: servemark export ranking resnet50 --engine onnxruntime
    """
    if all_workloads and workloads:
        raise OptionError(f"--all and {workloads[0]!r} exclude each other", fix="leave out one of them")
    chosen = [get(name).name for name in (names() if all_workloads else workloads or [])]
    if not chosen:
        raise OptionError("no workload was named", fix="servemark export WORKLOAD..., or --all")
    # torch takes seconds to import; a typing mistake should not.
    import exporters
    from exporters.pipeline.isolated import Task, export_isolated

    engines, precisions = engine or [DEFAULT_ENGINE], precision or [FULL]
    # What an imported model can become depends on its file: its own export tells.
    if any(get(name).source is None for name in chosen):
        for name, each in itertools.product(engines, precisions):
            exporters.check_precision(name, each)
    if weights and len(chosen) > 1:
        raise OptionError(f"--weights {weights} are those of one workload", fix=f"name one, like {chosen[0]}")
    tasks = [Task(w, e, p, model_repository, force, weights) for w in chosen for e in engines for p in precisions]
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
    if json:
        print_json({"exports": reports})
    if failures:
        raise typer.Exit(int(failures[0].exit_code))


def _line(report: "ExportReport") -> str:
    """One line on what was made, and how well it agrees with eager PyTorch."""
    name, manifest = report.folder.name, report.manifest
    if report.up_to_date:
        return f"{name}: up to date"
    parity = f"{agreement_words(manifest['output_agreement'])} against {manifest['reference']}"
    own = f", weights {manifest['weights']['path']}" if manifest["weights"] else ""
    kept = "; your edited config.pbtxt was kept (--force overwrites it)" if report.config_kept else ""
    anew = f" (made anew: {report.outdated})" if report.outdated else ""
    return f"{name}: {parity}, {manifest['seconds']:.1f} s, peak {manifest['peak_rss_mib']:,} MiB{own}{kept}{anew}"


app = one_command(takes_own_models(export))
