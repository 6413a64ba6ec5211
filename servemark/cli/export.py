"""`servemark export`: workloads into the model repository."""

from typing import TYPE_CHECKING, Annotated

import typer

from servemark.cli.options import DEFAULT_ENGINE, DEFAULT_REPOSITORY, Json, Repository
from servemark.errors import OptionError, ServemarkError
from servemark.models import get, names
from servemark.output import note, stderr
from servemark.results import to_json

if TYPE_CHECKING:
    from exporters import ExportReport


def export(
    workloads: Annotated[list[str] | None, typer.Argument(metavar="WORKLOAD...", help="Workloads.")] = None,
    engine: Annotated[list[str] | None, typer.Option(help="Inference engine; may be given again.")] = None,
    all_workloads: Annotated[bool, typer.Option("--all", help="Export every workload.")] = False,
    force: Annotated[bool, typer.Option(help="Export again, and overwrite an edited config.pbtxt.")] = False,
    model_repository: Repository = DEFAULT_REPOSITORY,
    json: Json = False,
) -> None:
    """Export workloads, check each against eager PyTorch, and write Triton repository entries.

    Example: servemark export ranking resnet50 --engine onnxruntime
    """
    chosen = names() if all_workloads else list(workloads or [])
    if not chosen:
        raise OptionError("no workload was named", fix="servemark export WORKLOAD..., or --all")
    found = [get(name) for name in chosen]
    # torch takes seconds to import; a typing mistake should not.
    import exporters

    engines = engine or [DEFAULT_ENGINE]
    unknown = [name for name in engines if name not in exporters.engines()]
    if unknown:
        known = ", ".join(exporters.engines())
        raise OptionError(f"unknown engine {unknown[0]!r}", fix=f"one of: {known}")
    reports, failures = [], []
    for workload in found:
        for name in engines:
            try:
                report = exporters.export(workload, name, model_repository, force=force)
            except ServemarkError as error:
                # One workload that fails must not cost the others.
                stderr.print(f"servemark: {workload.name} on {name}: {error}", markup=False, style="red")
                failures.append(error)
            else:
                note(_line(report))
                reports.append({**report.manifest, "folder": str(report.folder), "up_to_date": report.up_to_date})
    if json:
        print(to_json({"exports": reports}), end="")  # noqa: T201
    if failures:
        raise typer.Exit(int(failures[0].exit_code))


def _line(report: "ExportReport") -> str:
    """One line on what was made, and how well it agrees with eager PyTorch."""
    name, manifest = report.folder.name, report.manifest
    if report.up_to_date:
        return f"{name}: up to date"
    errors = [
        o["max_abs"] for outputs in manifest["parity"].values() for o in outputs.values() if o["max_abs"] is not None
    ]
    parity = f"max error {max(errors):.2g} against eager PyTorch" if errors else "equal to eager PyTorch"
    kept = "; your edited config.pbtxt was kept (--force overwrites it)" if report.config_kept else ""
    return f"{name}: {parity}, {manifest['seconds']:.1f} s, peak {manifest['peak_rss_mib']:,} MiB{kept}"
