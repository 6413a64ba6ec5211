"""All-reduce: a sum over processes that each of them has in the end, over gloo on the CPU and NCCL on GPUs.

Algorithm bandwidth is the bytes of one process in the time of a call. Bus bandwidth is 2 (N - 1) / N of it, what each
link carries (NCCL's tests, doc/PERFORMANCE.md). DeepBench's figure is neither: 4 bytes times size times ranks.
"""

import math
import multiprocessing
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kernels.measurement.device import PRECISIONS
from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory
from servemark import interrupts

if TYPE_CHECKING:
    import torch

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
        """Return the memory of all processes, which share the CPU's."""
        return self.ranks * (PROCESS_BYTES + 2 * self.length * PRECISIONS[precision].read_bytes)

    def refusal(self, precision: str, device: str, cores: int) -> str | None:
        if device == "cpu":
            return (
                f"{self.ranks} processes on {cores} cores would measure the scheduler" if self.ranks > cores else None
            )
        if device != "cuda:0":
            return "the processes of an all-reduce take the GPUs from cuda:0 on"
        import torch

        gpus = torch.cuda.device_count()
        return f"{self.ranks} processes need as many GPUs, PyTorch sees {gpus}" if self.ranks > gpus else None

    def algorithm(self, precision: str, device: str) -> str:
        return f"{super().algorithm(precision, device)} ({_backend(device)})"

    def figures(self, seconds: float) -> dict[str, float]:
        gbps = self.length * PRECISIONS["fp32"].read_bytes / seconds / 1e9
        return {"algorithm_gbps": gbps, "bus_gbps": gbps * 2 * (self.ranks - 1) / self.ranks}

    def bind(self, make: TensorFactory) -> Bound:
        """Start the other processes: they answer each call of this one, until they are ended."""
        from torch import distributed

        backend = _backend(make.device)
        data = _drawn(0, self.length, make.device)
        folder = tempfile.TemporaryDirectory()
        meeting = f"file://{Path(folder.name) / 'meeting'}"
        spawn = multiprocessing.get_context("spawn")
        peers = [
            spawn.Process(target=_peer, args=(rank, self.ranks, self.length, backend, meeting))
            for rank in range(1, self.ranks)
        ]
        for peer in peers:
            peer.start()
        distributed.init_process_group(backend, init_method=meeting, rank=0, world_size=self.ranks)

        def release() -> None:
            for peer in peers:
                peer.kill()
                peer.join()
            if backend == "nccl":  # its regular end waits for the peers
                distributed.distributed_c10d._abort_process_group()
            else:
                distributed.destroy_process_group()
            folder.cleanup()

        def call() -> "torch.Tensor":
            distributed.all_reduce(data)
            return data

        return Bound((data,), call, release)

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        """The sum of what all began with; each later call multiplies it by the number of processes."""
        import torch

        drawn = [_drawn(rank, self.length, output.device).double() for rank in range(self.ranks)]
        total = torch.stack(drawn).sum(0)
        place = int(total.abs().argmax())
        later = abs(float(output[place])) / abs(float(total[place]))
        calls = round(math.log(later, self.ranks)) if later > 0 and math.isfinite(later) else 0
        yield output, total * self.ranks**calls


def _backend(device: str) -> str:
    """Name the backend of torch.distributed."""
    return "gloo" if device == "cpu" else "nccl"


def _drawn(rank: int, length: int, device: "str | torch.device") -> "torch.Tensor":
    """Draw a process's first values on the CPU, because they must be the same on every device."""
    return TensorFactory("fp32", seed=rank).normal(length).to(device)


def _peer(rank: int, ranks: int, length: int, backend: str, meeting: str) -> None:
    """Take part in every call, until the process that asks ends this one, or ends itself."""
    import torch
    from torch import distributed

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupts.end_with_parent(signal.SIGKILL)
    torch.set_num_threads(1)
    device = "cpu"
    if backend == "nccl":
        device = f"cuda:{rank}"
        torch.cuda.set_device(device)
    data = _drawn(rank, length, device)
    distributed.init_process_group(backend, init_method=meeting, rank=rank, world_size=ranks)
    while True:
        distributed.all_reduce(data)
