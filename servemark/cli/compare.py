"""`servemark compare`: engines side by side in interleaved rounds, or saved results against each other."""

from argparse import Namespace
from pathlib import Path
from typing import Annotated

import typer

from servemark.cli._command import one_command
from servemark.cli._load_flags import require_fixed_warmup, require_scoring, resolve, search_load, takes_load
from servemark.cli._options import DEFAULT_ENGINE, DEFAULT_PRECISION, Device, Json, Precision, count, quantity
from servemark.cli._own_models import takes_own_models
from servemark.cli._ranges import load_points
from servemark.cli._report import write_page
from servemark.compare.interleaved import Request, compare_engines
from servemark.compare.interleaved.contenders import parse_urls
from servemark.compare.interleaved.validity import SHORTEST_S
from servemark.compare.saved.compare import compare_rounds, compare_saved, exit_code
from servemark.compare.saved.differences import Gate
from servemark.compare.saved.figures import ALL, chosen
from servemark.documents.fields import COMPARE
from servemark.errors import ExitCode, OptionError
from servemark.output import note, stdout
from servemark.paths import shown
from servemark.quantities import PERCENT, SECONDS, text_of
from servemark.results.directory import print_json, write_atomically
from servemark.results.saved import Saved
from servemark.results.schema.comparison import ComparisonDocument
from servemark.search.tuning import BUDGET_S
from servemark.views.terminal.comparison import markdown as comparison_page
from servemark.views.terminal.comparison import render_comparison
from servemark.views.terminal.regression import markdown as answer_table
from servemark.views.terminal.regression import render_regression

PAIRS = 5
PAGE = "report.html"
OPEN = ("request_rate", "stages", "arrival_trace")
"""Loads whose requests come whether the server is ready or not."""


