"""A profile: where the time of one inference goes on each engine, and the memory of its process."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from servemark.machine.cpu_time import QUIET_SHARE
from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.header import figure_of, reason_of
from servemark.results.schema.profile import EngineProfile, Profile, ProfiledMemory, Rates
from servemark.views.blocks import Article, Block, Check, Figure, Lines, Section, Table
from servemark.views.charts import Branch, icicle, stacked
from servemark.views.drawing import Key, Plot, colour_of, linear
from servemark.views.shape import shaped
from servemark.views.wording import percent

COLOURS = {
    "convolution": 0,
    "gemm": 1,
    "data arrangement": 2,
    "element-wise": 3,
    "relu": 4,
    "pooling": 5,
    "memory copy": 6,
    "batch norm": 8,
    "other": 7,
}
"""Of the categories."""
BETWEEN = "between operators"
_UNKNOWN = COLOURS["other"]
_TOP, _LAYERS, _PHASES = 8, 10, 8
_RATES = ("ms", "share", "GFLOP", "MB", "FLOP/byte", "of peak FLOP/s", "of bandwidth", "bound by")


def article(saved: Saved) -> Article:
    """The largest category on the fastest engine, then all engines side by side, then each."""
    document = saved.of(Profile)
    done = [each for each in document["engines"] if each["latency_ms"] is not None]
    failed = [f"{each['engine']}: {reason_of(each, 'latency_ms')}" for each in document["engines"] if each not in done]
    return shaped(
        document,
        about=f"{document['workload']}, batch {document['batch_size']}, {document['device']}, {document['precision']}"
        "  |  profile of one warm inference",
        answer=_answer(done),
        sections=[
            Section("Engines", [_engines(done), Lines([*_costs(done), *failed])], titled=True),
            Section("Share of the inference by category (%)", [_categories(done)], titled=True),
            *[section for each in done for section in _sections(each)],
            Section("Memory (MiB)", [_memory(done), _parts(done)], titled=True),
            Section("Memory by batch", lambda: _curves(done)),
            Section("What to know", [Lines([*_notes(document)])], titled=True),
        ],
        failed=failed,
    )


def _answer(done: Sequence[EngineProfile]) -> str:
    if not done:
        return "nothing was profiled"
    best = min(done, key=lambda each: each["cost"]["plain_ms"] if each["cost"] else float("inf"))
    largest = max(best["categories"], key=lambda each: each["share"])
    latency = best["cost"]["plain_ms"] if best["cost"] else None
    start = f"{figure(latency)} ms on {best['engine']}"
    if not best["operators"]:
        return f"{start}: no operator took a measurable time"
    first = best["operators"][0]
    peak = f" at {first['compute_share']:.0%} of the peak FLOP/s" if first["compute_share"] else ""
    return f"{start}: {largest['share']:.0%} in {largest['name']}, {first['share']:.0%} in {first['operator']}{peak}"


def _engines(done: Sequence[EngineProfile]) -> Table:
    head = ["engine", "inference (ms)", "profiled (ms)", "operators tell", f"{BETWEEN} (ms)", "GFLOP", "IPC"]
    rows = [
        [
            each["engine"],
            figure(each["cost"] and each["cost"]["plain_ms"]),
            figure(each["latency_ms"]),
            percent(each["told_share"]),
            figure(each["between_ms"]),
            _scaled(each["flops"], 1e9),
            figure(each["counters"] and each["counters"]["ipc"]),
        ]
        for each in done
    ]
    return Table.known(head, rows, head[:5])


def _costs(done: Sequence[EngineProfile]) -> Iterator[str]:
    for each in done:
        if cost := each["cost"]:
            ends = f" ({cost['ci95'][0]:.2f} to {cost['ci95'][1]:.2f})" if cost["ci95"] else ""
            yield (
                f"{each['engine']}: {each['profiler']} makes an inference {cost['ratio']:.2f} times as long{ends}, "
                f"over {cost['rounds']} rounds in turns"
            )


def _categories(done: Sequence[EngineProfile]) -> Table:
    shares = [{found["name"]: found["share"] for found in each["categories"]} for each in done]
    rows = [[name, *(f"{found[name] * 100:.1f}" for found in shares)] for name in (shares[0] if shares else ())]
    between = [f"{(each['between_ms'] or 0) / (each['latency_ms'] or 1) * 100:.1f}" for each in done]
    return Table(["category", *(each["engine"] for each in done)], [*rows, [BETWEEN, *between]])


def _sections(each: EngineProfile) -> Iterator[Section]:
    name = each["engine"]
    operators = [[o["operator"], o["category"], str(o["calls"]), *_rates(o)] for o in each["operators"]]
    slowest = sorted(each["layers"], key=lambda layer: -layer["ms"])
    layers = [[o["name"], o["module"] or "-", o["operator"], str(o["calls"]), *_rates(o)] for o in slowest]
    phases = [[p["name"], str(p["calls"]), figure(p["ms"]), percent(p["share"])] for p in each["phases"]]
    yield Section(f"{name}: icicle", lambda: [_icicle(each)])
    yield Section(
        f"{name}: operators", [Table(["operator", "category", "calls", *_RATES], operators, most=_TOP)], titled=True
    )
    head = ["layer", "module", "operator", "calls", *_RATES]
    if layers:
        slow = Table(head, layers[:_LAYERS], most=3)
        rest = [Table(head, layers, f"all {len(layers)} layers", folded=True, most=0)] if len(layers) > _LAYERS else []
        yield Section(f"{name}: slowest layers", [slow], titled=True)
        yield Section(f"{name}: layers", lambda: rest)
    if len(phases) > 1:
        folded = len(phases) > _PHASES
        table = Table(["phase", "calls", "ms", "share"], phases, f"{len(phases)} phases", folded=folded, most=_PHASES)
        yield Section(f"{name}: phases", [table], titled=True)


def _rates(of: Rates) -> list[str]:
    return [
        figure(of["ms"]),
        percent(of["share"]),
        _scaled(of["flops"], 1e9),
        _scaled(of["bytes"], 1e6),
        figure(of["intensity"]),
        percent(of["compute_share"]),
        percent(of["bandwidth_share"]),
        of["bound"] or "-",
    ]


def _scaled(value: float | None, unit: float) -> str:
    return figure(None if value is None else value / unit)


def by_category(
    title: str,
    of: str,
    shares: Mapping[str, Mapping[str, float]],
    cell: Callable[[float], str],
    *,
    tabled: bool = False,
) -> Figure:
    """Draw a bar of each one's time by category; `of` is what has a bar, and `cell` a share in the table."""
    names = list(dict.fromkeys(name for found in shares.values() for name in found))
    drawn = [
        (one, [(name, share, COLOURS.get(name)) for name, share in found.items()]) for one, found in shares.items()
    ]
    keys = [Key(name, colour_of(COLOURS[name]), "dot") for name in names if name in COLOURS]
    table = Table(
        [of, *names], [[one, *(cell(found.get(name, 0.0)) for name in names)] for one, found in shares.items()]
    )
    return Figure(title, stacked(title, drawn), table, keys, f"Grey: {BETWEEN}.", tabled=tabled)


