"""Events of one inference as a profiler saw them, and the wall-clock time that each operator accounts for.

Operators lie within others (a loop and its body) or beside others (threads). Each moment is given to the innermost one
of each thread, in equal parts where several threads run one, so that all parts add up to the inference.

A trace of torch.profiler has the operators on the CPU, and the kernels that each of them launched on a GPU. CUPTI,
which it asks about the GPU, sees the kernels of every library in the process. A kernel and the call that launched it
share a correlation id. Times are microseconds since the first event of the trace.
"""

import bisect
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from servemark.errors import ServerError

_LAUNCHES = {"cuda_runtime", "cuda_driver"}
_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}


@dataclass(frozen=True)
class Event:
    """One execution of an operator.

    `start_us` counts from the beginning of the inference; `flops` and `bytes` are None where they cannot be told.
    """

    name: str
    """The layer's name in the graph."""
    operator: str
    start_us: float
    duration_us: float
    module: str = ""
    """The module that the layer belongs to, like `layer1.0`; empty: not told."""
    thread: int = 0
    step: int | None = None
    """The round of a loop that it belongs to, from 1. None: not in a loop."""
    flops: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class Inference:
    """One inference: its wall-clock time, and what ran. `placed`: the profiler says when, not only for how long."""

    seconds: float
    events: Sequence[Event]
    placed: bool = True


def wall_us(inference: Inference) -> list[float]:
    """Return the time of each event (us) that no other one within it accounts for, shared with what runs beside it."""
    events = inference.events
    if not inference.placed:
        return [event.duration_us for event in events]
    found = [0.0] * len(events)
    long = [(number, event) for number, event in enumerate(events) if event.duration_us > 0]
    edges = [(event.start_us, 1, number) for number, event in long]
    edges += [(event.start_us + event.duration_us, 0, number) for number, event in long]
    stacks: dict[int, list[int]] = defaultdict(list)
    before = 0.0
    # of several that begin at once the longest is the outermost
    for at, begins, number in sorted(edges, key=lambda e: (e[0], e[1], -events[e[2]].duration_us if e[1] else 0)):
        running = [stack[-1] for stack in stacks.values() if stack]
        for each in running:
            found[each] += (at - before) / len(running)
        before = at
        stack = stacks[events[number].thread]
        if begins:
            stack.append(number)
        elif number in stack:
            stack.remove(number)
    return found


def with_steps(events: Sequence[Event]) -> list[Event]:
    """Number the rounds of loops: a node that runs again belongs to a loop, whose first node begins each round.

    Rounds of a loop within a loop belong to the outer one's; loops after each other are numbered on.
    """
    counts = Counter(event.name for event in events)
    order = sorted(range(len(events)), key=lambda number: events[number].start_us)
    last = {events[number].name: events[number].start_us for number in order}
    found, anchor, seen, round_, numbered = list(events), "", set[str](), 0, 0
    for number in order:
        event = events[number]
        if counts[event.name] == 1:
            continue
        if not anchor or (event.start_us > last[anchor] and event.name not in seen):
            anchor, seen, numbered = event.name, {event.name}, round_
        if event.name == anchor:
            round_ += 1
        seen.add(event.name)
        found[number] = replace(event, step=max(round_, numbered + 1))
    return found


def phases(events: Sequence[Event]) -> list[str]:
    """Name the phase of each event: a round of a loop, else the outermost module, else before or after the loops."""
    first_us = min((event.start_us for event in events if event.step), default=None)

    def phase(event: Event) -> str:
        top = event.module.partition(".")[0]
        if first_us is None:
            return top or "no module"
        if event.step:
            return f"step {event.step}"
        side = "before the steps" if event.start_us < first_us else "after the steps"
        return f"{side}: {top}" if top else side

    return [phase(event) for event in events]


class Part(NamedTuple):
    """An event, its own time, and the phase that it belongs to."""

    event: Event
    us: float
    phase: str


def parts_of(inference: Inference) -> list[Part]:
    """List the parts of an inference in the order in which they began; their times are those of `wall_us`."""
    parts = map(Part, inference.events, wall_us(inference), phases(inference.events))
    return sorted(parts, key=lambda part: part.event.start_us)


