"""The document of kernels, `result.json` of `servemark kernels`: its types, and the labels that views share."""

from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Literal, NotRequired, TypedDict

from servemark.results.schema.header import KIND, CampaignHeader

Bound = Literal["compute", "cache", "memory", "latency"]
Cache = Literal["hot", "cold"]
Status = Literal["measured", "skipped", "failed"]
ProbeKey = Literal["product_ms", "copy_ms"]


class KernelTimes(TypedDict):
    """Times of one call (ms)."""

    median: Annotated[float, "Median of the samples (ms)."]
    iqr: Annotated[float, "Between the quartiles (ms)."]
    p5: Annotated[float | None, "5th percentile (ms). Null: too few samples."]
    p95: Annotated[float | None, "95th percentile (ms). Null: too few samples."]
    min: Annotated[float, "Shortest sample (ms)."]
    samples: Annotated[int, "Samples. Each is the mean of a block of calls."]
    calls_per_sample: Annotated[int, "Calls in a block."]


class Published(TypedDict):
    """A figure that DeepBench has published for the same sizes."""

    hardware: Annotated[str, "What it was measured on."]
    precision: Annotated[str, "What that computed in, in its authors' words."]
    ms: Annotated[float, "Mean time (ms)."]
    rate: Annotated[float, "Its rate, by its own rule."]
    unit: Annotated[str, "TFLOP/s, or GB/s of an all-reduce."]
    file: Annotated[str, "Spreadsheet in its repository."]
    note: Annotated[str, "What is known of it."]


class Probe(TypedDict):
    """Speed of the machine itself just before a case was timed, because the CPU time from its host changes."""

    product_ms: Annotated[float, "A product of 512 x 512 in fp32 (ms)."]
    copy_ms: Annotated[float, "A copy that no cache holds (ms)."]


class KernelCase(TypedDict):
    """One kernel of one size in one precision. What was not measured is null, and `reason` says why."""

    family: Annotated[str, "Family of kernels."]
    label: Annotated[str, "The sizes in words."]
    sizes: Annotated[dict[str, int | float | str | bool | list[int]], "The sizes by name."]
    precision: Annotated[str, "What it computes in."]
    library: Annotated[str, "Whose it is: torch, onnxruntime, openvino or tensorflow."]
    source: Annotated[str, "Where the sizes are from."]
    count: Annotated[int, "How often one inference of the workload calls it. 1 in a suite."]
    status: Annotated[Status, "`failed`: it raised an error, or its answer is not what float64 says."]
    flops: Annotated[int, "Operations of one call, by the family's rule."]
    bytes: Annotated[int, "Bytes that one call has to move."]
    intensity: Annotated[float, "Operations for each byte."]
    algorithm: Annotated[str, "Which function of the library was timed."]
    error: Annotated[float | None, "Largest distance from float64, as a share of the largest expected value."]
    tolerance: Annotated[float, "How large it may be."]
    ms: Annotated[KernelTimes | None, "Times of one call."]
    tflops: Annotated[float | None, "Operations in the median time (10^12/s)."]
    gbps: Annotated[float | None, "Bytes in the median time (10^9/s)."]
    compute_share: Annotated[float | None, "Share of the highest rate of operations."]
    bandwidth_share: Annotated[float | None, "Share of the highest bandwidth that a copy of as many bytes reaches."]
    bound: Annotated[
        Bound | None, "Which ceiling allows least: operations, bytes of the cache or of the memory, or the call itself."
    ]
    bound_share: Annotated[float | None, "The time that this ceiling allows, as a share of the median time."]
    joules: Annotated[float | None, "Energy of one call (J). Null: no meter, or it does not tell."]
    clock_mhz: Annotated[float | None, "Clock amid the calls (MHz): mean of all CPUs, or the GPU's multiprocessors."]
    throttled: Annotated[list[str] | None, "Why NVML holds the clock back; empty: it does not. Null: unknown."]
    other_cpu_share: NotRequired[
        Annotated[float | None, "Share of the cores that other work and other virtual machines took meanwhile."]
    ]
    probe: NotRequired[Annotated[Probe | None, "How fast the machine itself was just before."]]
    reason: NotRequired[Annotated[str | None, "Why it was not measured."]]
    published: Annotated[list[Published], "DeepBench's figures, where `--published` asks for them."]
    figures: Annotated[dict[str, float], "Further figures of the family, unit in the name."]


class Bandwidth(TypedDict):
    """The highest bandwidth of a working set."""

    mib: Annotated[float, "Bytes that each call touches, which it finds where they fit (MiB)."]
    gbps: Annotated[float, "Bytes read and written, of the fastest sample of copy, triad and sum (10^9/s)."]
    of: Annotated[str, "Which it was. Of a larger set, where that was faster."]


