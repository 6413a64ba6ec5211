"""The analysis of a suite's features: clusters, places in a plane, and the few that stand for all, tested."""

from collections.abc import Sequence

import numpy as np

from servemark.characterise import statistics
from servemark.characterise.prediction import predict
from servemark.results.schema.characterisation import (
    Analysis,
    Characterisation,
    CharacterisedWorkload,
    OnEngine,
    Prediction,
)
from servemark.results.schema.header import reason_of
from servemark.stats.unknown import or_unknown, unknown

PARAMETERS, WORK, MOVED = "parameters (millions)", "GFLOP", "MB moved"
INTENSITY, LATENCY, SPEED = "FLOP/byte", "latency (ms)", "GFLOP/s"


def first_engine(row: CharacterisedWorkload) -> OnEngine | None:
    """Return a workload on the first engine, if it ran there."""
    return next((each for each in row["engines"][:1] if failure_of(each) is None), None)


def failure_of(on: OnEngine) -> str | None:
    """Return the reason why an engine did not run a workload; None if it did."""
    return reason_of(on["profile"], "latency_ms")


def work_of(on: OnEngine) -> tuple[int, int]:
    """Operations and bytes of the operators whose shapes the profiler tells."""
    told = [each for each in on["profile"]["operators"] if each["flops"] is not None and each["bytes"] is not None]
    return sum(each["flops"] or 0 for each in told), sum(each["bytes"] or 0 for each in told)


def sizes(row: CharacterisedWorkload) -> dict[str, float | None]:
    """Features of a workload that are sizes: of the network, and of one sample on the first engine."""
    on = first_engine(row)
    counted, moved = work_of(on) if on else (0, 0)
    ms = on["batches"][0]["ms"] if on else None
    flops = row["flops"] or counted
    return {
        PARAMETERS: row["parameters"] / 1e6 if row["parameters"] else None,
        WORK: flops / 1e9,
        MOVED: moved / 1e6,
        INTENSITY: flops / moved if flops and moved else None,
        LATENCY: ms,
        SPEED: flops / ms / 1e6 if flops and ms else None,
    }


def analyse(document: Characterisation) -> tuple[Analysis | None, Prediction | None]:
    """Return the analysis of a document's rows and its prediction, or unknown ones."""
    rows = [row for row in document["rows"] if first_engine(row)]
    least = max(statistics.FEWEST, document["size"] + 1)
    if len(rows) < least:
        few = f"{len(rows)} workloads ran on the first engine, {least} are needed"
        return unknown(few), unknown(few)
    found = [sizes(row) for row in rows]
    kept, left_out = _known(rows, found)
    left_out += [f"{row['workload']}: it did not run" for row in document["rows"] if row not in rows]
    shares = [[c["share"] for c in each["profile"]["categories"]] for row in rows if (each := first_engine(row))]
    points = statistics.comparable(np.array([[each[name] for name in kept] for each in found], float), np.array(shares))
    apart = statistics.distances(points)
    chosen = statistics.medoids(apart, document["size"])
    analysis = _analysis(document, [row["workload"] for row in rows], points, chosen)
    analysis |= {"features": [*kept, "time by category"], "left_out": left_out}
    few_ratios = "no ratio outside the chosen workloads is known: name a second engine or batch size"
    return analysis, or_unknown(predict(rows, apart, chosen), few_ratios)


def _known(
    rows: Sequence[CharacterisedWorkload], found: Sequence[dict[str, float | None]]
) -> tuple[list[str], list[str]]:
    """Features that are known of all workloads and not zero, and why the others are not among them."""
    lacking = {
        name: [row["workload"] for row, each in zip(rows, found, strict=True) if not each[name]] for name in found[0]
    }
    left_out = [f"{name}: not known of {', '.join(names)}" for name, names in lacking.items() if names]
    return [name for name, names in lacking.items() if not names], left_out


def _analysis(
    document: Characterisation, names: Sequence[str], points: statistics.Floats, chosen: Sequence[int]
) -> Analysis:
    parts = statistics.clusters(points, document["size"])
    planes = [statistics.tsne(points, seed) for seed in range(document["seeds"])]
    places, share = statistics.principal(points)
    stands_in = statistics.nearest(statistics.distances(points), chosen)
    return {
        "features": [],
        "left_out": [],
        "placed": [
            {
                "workload": name,
                "cluster": int(parts[number]),
                "stands_in": names[stands_in[number]],
                "pca": places[number].tolist(),
                "tsne": planes[0][number].tolist(),
            }
            for number, name in enumerate(names)
        ],
        "chosen": [names[number] for number in chosen],
        "pca_share": share,
        "silhouettes": statistics.silhouettes(points),
        "seeds": document["seeds"],
        "tsne_agreement": [
            statistics.agreement(parts, statistics.clusters(plane, document["size"])) for plane in planes
        ],
    }
