"""Drives the identity models of benchmarks/rig/model_repo; also an example of a locustfile for models of one's own."""

from collections.abc import Callable, Iterator
from typing import NoReturn

import numpy as np

from loadgen.users import InferenceUser
from servemark.workload import Quality, Sample, Slo, Tensor, Workload


def noise(shape: tuple[int, ...]) -> Callable[[np.random.Generator], Iterator[Sample]]:
    """Make a stream of uniform noise."""

    def samples(rng: np.random.Generator) -> Iterator[Sample]:
        while True:
            yield {"INPUT0": rng.random(shape, dtype=np.float32)}

    return samples


def _nothing_to_build() -> NoReturn:
    raise TypeError("the identity models are hand-written: benchmarks/rig/model_repo/identity/1/model.py")


def identity(name: str, shape: tuple[int, ...], max_batch: int) -> Workload:
    """FP32 in, the same out."""
    return Workload(
        name=name,
        title="Identity",
        task="identity",
        suites=(),
        inputs=(Tensor("INPUT0", "FP32", shape),),
        outputs=(Tensor("OUTPUT0", "FP32", shape),),
        parameters=0,
        flops=0,
        max_batch=max_batch,
        slo=Slo(99, 10),
        quality=Quality("none", None, ""),
        citation="",
        locustfile="",
        build=_nothing_to_build,
        samples=noise(shape),
    )


class Identity(InferenceUser):
    """256 bytes each way: what the generator itself costs."""

    own = identity("identity", (64,), max_batch=64)


class IdentityImage(InferenceUser):
    """600 kB each way: what moving large tensors costs."""

    own = identity("identity_image", (3, 224, 224), max_batch=8)
