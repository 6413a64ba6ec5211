"""Workloads that answer pictures: label maps to photographs, and a codec whose bits are real."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from servemark.errors import InputDataError
from servemark.workload import get
from tests.support.workload_data import answer, batch_of, read_requests


def test_cyclegan_is_asked_for_label_maps() -> None:
    from servemark.models.cyclegan import PALETTE

    (image,) = batch_of(get("cyclegan"), 3)
    colours = {tuple(colour) for colour in image.permute(0, 2, 3, 1).reshape(-1, 3).tolist()}
    assert colours <= {tuple(c) for c in (PALETTE / np.float32(127.5) - 1).tolist()}
    assert len(colours) > 8


@pytest.mark.parametrize("layout", ["official", "cyclegan", "folder"])
def test_cyclegan_reads_label_maps_in_each_layout(tmp_path: Path, layout: str) -> None:
    labels, other = {
        "official": ("gtFine/val/ulm/ulm_0_0_gtFine_color.png", "leftImg8bit/val/ulm/ulm_0_0_leftImg8bit.png"),
        "cyclegan": ("testB/1_B.jpg", "testA/1_A.jpg"),
        "folder": ("a.png", "notes.txt"),
    }[layout]
    for name, colour in ((labels, (255, 0, 0)), (other, (0, 255, 0))):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (128, 64), colour).save(tmp_path / name, format="PNG")
    (request,) = read_requests("cyclegan", tmp_path)
    np.testing.assert_allclose(request["image"].mean(axis=(1, 2)), [1, -1, -1], atol=1e-5)


def test_cyclegan_names_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "gtFine").mkdir()
    with pytest.raises(InputDataError, match=r"holds no .*gtFine_color.png"):
        read_requests("cyclegan", tmp_path)


def test_codec_bits_alone_give_the_reconstruction() -> None:
    """A decoder that sees nothing but the codes answers the same picture: what is served is a real code."""
    workload = get("image_compression_tiny")
    model: Any = workload.build()
    (image,) = batch_of(workload, 2)
    codes, reconstruction = answer(model, image)
    states: list[torch.Tensor] = []
    side = image.shape[2]
    for lstm, scale in zip(model.decoder, (16, 8, 4, 2), strict=True):
        states += [torch.zeros(2, lstm.conv_hh.in_channels, side // scale, side // scale)] * 2
    picture = torch.full_like(image, 0.5)
    with torch.no_grad():
        for t in range(codes.shape[1]):
            features, states = model.unfold(codes[:, t].bool(), states)
            picture += torch.tanh(model.picture(features)) / 2
    torch.testing.assert_close(reconstruction, picture.clamp(0, 1))


def test_codec_answers_bits_of_both_kinds_in_every_iteration() -> None:
    workload = get("image_compression_tiny")
    codes, _ = answer(workload.build(), *batch_of(workload, 32))
    assert set(codes.flatten().tolist()) == {0, 1}
    ones = codes.float().mean(dim=(0, 3, 4))  # of each bit of each iteration
    assert ((ones > 0.02) & (ones < 0.98)).all()
    assert not torch.equal(codes[:, 0], codes[:, 1])


def test_kodak_is_cut_into_tiles(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (512, 768, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "kodim01.png")
    found = read_requests("image_compression", tmp_path)
    assert len(found) == 6
    np.testing.assert_allclose(found[4]["image"] * 255, pixels[256:, 256:512].transpose(2, 0, 1), atol=1e-3)
    Image.new("RGB", (300, 200)).save(tmp_path / "small.png")
    with pytest.raises(InputDataError, match=r"small.png is 300 x 200, smaller than 256 x 256"):
        read_requests("image_compression", tmp_path)
