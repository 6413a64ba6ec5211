"""Faces: unit embeddings that differ, and the readers of LFW and of the RGB-D set on records written here."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image

from servemark import workload
from servemark.datasets import lfw
from servemark.errors import InputDataError
from tests.support.workload_data import batch_of, read_requests

PAIRS = "1\t1\nAda\t1\t2\nAda\t1\tBob\t3\n"


@pytest.mark.parametrize("name", ["facenet", "facenet_tiny"])
def test_embeddings_are_unit_vectors_that_tell_faces_apart(name: str) -> None:
    with torch.no_grad():
        embeddings = workload.get(name).build()(batch_of(workload.get(name), 8, seed=4)[0])
    torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(8))
    distances = torch.cdist(embeddings, embeddings)[~torch.eye(8, dtype=torch.bool)]
    assert distances.min() > 0.3  # FaceNet's threshold for the same person is 1.1, squared


def write_face(root: Path, person: str, number: int, colour: int) -> None:
    """A picture of LFW's size with a grey centre of 160 x 160 and a white border."""
    pixels = np.full((250, 250, 3), 255, np.uint8)
    pixels[45:205, 45:205] = colour
    (root / person).mkdir(exist_ok=True)
    Image.fromarray(pixels).save(root / person / f"{person}_{number:04d}.jpg", quality=95)


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    for person, number, colour in (("Ada", 1, 10), ("Ada", 2, 20), ("Bob", 3, 30), ("Cid", 1, 40)):
        write_face(tmp_path, person, number, colour)
    return tmp_path


def colours(root: Path) -> list[int]:
    requests = [request["image"].astype(np.float64) for request in read_requests("facenet", root)]
    return [round(float((request[:, 8:-8, 8:-8] * 128 + 127.5).mean())) for request in requests]


def test_lfw_gives_the_pictures_of_its_pairs(faces: Path) -> None:
    assert colours(faces) == [10, 20, 30, 40]
    (faces / "pairs.txt").write_text(PAIRS)
    assert colours(faces) == [10, 20, 10, 30]


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ("", "", "cannot be read"),
        ("ten\t300\n", ":1", "is not the number of folds"),
        ("1\t1\nAda\t1\t2\n", ":1", "announces 2 pairs, 1 follow"),
        ("1\t1\nAda\t1\t2\nAda\t1\tBob\n", ":3", "is neither"),
        ("1\t1\nAda\t1\ttwo\nAda\t1\tBob\t3\n", ":2", "is neither"),
        ("1\t1\nAda\t1\t2\nAda\t1\tBob\t4\n", ":3", "Bob_0004.jpg is not a readable picture"),
    ],
)
def test_damaged_pairs_name_file_and_line(faces: Path, content: str, line: str, reason: str) -> None:
    (faces / "pairs.txt").write_text(content)
    with pytest.raises(InputDataError, match=reason) as caught:
        list(lfw.read(faces))
    assert f"{faces / 'pairs.txt'}{line}" in caught.value.what


def test_3d_faces_are_in_the_ranges_of_the_published_sample() -> None:
    """Bytes of colour; depths of some 40 to 56 in 22 % of the pixels, nearest in the middle, and 0 elsewhere."""
    rgbd = batch_of(workload.get("face3d"), 6, seed=4)[0]
    colours, depth = rgbd[:, :3], rgbd[:, 3]
    assert colours.min() >= 0
    assert 200 < colours.max() <= 255
    assert ((depth == 0).float().mean(dim=(1, 2)) - 0.78).abs().max() < 0.01
    assert 40 < depth[depth > 0].min() < 46
    assert 52 < depth.max() < 57
    for each in depth:
        assert each[each > 0].mean() - each[each > 0].min() > 3


def test_3d_recognition_depends_on_colour_and_on_depth() -> None:
    rgbd = batch_of(workload.get("face3d_tiny"), 8, seed=4)[0]
    with torch.no_grad():
        model = workload.get("face3d_tiny").build()
        logits = model(rgbd)
        for channels in (slice(0, 3), slice(3, 4)):
            changed = rgbd.clone()
            changed[:, channels] = changed[:, channels].roll(1, dims=0)
            assert (model(changed) - logits).abs().max() > 0.1
    assert len(set(logits.argmax(dim=1).tolist())) >= 3


def write_rgbd(root: Path, rows: str, depth: npt.NDArray[np.generic] | None = None) -> Path:
    Image.new("RGB", (300, 224), (51, 102, 255)).save(root / "a.png")
    values = np.arange(224 * 300, dtype=np.uint32).reshape(224, 300)
    np.save(root / "a.npy", values if depth is None else depth)
    (root / "test.csv").write_text(rows)
    return root


HEADER = "rgb_image_path,dep_image_path,cls_name\n"


def test_rgbd_reader_keeps_colours_and_depths(tmp_path: Path) -> None:
    (request,) = read_requests("face3d", write_rgbd(tmp_path, HEADER + "a.png,a.npy,someone\n"))
    rgbd = request["rgbd"]
    np.testing.assert_allclose(rgbd[:3].astype(np.float64).mean(axis=(1, 2)), [51, 102, 255], atol=1e-4)
    np.testing.assert_array_equal(rgbd[3], np.arange(224 * 300).reshape(224, 300)[:, 38:262])


@pytest.mark.parametrize(
    ("rows", "depth", "place", "reason"),
    [
        ("rgb_image_path,cls_name\n", None, ":1", "no column dep_image_path"),
        (HEADER, None, "", "lists no faces"),
        (HEADER + "a.png,a.npy,b\na.png\n", None, ":3", "no dep_image_path, cls_name"),
        (HEADER + "b.png,a.npy,b\n", None, ":2", "b.png is not a readable picture"),
        (HEADER + "a.png,b.npy,b\n", None, ":2", "b.npy is not a depth map"),
        (HEADER + "a.png,a.npy,b\n", np.zeros((2, 2, 3)), ":2", r"holds float64 \[2, 2, 3\], not one number"),
        (HEADER + "a.png,a.npy,b\n", np.array([["far"]]), ":2", "not one number"),
    ],
)
def test_damaged_rgbd_lists_name_file_and_line(
    tmp_path: Path, rows: str, depth: npt.NDArray[np.generic] | None, place: str, reason: str
) -> None:
    with pytest.raises(InputDataError, match=reason) as caught:
        read_requests("face3d", write_rgbd(tmp_path, rows, depth))
    assert f"{tmp_path / 'test.csv'}{place}" in caught.value.what