@takes_load(COMPARE, duration="", warmup="1")
def compare(
    what: Annotated[
        list[str], typer.Argument(metavar="WORKLOAD | RESULT_A RESULT_B", help="A workload, or two saved results.")
    ],
    engines: Annotated[
        str, typer.Option(metavar="A,B[,C]", help="Engines; ENGINE[@PRECISION][:KEY=VALUE]. A is the first.")
    ] = "",
    urls: Annotated[
        str,
        typer.Option(metavar="[NAME=]A,[NAME=]B", help="Servers of one engine that run already. A is the first."),
    ] = "",
    precision: Precision = DEFAULT_PRECISION,
    rounds: Annotated[int, count("--rounds", "Interleaved rounds.")] = PAIRS,
    device: Device = "",
    server_per_turn: Annotated[
        bool, typer.Option("--server-per-turn", help="A server of its own for each turn.")
    ] = False,
    skip_unavailable: Annotated[
        bool, typer.Option("--skip-unavailable", help="Leave out engines that cannot be used, and say so.")
    ] = False,
    max_rate: Annotated[
        bool, typer.Option("--max-rate", help="Search each engine's highest rate that meets --slo, after the rounds.")
    ] = False,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="Tune each engine for --slo first, as servemark tune does; writes none.")
    ] = False,
    tune_budget: Annotated[
        float,
        quantity(
            "--tune-budget",
            "S",
            "Seconds to tune each engine; a trial that is under way then is finished.",
            least=1,
            units=SECONDS,
        ),
    ] = BUDGET_S,
    *,
    load: Namespace,
    fail_on: Annotated[
        str,
        typer.Option(
            metavar="FIGURES",
            help="Exit 5 where B is worse, 2 where undecided: regression, or p99,throughput,errors,...",
        ),
    ] = "",
    threshold: Annotated[
        float, quantity("--threshold", "PERCENT", "Smaller differences are no regression.", least=0, units=PERCENT)
    ] = 5.0,
    allow_invalid: Annotated[
        bool, typer.Option("--allow-invalid", help="Judge runs too that are not fit to be compared.")
    ] = False,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Saved results: write the answer and the table as Markdown.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare engines or servers in interleaved rounds, or saved results with each other.

    Without --duration the rounds last as long as the slowest engine needs for a verdict, 8 to 120 s.

    Example: servemark compare resnet50 --engines onnxruntime,pytorch

    Example: servemark compare resnet50 --urls main=http://127.0.0.1:8000,pr=http://127.0.0.1:9000 --fail-on p99

    Example: servemark compare results/before results/after --fail-on regression
    """
    gate = Gate(fail_on or ALL, threshold / 100, allow_invalid)
    if not engines and not urls:
        raise typer.Exit(_saved(what, gate, fails=bool(fail_on), json=json, page=markdown))
    if len(what) != 1:
        flag = "--engines" if engines else "--urls"
        raise OptionError(f"{flag} with {len(what)} workloads", fix=f"one WORKLOAD with {flag}, or two results without")
    if urls and load.url:
        raise OptionError("--urls with --url", fix="name all servers with --urls")
    chosen(gate.figures)  # before the minutes that the rounds take
    if (max_rate or tuned) and not load.slo:
        flag = "--max-rate" if max_rate else "--tuned"
        raise OptionError(f"{flag} needs an objective", fix="give one, like --slo p99:50")
    if tuned and not max_rate and not any(getattr(load, name) for name in OPEN):
        raise OptionError(
            "--tuned with a closed loop: engines are tuned for requests that come by themselves, "
            "and a closed loop's wait for the answers before them",
            fix="add --max-rate, or an open load like --request-rate 100; or leave out --tuned",
        )
    load_points(load)  # what excludes each other
    require_scoring(load, "--quality", given=load.quality)
    require_fixed_warmup(load)
    choose_length = not (load.duration or load.stages or load.arrival_trace)
    load.duration = load.duration or text_of(SHORTEST_S)
    servers = parse_urls(urls) if urls else {}
    # The first one is asked what a model is that no workload is called like.
    asked = {"url": next(iter(servers.values()))} if servers else {}
    config = resolve(load, model=what[0], precision=precision, **asked)
    request = Request(
        engines or DEFAULT_ENGINE,
        config,
        search_load(load),
        rounds=rounds,
        urls=servers,
        server_runs=bool(load.url or urls),
        device=device,
        server_per_turn=server_per_turn,
        skip_unavailable=skip_unavailable,
        max_rate=max_rate,
        choose_length=choose_length,
        tune_budget_s=tune_budget if tuned else None,
    )
    if fail_on and len(request.contenders()) != 2:
        raise OptionError(
            f"--fail-on with {len(request.contenders())} engines", fix="name two, the first is the baseline"
        )
    comparison = compare_engines(request, _write_pages)
    found = compare_rounds(comparison, gate) if fail_on else None
    if found:
        comparison.add_gate(found)
    if json:
        print_json(comparison.document)
    else:
        render_comparison(comparison.document, stdout())
        if found:
            render_regression(found, stdout())
    page = comparison.folder / PAGE
    note(f"result: {shown(page if page.exists() else comparison.folder)}")
    raise typer.Exit(exit_code(found) if found else int(comparison.exit_code))


def _saved(what: list[str], gate: Gate, *, fails: bool, json: bool, page: Path | None) -> int:
    """Compare and show two saved sides; return the exit code, which is 0 unless it `fails`."""
    found = compare_saved(what, gate)
    if json:
        print_json(found)
    else:
        render_regression(found, stdout())
    if page:
        write_atomically(page, answer_table(found))
    return exit_code(found) if fails else int(ExitCode.VALID)


def _write_pages(folder: Path, document: ComparisonDocument) -> None:
    """Write comparison.md and report.html."""
    gate = document.get("gate")
    answer = f"{answer_table(gate)}\n" if gate else ""
    write_atomically(folder / "comparison.md", answer + comparison_page(document))
    write_page(folder / PAGE, [Saved(folder.name, dict(document), folder)], quiet=True)


app = one_command(takes_own_models(compare))
