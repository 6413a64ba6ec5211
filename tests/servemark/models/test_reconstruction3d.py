"""3D reconstruction: its records and every way they are damaged, its pictures, a volume for each."""

from pathlib import Path

import numpy as np
import pytest

from servemark.datasets import tfrecord
from servemark.errors import InputDataError
from servemark.workload import get
from tests.support.tfrecords import example, field, record
from tests.support.workload_data import answer, batch_of, read_requests


def test_checksum_is_that_of_the_format() -> None:
    """The check value of CRC-32C (RFC 3720, B.4: 32 bytes of zeros), masked as TensorFlow masks it."""
    crc = 0x8A9136AA
    assert tfrecord.masked_crc32c(bytes(32)) == ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PNG not a record", r"record 1: the length's checksum is wrong"),
        (record(b"")[:9], r"record 1: the file ends within it"),
        (record(example({"a": [1.0]}))[:-5], r"record 1: the file ends within it"),
        (record(b"\x08\x01"), r"record 1 has no feature 'image'"),
        (record(field(1, b"\xff")), r"record 1 is not a tf.train.Example"),
        (record(example({"other": [1.0]})), r"record 1 has no feature 'image'"),
        (record(example({"image": [1.0, 2.0]})), r"record 1: image has 2 floats, not \[24, 64, 64, 3\]"),
        (record(example({"image": np.ones(24 * 64 * 64 * 3)})) + b"\0", r"record 2: the file ends within it"),
        (record(example({"image": b"abcd"})), r"record 1: image has 0 floats"),
        (record(field(1, field(1, field(1, b"image") + field(2, b"\x12\xff")))), r"record 1 is not a tf.train.Example"),
    ],
)
def test_damaged_records_name_file_and_record(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "03001627_test.tfrecords"
    path.write_bytes(content)
    with pytest.raises(InputDataError, match=reason) as caught:
        read_requests("reconstruction3d", tmp_path)
    assert str(path) in caught.value.what


def test_reconstruction_reads_every_view_of_the_test_objects(tmp_path: Path) -> None:
    views = np.random.default_rng(0).random((2, 24, 64, 64, 3), np.float32)
    objects = [record(example({"image": o, "id": 7, "vox": np.zeros(32**3), "name": b"chair"})) for o in views]
    (tmp_path / "03001627_test.tfrecords").write_bytes(b"".join(objects))
    (tmp_path / "03001627_train.tfrecords").write_bytes(b"not read")
    found = read_requests("reconstruction3d", tmp_path)
    assert len(found) == 48
    np.testing.assert_allclose(found[25]["image"], views[1, 1].transpose(2, 0, 1) * 2 - 1, atol=1e-6)


@pytest.mark.parametrize("name", ["reconstruction3d_tiny", pytest.param("reconstruction3d", marks=pytest.mark.slow)])
def test_reconstruction_gives_each_picture_its_own_volume(name: str) -> None:
    workload = get(name)
    (voxels,) = answer(workload.build(), *batch_of(workload, 16, seed=3))
    occupied = (voxels > 0.5).flatten(1)
    assert 0.02 < occupied.float().mean() < 0.3
    intersection, union = (occupied[1:] & occupied[:-1]).sum(1), (occupied[1:] | occupied[:-1]).sum(1)
    assert (intersection / union).mean() < 0.9


def test_rendered_objects_cover_a_share_of_the_picture() -> None:
    from servemark.models.reconstruction3d import COVER, render

    pictures = [render(np.random.default_rng(seed), 64) for seed in range(50)]
    shares = [(np.ptp(picture - picture[:, :1, :1], axis=0) + np.abs(picture - picture[:, :1, :1]).max(0) > 0).mean()
              for picture in pictures]  # fmt: skip
    assert min(shares) > COVER[0] - 0.05
    assert max(shares) < COVER[1] + 0.03
    assert {float(picture[0, 0, 0]) for picture in pictures} == {0.0, 1.0}
