"""All-reduce: a sum over processes that each of them has in the end, over gloo on the CPU.

Algorithm bandwidth is the bytes of one process in the time of a call. Bus bandwidth is 2 (N - 1) / N of it, what each
link carries (NCCL's tests, doc/PERFORMANCE.md). DeepBench's figure is neither: 4 bytes times size times ranks.
"""

import math
import multiprocessing
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from servemark import interrupts
from servemark.kernels.measurement.kernel import Bound, Elements, Kernel, Maker, Sample
from servemark.kernels.measurement.precisions import PRECISIONS

if TYPE_CHECKING:
    import torch

    from servemark.kernels.measurement.kernel import Output

PROCESS_BYTES = 300 << 20
"""A process with PyTorch."""


@dataclass(frozen=True)
class AllReduce(Kernel):
    """`length` elements in each of `ranks` processes, of one thread each."""

    length: int
    ranks: int

    PRECISIONS: ClassVar = ("fp32",)
    OPERATIONS: ClassVar = "(ranks - 1) length sums"
    CALL: ClassVar = "torch.distributed.all_reduce"
    MAY_BE_COLD: ClassVar = False

    def flops(self) -> int:
        return (self.ranks - 1) * self.length

    def elements(self) -> Elements:
        return Elements(self.length, self.length)

    def held_bytes(self, precision: str) -> int:
        return self.ranks * (PROCESS_BYTES + 2 * self.length * PRECISIONS[precision].read_bytes)

    def refusal(self, precision: str, device: str, cores: int) -> str | None:
        if device != "cpu":
            return "all-reduce over GPUs (NCCL) is not built"
        return f"{self.ranks} processes on {cores} cores would measure the scheduler" if self.ranks > cores else None

    def algorithm(self, precision: str, device: str) -> str:
        return f"{super().algorithm(precision, device)} (gloo)"

    def figures(self, seconds: float) -> dict[str, float]:
        gbps = self.length * PRECISIONS["fp32"].read_bytes / seconds / 1e9
        return {"algorithm_gbps": gbps, "bus_gbps": gbps * 2 * (self.ranks - 1) / self.ranks}

    def bind(self, make: Maker) -> Bound:
        """Start the other processes: they answer each call of this one, until they are ended."""
        from torch import distributed

        data = make.normal(self.length)
        folder = tempfile.TemporaryDirectory()
        meeting = f"file://{Path(folder.name) / 'meeting'}"
        spawn = multiprocessing.get_context("spawn")
        peers = [
            spawn.Process(target=_peer, args=(rank, self.ranks, self.length, make.precision, meeting))
            for rank in range(1, self.ranks)
        ]
        for peer in peers:
            peer.start()
        distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=self.ranks)

        def release() -> None:
            for peer in peers:
                peer.kill()
                peer.join()
            distributed.destroy_process_group()
            folder.cleanup()

        def call() -> "torch.Tensor":
            distributed.all_reduce(data)
            return data

        return Bound((data,), call, release)

    def expected(self, bound: Bound, output: "Output", sample: Sample) -> "Iterator[tuple[torch.Tensor, torch.Tensor]]":
        """The sum of what all began with; each later call multiplies it by the number of processes."""
        from torch import Tensor

        assert isinstance(output, Tensor)
        total = sum(Maker("fp32", seed=rank).normal(self.length).double() for rank in range(self.ranks))
        assert isinstance(total, Tensor)
        place = int(total.abs().argmax())
        later = abs(float(output[place])) / abs(float(total[place]))
        calls = round(math.log(later, self.ranks)) if later > 0 and math.isfinite(later) else 0
        yield output, total * self.ranks**calls


def _peer(rank: int, ranks: int, length: int, precision: str, meeting: str) -> None:
    """Take part in every call, until the process that asks ends this one, or ends itself."""
    import torch
    from torch import distributed

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupts.end_with_parent(signal.SIGKILL)
    torch.set_num_threads(1)
    data = Maker(precision, seed=rank).normal(length)
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    while True:
        distributed.all_reduce(data)


KERNEL = AllReduce