class Span(NamedTuple):
    """An operator: when it began, and how long it took."""

    name: str
    start_us: float
    us: float


class Kernel(NamedTuple):
    """A kernel, or a copy, on the device. `launched_us` is None where nobody saw its launch."""

    name: str
    start_us: float
    us: float
    launched_us: float | None


@dataclass(frozen=True)
class Trace:
    """Outermost operators in the order in which they began, and kernels; `zero_ns` is the Unix time of its beginning.

    Kernels that run side by side share the time, so that theirs add up to the time for which the device was busy.
    """

    operators: Sequence[Span]
    kernels: Sequence[Kernel]
    zero_ns: int


def traced(run: Callable[[], object], device: str) -> tuple[float, Trace]:
    """Call `run`, which waits for the device, once; its seconds and its trace.

    Raises ServerError where nothing was seen of a GPU.
    """
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] if device == "cpu" else [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities) as profiler:
        begun = time.perf_counter()
        run()
        seconds = time.perf_counter() - begun
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(file))
        found = read(json.loads(file.read_text()))
    if device != "cpu" and not found.kernels:
        raise ServerError(
            f"torch.profiler saw nothing run on {device}",
            fix="end other profilers (nsys, ncu) around servemark; the driver may keep its counters to root: use sudo",
        )
    return seconds, found


def read(document: Mapping[str, Any]) -> Trace:
    """Read a trace as `export_chrome_trace` writes it."""
    events = sorted(
        (
            each
            for each in document["traceEvents"]
            if each.get("cat") in _LAUNCHES | _DEVICE | {"cpu_op"} and "dur" in each
        ),
        key=lambda each: (each["ts"], -each["dur"]),
    )
    zero = events[0]["ts"] if events else 0.0
    launches = {each["args"]["correlation"]: each["ts"] - zero for each in events if each["cat"] in _LAUNCHES}
    ran = [each for each in events if each["cat"] in _DEVICE]
    shares = wall_us(
        Inference(0.0, [Event("", "", each["ts"], each["dur"], thread=each["args"]["stream"]) for each in ran])
    )
    kernels = [
        Kernel(each["name"], each["ts"] - zero, us, launches.get(each["args"]["correlation"]))
        for each, us in zip(ran, shares, strict=True)
    ]
    operators, ends = list[Span](), dict[int, float]()
    for each in events:
        if each["cat"] == "cpu_op" and each["ts"] >= ends.get(each["tid"], zero):
            ends[each["tid"]] = each["ts"] + each["dur"]
            if "::" in each["name"]:
                operators.append(Span(each["name"], each["ts"] - zero, each["dur"]))
    return Trace(operators, kernels, document["baseTimeNanoseconds"] + round(zero * 1e3))


def on_device(operators: Sequence[Span], kernels: Sequence[Kernel]) -> tuple[list[Span], list[Event]]:
    """Give operators, which may lie within others, the time of the kernels that they launched instead of their own.

    One that launched none takes no time, where the one before it ends. The second list has the kernels that none of
    them launched.
    """
    order = sorted(range(len(operators)), key=lambda number: (operators[number].start_us, -operators[number].us))
    begun = [operators[number].start_us for number in order]
    own: list[list[Kernel]] = [[] for _ in operators]
    nobodys = list[Event]()
    for kernel in kernels:
        place = None if kernel.launched_us is None else _innermost(operators, order, begun, kernel.launched_us)
        if place is None:
            nobodys.append(Event(kernel.name, kernel.name, kernel.start_us, kernel.us, flops=0))
        else:
            own[place].append(kernel)
    found, at_us = [*operators], 0.0
    for number in order:
        at_us = own[number][0].start_us if own[number] else at_us
        us = sum(kernel.us for kernel in own[number])
        found[number] = Span(operators[number].name, at_us, us)
        at_us += us
    return found, nobodys


def _innermost(operators: Sequence[Span], order: Sequence[int], begun: Sequence[float], at_us: float) -> int | None:
    """The operator, of those in the order in which they began, within which something happened."""
    for place in range(bisect.bisect_right(begun, at_us) - 1, -1, -1):
        operator = operators[order[place]]
        if at_us <= operator.start_us + operator.us:
            return order[place]
    return None
