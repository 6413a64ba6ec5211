"""The requests of a run, serialised ahead of it."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from loadgen.inputs.sources import samples_of, scorable
from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import Payload
from servemark import interrupts
from servemark.errors import InputDataError
from servemark.repository.entry import Golden
from servemark.workload import Arrays, Sample

POOL_REQUESTS = 1024
POOL_BYTES = 64 << 20
"""Distinct requests prepared ahead, at most; then they repeat."""
GOLDEN_EVERY = 50
"""One request out of this number is made of golden samples, whose answer is known."""


def payloads(config: LoadConfig, encode: Callable[[Arrays], Any], golden: Golden | None) -> Iterator[Payload]:
    """An endless stream of requests: every golden one, then others with golden ones among them at a fixed share.

    `encode` makes a request of a batch's arrays, whatever the target's channels send.
    """
    batch = config.batch_size
    named = config.scenario.samples(config.seed)
    most = max(POOL_REQUESTS * batch, max(named or [0]) + 1)
    room = POOL_BYTES // len(config.urls)  # over HTTP each server has its own form of a request
    numbers: Sequence[int] = ()
    if config.quality:
        data, numbers = scorable(config, most)
        samples = _pool((data.example(number).requests[0] for number in numbers), most, batch, room)
    else:
        samples = _pool(samples_of(config), most, batch, room)
    if named:
        _check_samples(config, named, len(samples))
    # The samples go round until they fill whole batches.
    count = max(len(samples) // batch, 1)
    places = [[(index * batch + row) % len(samples) for row in range(batch)] for index in range(count)]
    requests = [
        Payload(
            encode(config.workload.request([samples[place] for place in each])),
            examples=tuple(numbers[place] for place in each) if numbers else (),
        )
        for each in places
    ]
    known = _known(config, encode, golden) if golden else []
    if named:
        return _ordered(named, requests, known)
    return itertools.chain(known, itertools.cycle(_interleave(requests, known) if known else requests))


def _known(config: LoadConfig, encode: Callable[[Arrays], Any], golden: Golden) -> list[Payload]:
    """The requests of golden samples."""
    batch = config.batch_size
    rows = [tuple((first + row) % golden.rows for row in range(batch)) for first in range(0, golden.rows, batch)]
    samples = [{name: array[row, ...] for name, array in golden.inputs.items()} for row in range(golden.rows)]
    return [Payload(encode(config.workload.request([samples[row] for row in each])), each) for each in rows]


def _ordered(named: Sequence[int], ordinary: list[Payload], known: list[Payload]) -> Iterator[Payload]:
    """The requests in a trace's order, -1 for any; one in GOLDEN_EVERY is golden here too, and the warm-up's first."""
    anything, goldens = itertools.cycle(ordinary), itertools.cycle(known)
    for position, index in enumerate(named):
        if known and (position % GOLDEN_EVERY == 0 or (index < 0 and position < len(known))):
            yield next(goldens)
        else:
            yield ordinary[index] if index >= 0 else next(anything)


def _check_samples(config: LoadConfig, named: Sequence[int], held: int) -> None:
    """Check that the samples which a trace names are there. Raises InputDataError."""
    if config.batch_size > 1:
        raise InputDataError("a trace that names samples has one in each request", fix="--batch-size 1")
    if max(named) >= held:
        raise InputDataError(
            f"--arrival-trace names sample {max(named)}, and --input-data {config.input_data} gives {held} (at most "
            f"{POOL_BYTES // len(config.urls) >> 20} MiB of them)",
            fix=f"name samples from 0 to {held - 1}",
        )


def _interleave(ordinary: list[Payload], known: list[Payload]) -> list[Payload]:
    """Blocks of one golden request and GOLDEN_EVERY - 1 ordinary ones, enough that all of both occur."""
    blocks = max(-(-len(ordinary) // (GOLDEN_EVERY - 1)), len(known))
    ordinaries, goldens = itertools.cycle(ordinary), itertools.cycle(known)
    return [
        next(goldens) if position == 0 else next(ordinaries) for _ in range(blocks) for position in range(GOLDEN_EVERY)
    ]


def _pool(samples: Iterator[Sample], most: int, batch: int, room: int) -> list[Sample]:
    """Draw as many samples as fit the bounds (`room` in bytes), at least one request's."""
    taken: list[Sample] = []
    size = 0
    for sample in itertools.islice(samples, most):
        interrupts.check()
        size += sum(array.nbytes for array in sample.values())
        if size > room and len(taken) >= batch:
            break
        taken.append(sample)
    return taken
