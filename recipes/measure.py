"""Score the trained weights on each engine, through Triton: `python -m recipes.measure [WORKLOAD ...]`.

Exports each workload with its recipe's weights for every engine and for fp32, fp16 and int8 where the engine has them,
scores the whole test set through the server, and writes docs/results/quality.txt.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from exporters import engines, export, precisions
from loadgen.load.load_config import LoadConfig
from recipes.training import WEIGHTS
from servemark.documents.live import Live
from servemark.documents.load import ClosedLoop
from servemark.documents.request import Inputs, RunRequest, changed
from servemark.documents.server import Server
from servemark.errors import ServemarkError
from servemark.output import note
from servemark.paths import CHECKOUT
from servemark.results.schema.details import QualityScore
from servemark.results.schema.run import QualityResult
from servemark.runs.quality import run_quality
from servemark.views.blocks import Table
from servemark.views.render.markdown import pipes
from servemark.views.shape import made
from servemark.views.wording import score as number
from servemark.workload import get

WORKLOADS = ("ncf_ml100k", "spatial_transformer")
PRECISIONS = ("fp32", "fp16", "int8")
REPOSITORY = CHECKOUT / "results" / "recipes" / "model_repo"
"""Apart from the usual one, which keeps its own weights."""
PAGE = CHECKOUT / "docs" / "results" / "quality.txt"
BATCH = 64
HEAD = ["engine", "precision", "right", "value", "95 % interval", "target", "of fp32's", "wrong"]
TRAINED_AGAIN = """## Trained again

Recipes are seeded and use one thread. On AMD EPYC processors with torch 2.15.0 they were run several times:

| recipe | run | epoch | validation | test, fp32 |
|---|---|---|---|---|
| ncf_ml100k | 2026-11-22 | 13 of 20 | 0.6880 | 0.6543 |
| ncf_ml100k | 2026-11-23, the one above | 13 of 20 | 0.6880 | 0.6469 |
| spatial_transformer | the committed weights | 10 of 12 | 0.9942 | 0.9931 |
| spatial_transformer | 2026-11-23 | 10 of 12 | 0.9940 | 0.9942 |
| spatial_transformer | 2026-11-23 | 9 of 12 | 0.9946 | 0.9922 |

So no training is reproducible bit by bit. Each met its target."""


def measure(workload: str) -> Iterator[QualityResult]:
    """Score each engine and precision; what an engine cannot do is said and left out."""
    weights = WEIGHTS / f"{workload}.safetensors"
    for engine in engines():
        for precision in (each for each in PRECISIONS if each in precisions(engine)):
            try:
                export(get(workload), engine, REPOSITORY, precision=precision, weights=str(weights))
                request = RunRequest(
                    workload=workload,
                    engine=engine,
                    server=Server(model_repository=str(REPOSITORY)),
                    load=ClosedLoop(concurrency=2, warmup=0),
                    inputs=Inputs(batch_size=BATCH, input_data="dataset"),
                    live=Live(out=str(REPOSITORY.parent)),
                )
                config = LoadConfig.of(changed(request, precision=precision))
                yield run_quality(config)[1]
            except ServemarkError as error:
                note(f"{workload} on {engine} in {precision} is left out: {error}")


def section(workload: str, results: list[QualityResult]) -> str:
    """A workload's table."""
    scores = [(result, found) for result in results if (found := result["quality"])]
    if not scores:
        return f"## {workload}\n\nnothing was scored"
    first = scores[0][1]
    whole = {result["engine"]: _value(found) for result, found in scores if result["precision"] == PRECISIONS[0]}
    rows = [_row(result, found, whole.get(result["engine"])) for result, found in scores]
    data = first["data"]
    return "\n\n".join(
        [
            f"## {workload}",
            f"{first['metric']}: {first['protocol']}. {data['scored']:,} of {data['size']:,} examples of "
            f"{data['source']}, sha256 {data['sha256'][:12]}. {_provenance(workload)}",
            pipes(Table(HEAD, rows)),
        ]
    )


def _row(result: QualityResult, found: QualityScore, full: float | None) -> list[str]:
    figure = found["figures"][0]
    low, high = figure["ci95"] or (None, None)
    share = _value(found) / full if full else None
    bound = "" if share is None else next((f", keeps {b:g} %" for b in (99.9, 99) if share >= b / 100), ", below 99 %")
    kept = "-" if share is None or result["precision"] == PRECISIONS[0] else f"{share:.2%}{bound}"
    target = "-" if found["target"] is None else f"{found['target']:g}: {found['outcome']}"
    return [
        str(result["engine"]),
        result["precision"],
        _right(found),
        number(figure["value"]),
        f"{number(low)} to {number(high)}",
        target,
        kept,
        str(found["wrong"]),
    ]


def _right(found: QualityScore) -> str:
    """The examples that scored 1, where each scored 0 or 1: what the interval is computed from."""
    figure, scored = found["figures"][0], found["data"]["scored"]
    return f"{round(_value(found) * scored):,}" if figure["ci95_method"] == "wilson" else "-"


def _value(found: QualityScore) -> float:
    return found["figures"][0]["value"] or 0.0


def _provenance(workload: str) -> str:
    """Return the origin of the weights, as their file names it."""
    from safetensors import safe_open

    with safe_open(WEIGHTS / f"{workload}.safetensors", "np") as file:
        said = file.metadata()
    return f"Weights: `{said['recipe']}`, {said['data']}. Validation: {said['validation']}; torch {said['torch']}."


def page(sections: list[str], first: QualityResult) -> str:
    """The whole page."""
    return "\n\n".join(
        [
            "# Quality of trained weights",
            "`python -m recipes.all && python -m recipes.measure` trains, exports and serves with Triton. It scores "
            "the whole test set over HTTP in batches of 64, and writes this page.",
            "The test set chose no weights and no epoch. NeuMF's recipe was changed twice, after its versions had "
            "scored 0.6225 and 0.6341 on it. `of fp32's` is the share that is kept of the same engine's fp32. MLPerf "
            "asks for 99 % or 99.9 %.",
            made(first),
            *sections,
            TRAINED_AGAIN,
        ]
    )


def main() -> None:
    """Measure the workloads that are named, or all, and write the page."""
    named = sys.argv[1:] or WORKLOADS
    found = {workload: list(measure(workload)) for workload in named}
    results = [result for each in found.values() for result in each]
    text = page([section(workload, each) for workload, each in found.items()], results[0])
    Path(PAGE).write_text(f"{text}\n")
    print(f"{PAGE.relative_to(CHECKOUT)}: {len(results)} results")


if __name__ == "__main__":
    main()
