"""The document of a profile, `result.json` of `servemark profile`."""

from typing import Annotated, Literal, NotRequired, TypedDict

from servemark.results.schema.header import KIND, CampaignHeader
from servemark.results.schema.kernels import Ceiling

Limit = Literal["compute", "cache", "memory"]


class Rates(TypedDict):
    """Work of operators in the time that they took. Null where an operator's shapes are not told."""

    ms: Annotated[float, "Time in the profiled inference (ms): by the wall clock, on a GPU of its kernels."]
    share: Annotated[float, "The same as a share of the inference."]
    flops: Annotated[
        int | None, "Operations: multiply-adds times 2 in convolutions, products, recurrent gates; else 0."
    ]
    bytes: Annotated[int | None, "Bytes that have to be moved: each tensor once."]
    intensity: Annotated[float | None, "Operations for each byte."]
    compute_share: Annotated[float | None, "Share of the highest rate of operations."]
    bandwidth_share: Annotated[float | None, "Share of the highest bandwidth of as many bytes as one call moves."]
    bound: Annotated[Limit | None, "Which of these ceilings allows less."]


class ProfiledOperator(Rates):
    """All calls of one operator."""

    operator: Annotated[str, "Name in the engine."]
    category: Annotated[str, "Category of AIBench; `other` is the ninth."]
    calls: Annotated[int, "Calls in one inference."]


class ProfiledLayer(ProfiledOperator):
    """One layer: all calls of one node of the engine's graph, several in a loop."""

    name: Annotated[str, "Name in the engine's graph."]
    looped: Annotated[bool, "Whether it runs in the rounds of a loop."]
    module: Annotated[str | None, "Module that it belongs to, like `layer1.0`. Null: the file does not tell."]


class ProfiledShare(TypedDict):
    """A category of operators, or a phase of the inference."""

    name: Annotated[str, "Its name."]
    calls: Annotated[int, "Calls of operators."]
    ms: Annotated[float, "Wall-clock time (ms)."]
    share: Annotated[float, "The same as a share of the inference."]


class ProfilerCost(TypedDict):
    """Times of inferences with and without the profiler, which took turns."""

    rounds: Annotated[int, "Inferences of each."]
    plain_ms: Annotated[float, "Median without it (ms)."]
    profiled_ms: Annotated[float, "Median with it (ms)."]
    ratio: Annotated[float, "Median over the rounds of with to without."]
    ci95: Annotated[list[float] | None, "95 % interval of that median. Null: fewer than 6 rounds."]


class Counters(TypedDict):
    """Hardware counters during inferences without the profiler."""

    ipc: Annotated[float | None, "Instructions for each cycle of the process, outside the kernel."]
    top_down: Annotated[
        dict[str, float] | None, "Intel's top-down method: retiring, bad speculation, frontend, backend."
    ]
    gpu: Annotated[dict[str, float] | None, "Nsight Compute's counters by name."]


class MemoryPart(TypedDict):
    """A part of the memory of a process."""

    part: Annotated[str, "Its name."]
    mib: Annotated[float, "Growth of the resident memory (MiB); negative where it was given back."]


class ProfiledMemory(TypedDict):
    """Memory of a process of its own that has loaded the engine and answered one batch."""

    batch_size: Annotated[int, "Samples in the request."]
    start_mib: Annotated[float, "Resident before the engine was imported (MiB): Python, servemark, the request."]
    imported_mib: Annotated[float, "After it was imported."]
    loaded_mib: Annotated[float, "After the model was loaded."]
    answered_mib: Annotated[float, "After the inferences."]
    peak_mib: Annotated[float, "Highest of all, loading included (MiB)."]
    artifact_mib: Annotated[float, "Size of the model's file."]
    parts: Annotated[list[MemoryPart], "Parts of the growth from `start_mib` to `answered_mib`: they add up to it."]


class MemoryLeftOut(TypedDict):
    """A batch size at which the memory could not be measured."""

    batch_size: Annotated[int, "Samples in the request."]
    reason: Annotated[str, "Why it could not be measured."]


class EngineProfile(TypedDict):
    """One engine. What could not be measured is null, and `reason` says why."""

    engine: Annotated[str, "Name of the engine."]
    provider: Annotated[str | None, "What of it ran."]
    profiler: Annotated[str | None, "The profiler that was asked."]
    latency_ms: Annotated[float | None, "Wall-clock time of the inference that is shown: the median one (ms)."]
    cost: Annotated[ProfilerCost | None, "Cost of the profiler."]
    told_share: Annotated[
        float | None, "Share of the inference that operators account for: on a GPU, in which it was busy."
    ]
    between_ms: Annotated[
        float | None, "Time between operators (ms): the engine itself, Python, the profiler. A GPU waits for them."
    ]
    flops: Annotated[int | None, "Operations of all operators. Null: those of some are not told."]
    unknown_operators: Annotated[list[str], "Operators that no category knows, which are counted as `other`."]
    categories: Annotated[list[ProfiledShare], "Time by category, all nine."]
    phases: Annotated[list[ProfiledShare], "Time by phase, in order. Empty: the engine does not tell any."]
    phases_missing: Annotated[str | None, "Why there are no phases."]
    operators: Annotated[list[ProfiledOperator], "Operators, the longest first."]
    layers: Annotated[list[ProfiledLayer], "Layers in the order in which they ran."]
    counters: Annotated[Counters | None, "Hardware counters."]
    memory: Annotated[list[ProfiledMemory], "Memory at each batch size."]
    memory_left_out: NotRequired[Annotated[list[MemoryLeftOut], "Batch sizes at which it could not be measured."]]


class Profile(CampaignHeader):
    """One warm inference of a workload, by operator and layer, on each engine."""

    kind: Annotated[Literal["profile"], KIND]
    workload: Annotated[str, "Name of the workload."]
    precision: Annotated[str, "Precision that was asked for."]
    device: Annotated[str, "Device that ran: cpu or cuda:N."]
    batch_size: Annotated[int, "Samples in the request."]
    flops_expected: Annotated[int | None, "The zoo's operations of this many mean requests. Null: not known."]
    ceiling: Annotated[Ceiling | None, "Ceilings of the device. Null: not asked for, or not to be measured."]
    ceiling_left_out: Annotated[list[str], "Parts of them that were not measured, each with its reason."]
    other_cpu_share: Annotated[float | None, "Share of the cores that other work took meanwhile."]
    engines: Annotated[list[EngineProfile], "The engines."]