def _icicle(each: EngineProfile) -> Figure:
    root = Branch(f"{each['engine']}, one inference")
    for layer in each["layers"]:
        names = layer["module"].split(".") if layer["module"] else []
        path = [".".join(names[: count + 1]) for count in range(len(names))]
        work = f", {figure(layer['flops'] / 1e9)} GFLOP" if layer["flops"] else ""
        said = f"; {layer['operator']}, {layer['calls']} calls{work}"
        leaf = Branch(layer["name"], layer["ms"], COLOURS.get(layer["category"], _UNKNOWN), said)
        root.grow(["steps of the loop", *path] if layer["looped"] else path, leaf)
    root.grow([], Branch(BETWEEN, each["between_ms"] or 0.0))
    used = [c["name"] for c in each["categories"] if c["share"] > 0.001]
    keys = [Key(name, colour_of(COLOURS.get(name, _UNKNOWN)), "dot") for name in used]
    rows = [[c["name"], figure(c["ms"]), percent(c["share"])] for c in each["categories"]]
    title = f"One inference on {each['engine']}: modules, and layers below them"
    svg = icicle(title, root)
    note = "As wide as its time. Below the modules stand their layers, coloured by category."
    return Figure(title, svg, Table(["category", "ms", "share"], rows), keys, note, wide=True)


def _every(done: Sequence[EngineProfile]) -> list[tuple[str, ProfiledMemory]]:
    return [(each["engine"], memory) for each in done for memory in each["memory"]]


def _memory(done: Sequence[EngineProfile]) -> Table:
    keys = ("start_mib", "imported_mib", "loaded_mib", "answered_mib", "peak_mib")
    rows = [
        [name, str(m["batch_size"]), *(f"{figure_of(m, key) or 0:,.0f}" for key in keys)] for name, m in _every(done)
    ]
    return Table(["engine", "batch", "before import", "before load", "after load", "after inferences", "peak"], rows)


