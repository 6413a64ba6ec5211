"""Drives the identity model of benchmarks/model_repo; also an example of a locustfile for a model of one's own."""

from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from loadgen.users import InferenceUser
from servemark.models import Quality, Sample, Slo, Tensor, Workload


def samples(rng: np.random.Generator) -> Iterator[Sample]:
    """Yield uniform noise."""
    while True:
        yield {"INPUT0": rng.random(64, dtype=np.float32)}


def _nothing_to_build() -> NoReturn:
    raise TypeError("the identity model is hand-written: benchmarks/model_repo/identity/1/model.py")


class Identity(InferenceUser):
    """FP32[64] in, the same out."""

    own = Workload(
        name="identity",
        title="Identity",
        task="identity",
        suites=(),
        inputs=(Tensor("INPUT0", "FP32", (64,)),),
        outputs=(Tensor("OUTPUT0", "FP32", (64,)),),
        parameters=0,
        flops=0,
        max_batch=64,
        slo=Slo(99, 10),
        quality=Quality("none", None, ""),
        citation="",
        locustfile="",
        build=_nothing_to_build,
        samples=samples,
    )
