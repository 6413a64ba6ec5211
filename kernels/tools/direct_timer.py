"""Medians of `servemark kernels` against `torch.utils.benchmark` of the same call, in turns.

    python -m kernels.tools.direct_timer [--rounds 25] [--seconds 0.2] [--device cuda:0]

The direct call has tensors and a statement of its own, as someone would write it by hand. The aim is that the median
of the pairs' ratios lies within 3 % either way: many short pairs, because a core's speed and where tensors lie vary.
On a GPU it is a loop between two CUDA events: of a large product in bf16, which is cuBLAS's, and of a plain copy. There
the aim is at least 90 % of the rate by hand.
"""

import argparse
import timeit
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils.benchmark import Timer

from benchmarks.rig.pairs import Aim, interleave
from kernels.measurement.case import Case, Method
from kernels.measurement.device import Device
from kernels.measurement.measure import measure
from servemark.stats.ratios import median_ratio

AIM = Aim(least=0.97, most=1.03)
GPU_AIM = Aim(most=1 / 0.9)
WARM_UPS = 3


@dataclass(frozen=True)
class Twin:
    """A case, and the same call by hand: a statement and what makes its variables."""

    case: Case
    statement: str
    variables: Callable[[], dict[str, Any]]

    def ours_ms(self, method: Method) -> float:
        """Time it as the command does."""
        found = measure(self.case, method)
        if found["ms"] is None:
            raise SystemExit(f"{self.case}: {found['status']}: {found.get('reason')}")
        return found["ms"]["median"]

    def direct_ms(self, method: Method) -> float:
        """Time it by PyTorch's timer alone, or by CUDA's events alone."""
        with torch.device(method.device.name):  # around no call that is timed: it costs each of them
            variables = {"torch": torch, **self.variables()}
        with torch.no_grad():
            if method.device.is_gpu:
                return _by_events(self.statement, variables, method.budget_s)
            timer = Timer(self.statement, globals=variables, num_threads=method.device.cores)
            timer.timeit(WARM_UPS)
            return timer.blocked_autorange(min_run_time=method.budget_s).median * 1e3


def _by_events(statement: str, variables: dict[str, Any], budget_s: float) -> float:
    """Milliseconds of a statement: the mean of as many as fit the budget, between two events."""
    statements = timeit.Timer(statement, globals=variables)

    def loop(calls: int) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        statements.timeit(calls)
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / calls

    loop(WARM_UPS)
    return loop(max(WARM_UPS, round(budget_s * 1e3 / loop(WARM_UPS))))


def product(m: int, n: int, k: int) -> Twin:
    """A dense product, column-major as BLAS has it."""
    return Twin(
        Case.of("gemm", m=m, n=n, k=k),
        "torch.matmul(b, a, out=c)",
        lambda: {"a": torch.randn(k, m), "b": torch.randn(n, k), "c": torch.zeros(n, m)},
    )


def convolution(channels: int, side: int, window: int) -> Twin:
    """A convolution that keeps the size."""
    padding = window // 2
    sizes: dict[str, Any] = {"size": (side, side), "filter": (window, window), "padding": (padding, padding)}
    return Twin(
        Case.of("convolution", n=1, c=channels, k=channels, **sizes),
        f"torch.conv2d(x, w, padding={padding})",
        lambda: {"x": torch.randn(1, channels, side, side), "w": torch.randn(channels, channels, window, window)},
    )


TWINS = (
    product(1024, 1024, 1024),
    product(1760, 16, 1760),
    product(64, 64, 64),
    convolution(64, 56, 3),
    convolution(256, 28, 1),
    convolution(16, 14, 3),
)
"""Large and small, compute and bandwidth."""
SIDE, LENGTH = 8192, 1 << 28
GPU_TWINS = (
    Twin(
        replace(Case.of("gemm", m=SIDE, n=SIDE, k=SIDE), precision="bf16"),
        "torch.matmul(b, a, out=c)",
        lambda: {name: torch.randn(SIDE, SIDE, dtype=torch.bfloat16) for name in "abc"},
    ),
    Twin(
        Case.of("memory", operation="copy", length=LENGTH),
        "c.copy_(a)",
        lambda: {"a": torch.randn(LENGTH), "c": torch.zeros(LENGTH)},
    ),
)
"""Direct timings on a GPU: cuBLAS and a plain copy."""


def main() -> None:
    """Print a ratio for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--device", default="cpu", metavar="DEVICE", help="cpu or cuda:N")
    options = parser.parse_args()
    method = Method(Device.named(options.device), budget_s=options.seconds)
    aim = GPU_AIM if method.device.is_gpu else AIM
    for twin in GPU_TWINS if method.device.is_gpu else TWINS:
        print(f"{twin.case}, ms, servemark against `{twin.statement}`:", flush=True)
        pairs = interleave(partial(twin.ours_ms, method), partial(twin.direct_ms, method), options.rounds)
        ratio = median_ratio(pairs)
        print(f"median ratio servemark / direct: {ratio}; {aim.verdict(ratio.value)}", flush=True)


if __name__ == "__main__":
    main()