def _parts(done: Sequence[EngineProfile]) -> Table:
    found = _every(done)
    names = [part["part"] for part in found[0][1]["parts"]] if found else []
    rows = [
        [
            name,
            str(m["batch_size"]),
            *(f"{part['mib']:,.0f}" for part in m["parts"]),
            f"{m['answered_mib'] - m['start_mib']:,.0f}",
        ]
        for name, m in found
    ]
    return Table(["engine", "batch", *names, "growth"], rows)


def _curves(done: Sequence[EngineProfile]) -> list[Block]:
    every = [m for _, m in _every(done)]
    if len({m["batch_size"] for m in every}) < 2:
        return []
    x = linear("batch size", [m["batch_size"] for m in every])
    plot = Plot("Resident memory after inferences by batch size", x, linear("MiB", [m["answered_mib"] for m in every]))
    for number, each in enumerate(done):
        points = [(float(m["batch_size"]), m["answered_mib"]) for m in each["memory"]]
        plot.line(points, each["engine"], number)
        plot.dots([(at, mib, f"{each['engine']}, batch {at:g}: {mib:,.0f} MiB") for at, mib in points], "", number)
    return [Figure.of(plot, "Resident memory after inferences", _memory(done))]


def _notes(document: Profile) -> Iterator[str]:
    if (ceiling := document["ceiling"]) is not None:
        memory = ceiling["bandwidths"][-1]
        source = "kept by an earlier run" if ceiling.get("reused") else "measured in this run"
        busy = ceiling.get("other_cpu_share") or 0.0
        beside = f"; too low, other work took {busy:.0%} of the cores meanwhile" if busy > QUIET_SHARE else ""
        yield (
            f"ceilings, {source}: {figure(ceiling['tflops'] * 1e3)} GFLOP/s ({ceiling['tflops_of']}), "
            f"{figure(memory['gbps'])} GB/s of memory, more where the bytes of a call fit a cache{beside}"
        )
    elif reason := reason_of(document, "ceiling"):
        yield f"no shares of ceilings: {reason}"
    yield from document["ceiling_left_out"]
    if (expected := document["flops_expected"]) is not None:
        yield f"the zoo counts {figure(expected / 1e9)} GFLOP for {document['batch_size']} mean requests"
    for each in document["engines"]:
        if document["device"] != "cpu":
            yield from _busy(document["device"], each)
        if each["phases_missing"]:
            yield f"{each['engine']}: {each['phases_missing']}"
        if unknown := each["unknown_operators"]:
            yield f"{each['engine']}: counted as other, because no category knows them: {', '.join(unknown)}"
        for left in each.get("memory_left_out", []):
            yield f"{each['engine']}: no memory at batch {left['batch_size']}: {left['reason']}"
    if done := [each["counters"] for each in document["engines"] if each["counters"]]:
        for key, words in (("ipc", "IPC"), ("top_down", "top-down"), ("gpu", "GPU counters")):
            if reason := reason_of(done[0], key):
                yield f"no {words}: {reason}"
    if (share := document["other_cpu_share"]) is not None and share > QUIET_SHARE:
        yield f"other work took {share:.0%} of the cores: times are upper bounds"


def _busy(device: str, each: EngineProfile) -> Iterator[str]:
    """The time for which a GPU computes, which no profiler lengthens, as shares of inferences with one and without."""
    if each["latency_ms"] is None or each["told_share"] is None or each["cost"] is None:
        return
    ms, plain_ms = each["told_share"] * each["latency_ms"], each["cost"]["plain_ms"]
    yield (
        f"{each['engine']}: times are those of kernels on {device}, which was busy for {figure(ms)} ms: "
        f"{percent(each['told_share'])} of the profiled inference, {percent(ms / plain_ms)} of one without profiler; "
        "it waited for the CPU in the rest"
    )


def records(saved: Saved) -> list[dict[str, Any]]:
    """A row for each operator of each engine."""
    keys = ("operator", "category", "calls", "ms", "share", "flops", "bytes", "compute_share", "bandwidth_share")
    document = saved.of(Profile)
    about = {key: saved.document[key] for key in ("workload", "batch_size", "precision", "device")}
    return [
        {**about, "engine": each["engine"], **{key: operator.get(key) for key in keys}}
        for each in document["engines"]
        for operator in each["operators"]
    ]


def checks(saved: Saved) -> list[Check]:
    """Each engine was profiled."""
    document = saved.of(Profile)
    return [
        Check(
            "profiled",
            each["latency_ms"] is not None,
            note=str(reason_of(each, "latency_ms") or ""),
            subject=f"{document['workload']}.{each['engine']}",
        )
        for each in document["engines"]
    ]
