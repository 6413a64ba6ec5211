"""Events of one inference as a profiler saw them, and the wall-clock time that each operator accounts for.

Operators lie within others (a loop and its body) or beside others (threads). Each moment is given to the innermost one
of each thread, in equal parts where several threads run one, so that all parts add up to the inference.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace


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

    def later(self, us: float) -> "Event":
        """The same, so much later."""
        return replace(self, start_us=self.start_us + us)

    @property
    def end_us(self) -> float:
        """The end, as `start_us` counts."""
        return self.start_us + self.duration_us


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
    edges += [(event.end_us, 0, number) for number, event in long]
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
    rounds = [event.start_us for event in events if event.step]
    if not rounds:
        return [event.module.partition(".")[0] or "no module" for event in events]
    return [_phase(event, min(rounds)) for event in events]


def _phase(event: Event, first_us: float) -> str:
    if event.step:
        return f"step {event.step}"
    top = event.module.partition(".")[0]
    side = "before the steps" if event.start_us < first_us else "after the steps"
    return f"{side}: {top}" if top else side