class Ceiling(TypedDict):
    """The highest rates of a precision, measured in this run, or in an earlier one on the same machine."""

    precision: Annotated[str, "What they compute in."]
    tflops: Annotated[float, "The fastest sample of large products and, on a CPU, a convolution (10^12/s)."]
    tflops_of: Annotated[str, "Its sizes."]
    bandwidths: Annotated[
        list[Bandwidth], "By working set: from the smallest to where they settle, and the largest that was measured."
    ]
    call_us: Annotated[float, "A call that computes almost nothing (us)."]
    vendor_tflops: Annotated[float | None, "What a GPU's data sheet promises (10^12/s). Null: not known here."]
    vendor_gbps: Annotated[float | None, "What it promises of the memory (10^9/s). Null: not known here."]
    measured: NotRequired[Annotated[str, "When the oldest part of it was measured: UTC, ISO 8601."]]
    reused: NotRequired[Annotated[bool, "Whether an earlier run measured it, or a part of it."]]
    other_cpu_share: NotRequired[
        Annotated[float | None, "Most that other work took of the cores during a part of it. Null: not known."]
    ]


class Unmapped(TypedDict):
    """An operator that no family has."""

    operator: Annotated[str, "PyTorch's or ONNX's name, and what about the call no family has."]
    count: Annotated[int, "Calls in one inference."]
    ms: Annotated[float | None, "Its share of the latency by the profiler (ms). Null: on a GPU."]


class Traced(TypedDict):
    """A workload whose kernels were taken. Parts of the latency are null where the profiler does not tell them."""

    workload: Annotated[str, "Its name."]
    batch_size: Annotated[int, "Samples of the inference that was traced."]
    calls: Annotated[int, "Calls of operators in one inference, without views."]
    kernels: Annotated[int, "Kernels that these calls stand for."]
    engine: NotRequired[Annotated[str, "What ran it: `ONNX Runtime` an imported ONNX file; else eager PyTorch."]]
    latency_ms: Annotated[float, "Median of one inference there, in the same process (ms)."]
    kernels_ms: Annotated[float | None, "Sum of the kernels' medians times their counts (ms). Null: some are missing."]
    mapped_ms: Annotated[float | None, "What the same operators take within the inference (ms)."]
    unmapped_ms: Annotated[float | None, "What operators take that no family has (ms)."]
    between_ms: Annotated[float | None, "The rest of the latency: Python, dispatch, gaps (ms)."]
    unmapped: Annotated[list[Unmapped], "Operators that no family has, the longest first."]


class KernelsDocument(CampaignHeader):
    """Kernels on one device."""

    kind: Annotated[Literal["kernels"], KIND]
    suite: Annotated[str, "Table of sizes, or the workload that was traced."]
    traced: Annotated[Traced | None, "The workload of `--workload`."]
    families: Annotated[list[str], "Families of which cases were taken."]
    device: Annotated[str, "Where they ran."]
    precisions: Annotated[list[str], "What they computed in."]
    cache: Annotated[Cache, "Whether a call found its data in the last-level cache, as far as they fit."]
    threads: Annotated[int, "Threads of a CPU's kernels."]
    busy_share: Annotated[float, "Share of all cores that other work used before the first case."]
    cache_mib: Annotated[float | None, "Last-level cache that the system reports (MiB). Null: it reports none."]
    held_mib: NotRequired[
        Annotated[
            float | None, "Cache that these cores were seen to hold, by the bandwidths (MiB). Null: not measured."
        ]
    ]
    case_limit_s: Annotated[float, "Longest time for a case (s)."]
    library: Annotated[str, "Libraries that computed, with their versions."]
    libraries: Annotated[list[str], "Their names. Each case was measured with each."]
    published: Annotated[bool, "Whether DeepBench's published figures stand beside."]
    ceilings: Annotated[list[Ceiling], "The highest rates of this device, by precision."]
    ceilings_left_out: NotRequired[Annotated[list[str], "What of the ceilings was not measured, each with its reason."]]
    cases: Annotated[list[KernelCase], "Every case so far, in the suite's order."]
    planned: Annotated[int, "How many cases the suite has."]


def title(document: KernelsDocument) -> str:
    """Return the suite and its circumstances: "quick on cpu, AMD EPYC, 2 threads; torch 2.15.0; cache hot"."""
    where = f"{document['suite']} on {document['device']}, {_processor(document)}"
    return f"{where}; {document['library']}; cache {document['cache']}"


def _processor(document: KernelsDocument) -> str:
    around, (kind, _, number) = document["environment"], document["device"].partition(":")
    if kind == "cpu":
        return f"{around['cpu']}, {document['threads']} threads"
    return next((gpu["name"] for gpu in around["gpus"] if gpu.get("index") == int(number or 0)), "a GPU")


def named(case: KernelCase) -> str:
    """Name a case: "gemm m=4 n=3 k=5 fp32". The library is left out where it is PyTorch."""
    label = f"{case['family']} {case['label']} {case['precision']}"
    return label if case["library"] == "torch" else f"{label} {case['library']}"


def other_cpu_shares(cases: Sequence[KernelCase]) -> list[float]:
    """Return the share of the cores that other work took during each case, of those where it is known."""
    return [share for case in cases if (share := case.get("other_cpu_share")) is not None]


def other_work(document: KernelsDocument) -> float:
    """Return the share of the cores that other work used: before the first case, or on average, the larger one."""
    return max(document["busy_share"], fmean(other_cpu_shares(document["cases"]) or [0.0]))
