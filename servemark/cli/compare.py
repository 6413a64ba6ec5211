"""`servemark compare`: engines side by side in interleaved rounds, or saved results against each other."""

from argparse import Namespace
from pathlib import Path
from typing import Annotated

import typer

from servemark.cli._command import one_command
from servemark.cli._load_flags import (
    requested,
    require_fixed_warmup,
    require_scoring,
    resolved,
    search_load,
    takes_load,
    takes_options,
)
from servemark.cli._options import DEFAULT_ENGINE, DEFAULT_PRECISION, Json, Precision
from servemark.cli._own_models import takes_own_models
from servemark.cli._report import write_page
from servemark.compare.interleaved import Request, compare_engines
from servemark.compare.interleaved.contenders import parse_urls
from servemark.compare.interleaved.validity import SHORTEST_S
from servemark.compare.saved.baselines import saved
from servemark.compare.saved.compare import compare_rounds, compare_saved, exit_code
from servemark.compare.saved.differences import Gate
from servemark.compare.saved.figures import ALL, chosen
from servemark.documents.commands import Comparison
from servemark.documents.fields import COMPARE
from servemark.documents.request import changed
from servemark.errors import ExitCode, OptionError
from servemark.output import note
from servemark.paths import resumed, shown
from servemark.quantities import text_of
from servemark.results.directory import print_json, write_atomically
from servemark.results.saved import Saved
from servemark.results.schema.comparison import ComparisonDocument
from servemark.views.render.markdown import to_markdown
from servemark.views.render.terminal import show

PAGE = "report.html"


@takes_options(Comparison)
@takes_load(COMPARE, duration="", warmup="1")
def compare(
    what: Annotated[
        list[str], typer.Argument(metavar="WORKLOAD | RESULT_A RESULT_B", help="A workload, or two saved results.")
    ],
    *,
    options: Comparison,
    precision: Precision = DEFAULT_PRECISION,
    load: Namespace,
    json: Json = False,
) -> None:
    """Compare engines or servers in interleaved rounds, or saved results with each other.

    Without --duration the rounds last as long as the slowest engine needs for a verdict, 8 to 120 s.

    Example: servemark compare resnet50 --engines onnxruntime,pytorch

    Example: servemark compare resnet50 --engines onnxruntime,openvino --rounds 20 --until-decided

    Example: servemark compare ranking --servers triton,mlserver,litserve --concurrency 8

    Example: servemark compare resnet50 --urls main=http://127.0.0.1:8000,pr=http://127.0.0.1:9000 --fail-on p99

    Example: servemark compare results/before results/after --fail-on regression

    Example: servemark compare results/latest --baseline main --fail-on regression
    """
    gate = Gate(options.fail_on or ALL, options.threshold / 100, options.allow_invalid)
    chosen(gate.figures)  # before the minutes that the rounds take
    if options.of_saved:
        raise typer.Exit(_saved(what, gate, options, json=json))
    comparison = compare_engines(_request(what, precision, options, load), _write_pages)
    found = compare_rounds(comparison, gate) if options.fail_on else None
    if found:
        comparison.add_gate(found)
    if json:
        print_json(comparison.document)
    else:
        show(comparison.document)
    page = comparison.folder / PAGE
    note(f"result: {shown(page if page.exists() else comparison.folder)}")
    raise typer.Exit(exit_code(found) if found else int(comparison.exit_code))


def _request(what: list[str], precision: str, options: Comparison, load: Namespace) -> Request:
    """Make the request of a comparison, and check it. Raises OptionError, InputDataError, ServerError."""
    choose_length = not (load.duration or load.stages or load.arrival_trace)
    load.duration = load.duration or text_of(SHORTEST_S)
    servers = parse_urls(options.urls) if options.urls else {}
    run = requested(load, model=what[0], precision=precision)
    options.require_fit(what, run)
    require_scoring(load, "--quality", given=load.quality)
    require_fixed_warmup(load)
    # The first one is asked what a model is that no workload is called like.
    config = resolved(changed(run, url=next(iter(servers.values()))) if servers else run)
    request = Request(
        options.engines or DEFAULT_ENGINE,
        config,
        search_load(load),
        rounds=options.rounds,
        until_decided=options.until_decided,
        servers=options.servers,
        sweep=options.sweep,
        urls=servers,
        server_runs=bool(load.url or servers),
        device=load.device,
        server_per_turn=options.server_per_turn,
        skip_unavailable=options.skip_unavailable,
        max_rate=options.max_rate,
        choose_length=choose_length,
        tune_budget_s=options.tune_budget_s if options.tuned else None,
        resume=resumed(options.resume),
    )
    contenders = request.contenders()
    if options.fail_on and len(contenders) != 2:
        raise OptionError(
            f"--fail-on with {len(contenders)} {contenders[0].kind}s", fix="name two, the first is the baseline"
        )
    return request


def _saved(what: list[str], gate: Gate, options: Comparison, *, json: bool) -> int:
    """Compare and show two saved sides; return the exit code, which is 0 unless --fail-on is given."""
    found = compare_saved([str(saved(options.baseline)), *what] if options.baseline else what, gate)
    if json:
        print_json(found)
    else:
        show(found)
    if options.markdown:
        page = Path(options.markdown)
        write_atomically(page, to_markdown([Saved(page.stem, dict(found))]))
    return exit_code(found) if options.fail_on else int(ExitCode.VALID)


def _write_pages(folder: Path, document: ComparisonDocument) -> None:
    """Write comparison.md and report.html."""
    saved = [Saved(folder.name, dict(document), folder)]
    write_atomically(folder / "comparison.md", to_markdown(saved))
    write_page(folder / PAGE, saved, quiet=True)


app = one_command(takes_own_models(compare))
