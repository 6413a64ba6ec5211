"""Workload: everything the stages need to know about a model, and labelled data for it; importable without torch."""

import bisect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack

import numpy as np

from servemark.results.objectives import Slo
from servemark.workload.agreement import Agreement
from servemark.workload.tensor import Arrays, Sample, Tensor, stack

if TYPE_CHECKING:
    from torch import nn

Module: TypeAlias = "nn.Module"
"""A network, for annotations: whoever names it so imports no torch."""
Read = TypeVar("Read")


@dataclass(frozen=True)
class Example:
    """Unit that is scored: one or more requests, and the right answer."""

    requests: tuple[Sample, ...]
    label: Any
    """Right answer, in the form that the workload's metric compares with."""


def first_output(outputs: Sample, _label: Any) -> Any:
    """Return the answer itself, for a metric that takes the model's first output as it is."""
    return next(iter(outputs.values()))


class InOrder(Generic[Read]):
    """Random access to a stream that can be begun anew; indices in ascending order need one pass only."""

    def __init__(self, begin: Callable[[], Iterator[Read]]) -> None:
        self._begin = begin
        self._stream, self._next = begin(), 0

    def __len__(self) -> int:
        """Count the elements, which reads them all."""
        return sum(1 for _ in self._begin())

    def __getitem__(self, index: int) -> Read:
        if index < self._next:
            self._stream, self._next = self._begin(), 0
        found = next(itertools.islice(self._stream, index - self._next, None))
        self._next = index + 1
        return found


@dataclass(frozen=True)
class LabelledSet:
    """A data set with its labels, whose examples can be read one by one.

    `example` raises InputDataError with file and line; `prediction` makes of a sample's outputs, and of the example's
    label, what the metric takes. Where it gives log-probabilities [frames, labels], `alphabet` says what each label
    stands for, '' for CTC's blank, and the text that is decoded from them is what the metric takes.
    """

    size: int
    example: Callable[[int], Example]
    prediction: Callable[[Sample, Any], Any] = first_output
    requests_per_example: int | Sequence[int] = 1
    """Number of requests of every example, or of each."""
    alphabet: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        rows: "Sequence[tuple[Any, ...]] | InOrder[Any]",
        example: Callable[..., Example],
        prediction: Callable[[Sample, Any], Any] = first_output,
        *,
        requests_per_example: int = 1,
    ) -> "LabelledSet":
        """Make an example of each of the rows, whose values `example` takes one by one."""
        return cls(len(rows), lambda index: example(*rows[index]), prediction, requests_per_example)

    def requests_of(self, number: int) -> int:
        """Return the number of an example's requests."""
        each = self.requests_per_example
        return each if isinstance(each, int) else each[number]

    def first_request(self, number: int) -> int:
        """Return the place of an example's first request among those of all examples; of `size`, their number."""
        each = self.requests_per_example
        return number * each if isinstance(each, int) else self._firsts[number]

    def place_of(self, request: int) -> tuple[int, int]:
        """Return the example that a request belongs to, and the request's place within it."""
        each = self.requests_per_example
        if isinstance(each, int):
            return divmod(request, each)
        number = bisect.bisect_right(self._firsts, request) - 1
        return number, request - self._firsts[number]

    @cached_property
    def _firsts(self) -> list[int]:
        each = self.requests_per_example
        assert not isinstance(each, int)
        return list(itertools.accumulate(each, initial=0))


Sizes = TypeVar("Sizes")
"""A model's own widths and lengths."""
Made = TypeVar("Made")


@dataclass(frozen=True)
class Quality:
    """The task metric of a workload and the suite's target, where one is published."""

    metric: str
    target: float | None
    protocol: str
    unmeasured: str = ""
    """Reason why the answers cannot be scored, for a workload without labels."""


EAGER = "eager PyTorch"
VERSION = "1"
"""Folder of an imported model's file, within the model's folder."""
DEFAULT_LOCUSTFILE = "any_model"
OWN = "own model"
"""The task of a workload that names none."""
SEPARATOR = "--"
"""It stands for `/` in a workload's name, as in the folders of Hugging Face's cache: a name is part of a path."""
OWN_SUITES = ("own",)
"""Suite of the workloads that belong to none of the zoo's suites."""


