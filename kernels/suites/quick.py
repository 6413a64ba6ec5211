"""Thirty cases of every family, small enough for three minutes on two cores, large enough for a GPU to show."""

from kernels.measurement.case import Case

_SOURCE = "servemark"


def quick() -> list[Case]:
    """Sizes are servemark's own, near to those of its models."""
    return [
        Case.of("gemm", _SOURCE, m=1024, n=1024, k=1024),
        Case.of("gemm", _SOURCE, m=1760, n=16, k=1760),
        Case.of("gemm", _SOURCE, m=512, n=512, k=512, a_t=True),
        Case.of("gemm", _SOURCE, m=64, n=64, k=64, batch=96),
        Case.of("gemm", _SOURCE, m=512, n=256, k=256, groups=4),
        Case.of("convolution", _SOURCE, n=1, c=64, k=64, size=(56, 56), filter=(3, 3), padding=(1, 1)),
        Case.of("convolution", _SOURCE, n=1, c=64, k=64, size=(56, 56), filter=(3, 3), padding=(1, 1), layout="NHWC"),
        Case.of("convolution", _SOURCE, n=1, c=256, k=64, size=(56, 56), filter=(1, 1)),
        Case.of("convolution", _SOURCE, n=1, c=128, k=128, size=(56, 56), filter=(3, 3), padding=(1, 1), groups=128),
        _backward("backward_data"),
        _backward("backward_weights"),
        Case.of("memory", _SOURCE, operation="copy", length=1 << 24),
        Case.of("memory", _SOURCE, operation="triad", length=1 << 24),
        Case.of("recurrent", _SOURCE, cell="vanilla", hidden=512, batch=4, timesteps=25),
        Case.of("recurrent", _SOURCE, cell="lstm", hidden=512, batch=4, timesteps=25),
        Case.of("recurrent", _SOURCE, cell="gru", hidden=512, batch=4, timesteps=25),
        Case.of("sparse_gemm", _SOURCE, m=2560, n=64, k=2560, sparsity=0.95),
        Case.of("all_reduce", _SOURCE, length=1 << 20, ranks=2),
        Case.of("element_wise", _SOURCE, operation="add", length=1 << 20),
        Case.of("activation", _SOURCE, function="relu", length=1 << 20),
        Case.of("activation", _SOURCE, function="gelu", length=1 << 20),
        Case.of("pooling", _SOURCE, kind="max", n=1, c=64, h=112, w=112, window=3, stride=2, padding=1),
        Case.of("batch_norm", _SOURCE, n=1, c=256, h=56, w=56),
        Case.of("layer_norm", _SOURCE, rows=512, width=1024),
        Case.of("lrn", _SOURCE, n=1, c=64, h=56, w=56),
        Case.of("softmax", _SOURCE, rows=512, width=1000),
        Case.of("fully_connected", _SOURCE, batch=1, inputs=2048, outputs=1000),
        Case.of("dropout", _SOURCE, length=1 << 20),
        Case.of("embedding", _SOURCE, rows=100_000, width=64, lookups=4096),
        Case.of("attention", _SOURCE, batch=1, heads=8, queries=256, keys=256, width=64),
    ]


def _backward(direction: str) -> Case:
    sizes = {"size": (28, 28), "filter": (3, 3), "padding": (1, 1)}
    return Case.of("convolution", _SOURCE, n=4, c=64, k=64, direction=direction, **sizes)


SUITES = {"quick": quick}
