"""`servemark kernels`: time the operations that models are made of, on the same device."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kernels.libraries import TORCH, libraries, version
from kernels.measurement.case import Case, Method, cases_in
from kernels.measurement.device import Device
from kernels.measurement.kernel import Kernel, families
from kernels.measurement.precisions import PRECISIONS
from kernels.running import run
from kernels.running.resume import resumed
from kernels.suites import cases_of, chosen, suites
from kernels.suites.deepbench import published
from kernels.tracing.workload import trace_apart
from kernels.views.terminal import render_kernels
from servemark.cli._command import one_command
from servemark.cli._options import Json, completed, count, quantity
from servemark.cli._own_models import takes_own_models
from servemark.cli._report import Report, write_report
from servemark.errors import ExitCode, OptionError
from servemark.output import note, stdout
from servemark.paths import RESULTS, found, shown
from servemark.quantities import SECONDS, one_of
from servemark.results import directory as results
from servemark.results.schema.kernels import KernelsDocument, Traced

DEFAULT_SUITE = "quick"
DEFAULT_PRECISIONS = ("fp32",)
CACHES = ("hot", "cold")


def kernels(
    family: Annotated[list[str] | None, typer.Argument(metavar="[FAMILY]...", help="Families; all by default.")] = None,
    suite: Annotated[
        str,
        typer.Option(
            metavar="SUITE",
            help="Table of sizes; --list shows them.",
            show_default=DEFAULT_SUITE,
            autocompletion=lambda incomplete: [name for name in suites() if name.startswith(incomplete)],
        ),
    ] = "",
    workload: Annotated[
        str,
        typer.Option(
            "--workload",
            metavar="WORKLOAD",
            help="Take the kernels that this workload executes.",
            autocompletion=completed,
        ),
    ] = "",
    batch_size: Annotated[int, count("--batch-size", "Samples of the inference of --workload.", "-b")] = 1,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="cpu or cuda:N.")] = "cpu",
    precision: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PRECISION", help="fp32, tf32, bf16, fp16, int8, fp8; may come again.", show_default="fp32"
        ),
    ] = None,
    library: Annotated[
        str, typer.Option(metavar="A[,B]", help="torch, onnxruntime, openvino, tensorflow: side by side.")
    ] = TORCH,
    cache: Annotated[str, typer.Option(metavar="hot|cold", help="Whether calls find their data in the cache.")] = "hot",
    case_limit: Annotated[
        float, quantity("--case-limit", "S", "Skip a case that would take longer.", least=1, units=SECONDS)
    ] = 60.0,
    with_published: Annotated[
        bool, typer.Option("--published", help="Show DeepBench's published figures of the same sizes beside.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results are made.")] = RESULTS,
    new_ceilings: Annotated[
        bool, typer.Option("--new-ceilings", help="Measure ceilings again that an earlier run has kept.")
    ] = False,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with a run that was cut short.", parser=found)
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Show suites and families, and measure nothing.")] = False,
    report: Report = False,
    json: Json = False,
) -> None:
    """Check and time kernels, and say which ceiling bounds each.

    The result is complete after each case: --resume goes on with a run that was ended. Ceilings are kept in
    `ceilings.json` beside the results, for the next run on this machine.

    Example: servemark kernels gemm convolution --suite quick

    Example: servemark kernels --workload resnet50 -b 8
    """
    if listing:
        _show_list()
        return
    if resume:
        folder, document = resume, resumed(resume)
        cases, method = _of_document(document)
    else:
        names = [one_of("--precision", name, PRECISIONS) for name in precision or DEFAULT_PRECISIONS]
        one_of("--cache", cache, CACHES)
        method = Method(Device.named(device), "cold" if cache == "cold" else "hot", case_limit)
        if workload:
            _require_alone(suite, names)
            name = f"{workload}, batch {batch_size}"
            cases, traced = _traced(workload, batch_size, family or (), method.device)
        else:
            name, traced = suite or DEFAULT_SUITE, None
            cases = cases_of(name, family or ())
        cases = cases_in(names, cases, _libraries(library))
        if with_published:
            cases = _with_published(cases)
            if not any(case.published for case in cases):
                note("--published: DeepBench has published no figure of these sizes; deepbench-train and -server have")
        document = run.begin(name, cases, method, traced, published=with_published)
        folder = results.new_directory(out, f"kernels-{workload or name}")
    note(f"{len(cases)} cases into {shown(folder)}; to go on after Ctrl-C: --resume {shown(folder)}")
    try:
        run.go_on(folder, document, cases, method, anew=new_ceilings)
    except KeyboardInterrupt:
        note(f"ended after {len(document['cases'])} of {len(cases)} cases, which servemark show {shown(folder)} shows")
        raise
    if json:
        results.print_json(document)
    else:
        render_kernels(document, stdout(kept=True))
    note(f"result: {shown(folder)}")
    if report:
        write_report(folder, quiet=json)
    failed = any(case["status"] == "failed" for case in document["cases"])
    raise typer.Exit(int(ExitCode.INVALID if failed else ExitCode.VALID))


def _libraries(text: str) -> list[str]:
    """Read `--library`. Raises OptionError on one that is unknown, or not installed."""
    names = [one_of("--library", name.strip(), libraries()) for name in text.split(",")]
    for name in names:
        if version(name) is None:
            raise OptionError(f"{name} is not installed", fix=f"pip install 'servemark[{name}]'")
    return list(dict.fromkeys(names))


def _require_alone(suite: str, precisions: list[str]) -> None:
    """Raise OptionError where --workload stands with what contradicts it."""
    if suite:
        raise OptionError(f"--workload with --suite {suite}", fix="leave one of them out")
    if precisions != list(DEFAULT_PRECISIONS):
        raise OptionError(
            f"--workload with --precision {' '.join(precisions)}: models compute in fp32 here", fix="fp32"
        )


def _traced(workload: str, batch: int, families: Sequence[str], device: Device) -> tuple[list[Case], Traced]:
    """Trace a workload: its kernels, and the parts of its latency. Raises OptionError, ServerError."""
    note(f"tracing {workload} at batch {batch}")
    found = trace_apart(workload, batch, device)
    return chosen(workload, found.cases, families), found.traced


def _with_published(cases: list[Case]) -> list[Case]:
    known = published()
    return [replace(case, published=tuple(known.get(case.kernel, ()))) for case in cases]


def _of_document(document: KernelsDocument) -> tuple[list[Case], Method]:
    """Return the cases of a run that was cut short. Raises OptionError on another machine, or another suite."""
    known, families = document["traced"], document["families"]
    if known:
        cases, _ = _traced(known["workload"], known["batch_size"], families, Device.named(document["device"]))
    else:
        cases = cases_of(document["suite"], families)
    cases = cases_in(document["precisions"], cases, document["libraries"])
    if document["published"]:
        cases = _with_published(cases)
    done = [(case["family"], case["label"], case["precision"], case["library"]) for case in document["cases"]]
    planned = [(case.family, case.kernel.label(), case.precision, case.library) for case in cases]
    method = Method(Device.named(document["device"]), document["cache"], document["case_limit_s"])
    here = run.begin(document["suite"], cases, method)
    differing = [
        f"{words} was {was}, is {now}"
        for words, was, now in (
            ("the CPU", document["environment"]["cpu"], here["environment"]["cpu"]),
            ("the number of threads", document["threads"], here["threads"]),
            ("the library", document["library"], here["library"]),
            ("the number of cases", document["planned"], here["planned"]),
        )
        if was != now
    ]
    if planned[: len(done)] != done:
        differing.append("the cases are others")
    if differing:
        raise OptionError(f"the run cannot go on: {'; '.join(differing)}", fix="start a new one, without --resume")
    return cases, method


def _show_list() -> None:
    console = stdout()
    for name, suite in suites().items():
        cases = suite()
        console.print(f"{name}: {len(cases)} cases of {', '.join(dict.fromkeys(case.family for case in cases))}")
    console.print()
    for name, made in families().items():
        also = "" if made.node is Kernel.node else "; also in other libraries"
        console.print(f"{name}: {made.CALL}; {', '.join(made.PRECISIONS)}; FLOPs: {made.OPERATIONS}{also}")


app = one_command(takes_own_models(kernels))