@dataclass(frozen=True)
class Source:
    """The file of an imported model, which takes the place of `Workload.build`."""

    engine: str
    """Engine that the file belongs to; its answers are the golden ones."""
    kind: str
    """Name of the file's format."""
    folder: Path
    """Folder of the file, its golden samples and its description."""
    file: str
    """The file's name in the folder of the version."""
    digest: str
    """Digest of the description, which holds the file's digest: another digest is another model."""
    facts: Mapping[str, Any]
    """Origin of the file: path, digest, versions of its format."""
    random_requests: bool = True
    """True if its requests were drawn at random, not taken from the user's data."""

    @property
    def path(self) -> Path:
        """The file itself."""
        return self.folder / VERSION / self.file


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One model with its interface, its requests and, if they are known, all other facts that the zoo's models have.

    `parameters` is the exact count of learnable parameters (asserted by the export); `flops` counts what the network
    computes for the mean request, its padding included, a multiply-add as 2 (docs/explanation/metrics.md, "FLOPs").
    None: not known.
    """

    name: str
    title: str
    task: str = OWN
    suites: tuple[str, ...] = ()
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    parameters: int | None = None
    flops: int | None = None
    max_batch: int
    """Maximum number of samples in a request. 0: the tensors have no batch dimension, so a request is one sample."""
    slo: Slo | None = None
    quality: Quality | None = None
    citation: str = ""
    locustfile: str = DEFAULT_LOCUSTFILE
    """The task's locustfile: loadgen/<locustfile>.py; several workloads of one task share it."""
    build: Callable[[], Module]
    """The seeded PyTorch module in eval mode; imports torch. Its forward takes the inputs in order, batched."""
    samples: Callable[[np.random.Generator], Iterator[Sample]]
    """An endless stream of realistic synthetic requests; equal for equal generators."""
    dataset: str | None = None
    """Key of the data set that `--input-data dataset` reads from DATA_ROOT/<key>."""
    read: Callable[[Path], Iterator[Sample]] | None = None
    """Requests from real data in its official layout at a path; finite; raises InputDataError with file and line."""
    labelled: Callable[[Path], LabelledSet] | None = None
    """The same data with its labels, as `quality.metric` takes them; raises as `read`."""
    agreement: Agreement = field(default_factory=Agreement)
    flops_without_padding: int | None = None
    """Operations that the mean request would need without padding; None if nothing is padded."""
    flops_longest: int | None = None
    """Operations of the longest request and answer; None if all requests are the same work."""
    origin: str | None = None
    """Origin of the network, the network that the suite's own code runs instead, and the published figure of each."""
    trained: bool = False
    """True if `build` brings trained weights; with seeded random ones agreement with fp32 is tested, never accuracy."""
    tiny: "Workload | None" = None
    """The same graph with small widths for fast tests; named <name>_tiny."""
    source: Source | None = None
    """The user's model file that it is made of; None: `build` makes the network."""
    module: str | None = None
    """The module that sets a user's `WORKLOAD`; None: the one of `build`."""
    made_of: str = ""
    """All that decides the network beside the code: a library's name and version, and where the weights come from."""
    served: bool = False
    """True if only a server's metadata describes the model: there is nothing to export, and no golden output."""

    @property
    def reference(self) -> str:
        """Name of the runtime whose answers are the golden ones."""
        return self.source.engine if self.source else EAGER

    @property
    def weights(self) -> Literal["random", "trained", "own"]:
        """Origin of the weights: `random`, `trained`, or the user's `own`."""
        return "own" if self.source else "trained" if self.trained else "random"

    @property
    def batched(self) -> bool:
        """True if the tensors have a batch dimension."""
        return self.max_batch > 0

    def request(self, samples: Sequence[Sample]) -> Arrays:
        """Make a request of these samples; without a batch dimension it is the one sample. Raises InputDataError."""
        return stack(samples, self.inputs) if self.batched else samples[0]


@dataclass(frozen=True)
class Variant(Generic[Sizes]):
    """Differences between a workload and its tiny variant; the figures are those of `Workload`."""

    sizes: Sizes
    parameters: int | None = None
    flops: int | None = None
    agreement: Agreement | None = None
    """None: the agreement of the other variant."""
    flops_without_padding: int | None = None
    flops_longest: int | None = None


class Facts(TypedDict, total=False):
    """Facts of a workload that both variants share; those of a user's own model may be left out. See `Workload`."""

    task: str
    suites: tuple[str, ...]
    slo: Slo | None
    quality: Quality | None
    citation: str
    origin: str | None
    locustfile: str


def define(
    name: str,
    title: str = "",
    *,
    full: Variant[Sizes],
    tiny: Variant[Sizes] | None = None,
    inputs: Callable[[Sizes], tuple[Tensor, ...]],
    outputs: Callable[[Sizes], tuple[Tensor, ...]],
    max_batch: int,
    build: Callable[[str, Sizes], Module],
    samples: Callable[[Sizes, np.random.Generator], Iterator[Sample]],
    dataset: str | None = None,
    read: Callable[[Path], Iterator[Sample]] | None = None,
    labelled: Callable[[Path], LabelledSet] | None = None,
    agreement: Agreement | None = None,
    **facts: Unpack[Facts],
) -> Workload:
    """Describe a workload and its tiny variant, if it has one, at once; real data only fits the full one.

    Without `read` real requests are those of `labelled`.

    `build` takes the variant's name, which is its seed.
    """

    def of(name: str, variant: Variant[Sizes], **only_full: Any) -> Workload:
        return Workload(
            name=name,
            title=title or name,
            inputs=inputs(variant.sizes),
            outputs=outputs(variant.sizes),
            parameters=variant.parameters,
            flops=variant.flops,
            flops_without_padding=variant.flops_without_padding,
            flops_longest=variant.flops_longest,
            max_batch=max_batch,
            build=_bound(build, name, variant.sizes),
            samples=_bound(samples, variant.sizes),
            agreement=variant.agreement or agreement or Agreement(),
            **facts,
            **only_full,
        )

    small = of(f"{name}_tiny", tiny) if tiny else None
    read = read or (labelled and _requests_of(labelled))
    return of(name, full, dataset=dataset, read=read, labelled=labelled, tiny=small)


def _requests_of(labelled: Callable[[Path], LabelledSet]) -> Callable[[Path], Iterator[Sample]]:
    """Read the requests of a labelled set; the result keeps the function's module and docstring."""

    def read(path: Path) -> Iterator[Sample]:
        data = labelled(path)
        return (request for number in range(data.size) for request in data.example(number).requests)

    return update_wrapper(read, labelled)


def _bound(function: Callable[..., Made], *first: object) -> Callable[..., Made]:
    """Bind the first arguments; the result keeps the function's module and docstring."""
    return update_wrapper(partial(function, *first), function)
