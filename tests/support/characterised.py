"""A suite of six workloads in two families with known figures, made up: one of each tells all of the others."""

from dataclasses import replace
from typing import Any

import msgspec

from servemark.characterise.run import begin
from servemark.documents.commands.understand import Characterise
from servemark.profiling.document import engine_profile, failed
from servemark.profiling.timeline import Event, Inference
from servemark.results.saved import Saved
from servemark.results.schema.suite import Characterisation, OnEngine, Start
from tests.support.profiled import measured

CONVOLUTIONS, PRODUCTS = ("facenet", "resnet50", "face3d"), ("ncf", "ranking", "wgan")
NAMES = CONVOLUTIONS + PRODUCTS
ENGINES = "onnxruntime,openvino"
RATIOS = {"Conv": 0.5, "MatMul": 2.0}
"""Time of a sample on the second engine to that on the first, by family."""


def options(**changes: object) -> Characterise:
    """The options of a small suite."""
    found = Characterise(suite="own", engines=ENGINES, only=NAMES, size=2, seeds=2, no_ceilings=True)
    return msgspec.structs.replace(found, **changes)


def on(engine: str, operator: str, ms: float) -> OnEngine:
    """A workload that is one operator and a Relu; a batch of 8 takes as long for each sample as one alone."""
    events = [
        Event("main", operator, 0.0, ms * 900, flops=round(ms * 1e9), bytes=round(ms * 1e6)),
        Event("end", "Relu", ms * 900, ms * 90, flops=0, bytes=round(ms * 1e5)),
    ]
    profile = engine_profile(engine, replace(measured(), inference=Inference(ms / 1e3, events)), None)
    return {
        "engine": engine,
        "profile": {**profile, "layers": [], "memory": []},
        "batches": [{"batch_size": size, "ms": ms * size, "rounds": 5} for size in (1, 8)],
        "other_cpu_share": 0.3,
        "spent_s": 4.0,
    }


def start(ms: float) -> Start:
    """A run on a fresh server."""
    energy = {"joules_per_inference": None, "joules_per_inference_reason": "no meter"}
    return {"p50_ms": ms, "p99_ms": 2 * ms, "inferences_per_s": 1e3 / ms, "spent_s": 8.0, "failure": None, **energy}  # type: ignore[typeddict-item]


def begun() -> Characterisation:
    """All measured, nothing analysed; the last workload failed on the second engine."""
    document = begin("aibench", options())
    for number, row in enumerate(sorted(document["rows"], key=lambda row: NAMES.index(row["workload"]))):
        operator = "Conv" if row["workload"] in CONVOLUTIONS else "MatMul"
        ms = (10.0 if operator == "Conv" else 0.1) * (1 + number / 10)
        row["engines"] = [on("onnxruntime", operator, ms), on("openvino", operator, ms * RATIOS[operator])]
        row["starts"] = [start(ms * (1 + turn / 100)) for turn in range(4)]
    document["rows"][-1]["engines"][1] |= {"profile": failed("openvino", "it is not there"), "batches": []}
    return document


def document() -> Characterisation:
    """The whole document."""
    from servemark.characterise.analysis import analyse

    found = begun()
    found["analysis"], found["prediction"] = analyse(found)
    found["partial"] = False
    return found


def side_by_side() -> Saved:
    """Two suites in one report, the second of them with the convolutions alone."""
    whole: dict[str, Any] = dict(document())
    some = whole | {"suite": "today", "rows": [row for row in whole["rows"] if row["workload"] in CONVOLUTIONS]}
    return Saved("suites", {"kind": "suites"}, None, (Saved("a", whole), Saved("b", some)))
