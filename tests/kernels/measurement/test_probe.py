"""The probes of the machine: a product and a copy beyond the cache, made once."""

import torch

from kernels.measurement.device import Device
from kernels.measurement.probe import MIN_COPY_BYTES, SIDE, probes_of


def test_a_product_and_a_copy_that_no_cache_holds() -> None:
    device = Device("cpu", cores=1, cache_bytes=MIN_COPY_BYTES)  # twice that is copied
    probes = probes_of(device)
    assert list(probes) == ["product_ms", "copy_ms"]
    product, copied = (call() for call in probes.values())
    assert isinstance(product, torch.Tensor)
    assert isinstance(copied, torch.Tensor)
    assert product.shape == (SIDE, SIDE)
    assert copied.numel() * 4 * 2 == 2 * MIN_COPY_BYTES
    assert probes_of(device) is probes
