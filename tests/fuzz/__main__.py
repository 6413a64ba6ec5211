"""Hostile inputs for minutes: `python -m tests.fuzz --minutes 10 [TARGET ...]`. What breaks goes into the corpus."""

import argparse
import hashlib
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz import (
    control_plane,
    endpoint_answers,
    files,
    grpc_answers,
    http_answers,
    method_answers,
    model_files,
    reruns,
    worker_states,
)
from tests.fuzz.target import Target

MODULES = (
    http_answers,
    endpoint_answers,
    grpc_answers,
    method_answers,
    control_plane,
    files,
    model_files,
    reruns,
    worker_states,
)
TARGETS = {target.name: target for module in MODULES for target in module.TARGETS}
ROUND = 200
"""Inputs of one target before the next one has its turn."""
MAX_TRIES = 400
"""Attempts to make an input smaller that breaks its target."""
MAX_BROKEN = 5
"""A target that breaks so often gets no more turns."""


@dataclass
class Tally:
    """Counts of the attempts on one target."""

    target: Target
    inputs: int = 0
    cpu_s: float = 0.0
    broken: dict[str, str] = field(default_factory=dict)
    """Place of the failure -> file in the corpus."""

    def turn(self, number: int) -> None:
        """Try a round of new inputs; keep the first that breaks it."""
        last = b""

        @seed(number)
        @settings(
            max_examples=ROUND,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(self.target.inputs)
        def attempt(data: bytes) -> None:
            nonlocal last
            last = data
            self.inputs += 1
            self.target.attempt(data)

        started = time.process_time()
        try:
            attempt()
        except Exception as error:
            self._keep(last, error)
        self.cpu_s += time.process_time() - started

    def _keep(self, data: bytes, error: Exception) -> None:
        place = _place(error)
        if place in self.broken:
            return
        small = smaller(data, lambda part: self._place_of(part) == place)
        self.target.corpus.mkdir(parents=True, exist_ok=True)
        path = self.target.corpus / hashlib.sha256(small).hexdigest()[:12]
        path.write_bytes(small)
        self.broken[place] = path.name
        traceback.print_exception(error, limit=-4)
        sys.stderr.write(f"{self.target.name}: {place}; {len(small)} bytes kept in {path}\n")

    def _place_of(self, data: bytes) -> str | None:
        try:
            self.target.attempt(data)
        except Exception as error:
            return _place(error)
        return None


def smaller(data: bytes, breaks: Callable[[bytes], bool]) -> bytes:
    """Leave out parts of an input, halves first, as long as it breaks the same (A. Zeller, delta debugging)."""
    size, tries = len(data) // 2, 0
    while size and tries < MAX_TRIES:
        position = 0
        while position < len(data) and tries < MAX_TRIES:
            part = data[:position] + data[position + size :]
            tries += 1
            if breaks(part):
                data = part
            else:
                position += size
        size //= 2
    return data


def _place(error: BaseException) -> str:
    """The class of an error and where it was raised: two inputs that break there are one fault."""
    if isinstance(error, BaseExceptionGroup):
        return _place(error.exceptions[0])
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {frame.name}:{frame.lineno}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Give each target a turn until the time is over; 1 where something broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=time.time_ns(), help="of the first turn; printed, to repeat it")
    options = parser.parse_args(arguments)
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    tallies = [Tally(TARGETS[name]) for name in options.targets or TARGETS]
    _say(f"seed {options.seed}")
    end, number = time.monotonic() + options.minutes * 60, options.seed
    while time.monotonic() < end and (left := [tally for tally in tallies if len(tally.broken) < MAX_BROKEN]):
        # Equal time rather than equal inputs: some targets take a hundred times longer.
        min(left, key=lambda tally: tally.cpu_s).turn(number)
        number += 1
    _say("| target | inputs | CPU time (s) | broken |\n|---|---|---|---|")
    for tally in tallies:
        found = "; ".join(f"{place} ({file})" for place, file in tally.broken.items())
        _say(f"| {tally.target.name} | {tally.inputs:,} | {tally.cpu_s:.0f} | {found or 'no'} |")
    _say(f"{sum(tally.inputs for tally in tallies):,} inputs in {sum(t.cpu_s for t in tallies):.0f} s of CPU time")
    return int(any(tally.broken for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
