"""Workloads that generate pictures, volumes and text scores: what is special to each, and the data sets they read."""

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from servemark import models
from servemark.datasets import ptb, tfrecord
from servemark.errors import InputDataError
from tests.test_models import answer, batch_of

TABLE = list(range(256))
for _ in range(8):
    TABLE = [n >> 1 ^ (0x82F63B78 if n & 1 else 0) for n in TABLE]


def requests(name: str, path: Path) -> list[Any]:
    read = models.get(name).read
    assert read is not None
    found = list(read(path))
    for tensor in models.get(name).inputs:
        assert {(r[tensor.name].dtype, r[tensor.name].shape) for r in found} == {(tensor.dtype, tensor.shape)}
    return found


# --- records of TensorFlow, written here from the format's description


def masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def record(message: bytes) -> bytes:
    length = struct.pack("<Q", len(message))
    return length + struct.pack("<I", masked_crc(length)) + message + struct.pack("<I", masked_crc(message))


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def example(features: dict[str, Any]) -> bytes:
    """A tf.train.Example: bytes become bytes lists, integers int64 lists, arrays float lists."""
    entries = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            feature = field(1, field(1, value))
        elif isinstance(value, int):
            feature = field(3, field(1, varint(value)))
        else:
            feature = field(2, field(1, np.asarray(value, "<f4").tobytes()))
        entries += field(1, field(1, name.encode()) + field(2, feature))
    return field(1, entries)


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
        (record(b"\x08\x01"), r"record 1 is no tf.train.Example: .*wire type 0"),
        (record(field(1, b"\xff")), r"record 1 is no tf.train.Example"),
        (record(example({"other": [1.0]})), r"record 1 has no feature 'image'"),
        (record(example({"image": [1.0, 2.0]})), r"record 1: image has 2 floats, not \[24, 64, 64, 3\]"),
        (record(example({"image": np.ones(24 * 64 * 64 * 3)})) + b"\0", r"record 2: the file ends within it"),
        (record(example({"image": b"abcd"})), r"record 1: image has 0 floats"),
        (record(field(1, field(1, field(1, b"image") + field(2, b"\x12\xff")))), r"record 1: image is damaged"),
    ],
)
def test_damaged_records_name_file_and_record(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "03001627_test.tfrecords"
    path.write_bytes(content)
    with pytest.raises(InputDataError, match=reason) as caught:
        requests("reconstruction3d", tmp_path)
    assert str(path) in caught.value.what


def test_reconstruction_reads_every_view_of_the_test_objects(tmp_path: Path) -> None:
    views = np.random.default_rng(0).random((2, 24, 64, 64, 3), np.float32)
    objects = [record(example({"image": o, "id": 7, "vox": np.zeros(32**3), "name": b"chair"})) for o in views]
    (tmp_path / "03001627_test.tfrecords").write_bytes(b"".join(objects))
    (tmp_path / "03001627_train.tfrecords").write_bytes(b"not read")
    found = requests("reconstruction3d", tmp_path)
    assert len(found) == 48
    np.testing.assert_allclose(found[25]["image"], views[1, 1].transpose(2, 0, 1) * 2 - 1, atol=1e-6)


@pytest.mark.parametrize("name", ["reconstruction3d_tiny", pytest.param("reconstruction3d", marks=pytest.mark.slow)])
def test_reconstruction_gives_each_picture_its_own_volume(name: str) -> None:
    workload = models.get(name)
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


# --- label maps


def test_cyclegan_is_asked_for_label_maps() -> None:
    from servemark.models.cyclegan import PALETTE

    (image,) = batch_of(models.get("cyclegan"), 3)
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
    (request,) = requests("cyclegan", tmp_path)
    np.testing.assert_allclose(request["image"].mean(axis=(1, 2)), [1, -1, -1], atol=1e-6)


def test_cyclegan_names_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "gtFine").mkdir()
    with pytest.raises(InputDataError, match=r"holds no .*gtFine_color.png"):
        requests("cyclegan", tmp_path)


# --- the language model


def test_enas_scores_tokens_one_by_one_as_in_a_window() -> None:
    """A step at a time in float64, from the arc as the authors' script writes it."""
    arc = [0, 0, 0, 1, 1, 2, 1, 2, 0, 2, 0, 5, 1, 1, 0, 6, 1, 8, 1, 8, 1, 8, 1]
    functions = {0: torch.tanh, 1: torch.relu}
    workload = models.get("enas_tiny")
    model = workload.build().double()
    ids, targets, state = batch_of(workload, 4)
    logprobs, last = answer(model, ids, targets, state.double())
    weight = {name: tensor.double() for name, tensor in model.state_dict().items()}

    def highway(carried: torch.Tensor, gates: torch.Tensor, function: Callable[..., torch.Tensor]) -> torch.Tensor:
        half = gates.shape[1] // 2
        share = 1 / (1 + torch.exp(-gates[:, half:]))
        return (1 - share) * carried + share * function(gates[:, :half])

    hidden = state.double()
    for t in range(ids.shape[1]):
        token = weight["embedding.weight"][ids[:, t].long()]
        nodes = [highway(hidden, torch.cat([token, hidden], 1) @ weight["cell.first.weight"].T, functions[arc[0]])]
        for node, (source, function) in enumerate(zip(arc[1::2], arc[2::2], strict=True)):
            gates = nodes[source] @ weight[f"cell.nodes.{node}.weight"].T
            nodes.append(highway(nodes[source], gates, functions[function]))
        loose = set(range(len(nodes))) - set(arc[1::2])
        hidden = sum((nodes[n] for n in loose), torch.zeros_like(hidden)) / len(loose)
        logits = hidden @ weight["embedding.weight"].T
        expected = logits - logits.exp().sum(1, keepdim=True).log()
        torch.testing.assert_close(logprobs[:, t], expected.gather(1, targets[:, t : t + 1].long()).squeeze(1))
    torch.testing.assert_close(last, hidden)


def test_enas_windows_follow_each_other_through_the_state() -> None:
    workload = models.get("enas_tiny")
    model, (ids, targets, state) = workload.build(), batch_of(workload, 2)
    logprobs, last = answer(model, ids, targets, state)
    half = ids.shape[1] // 2
    other = ids.flip(0)[:, :half]
    first, middle = answer(model, ids[:, :half], targets[:, :half], state)
    second, end = answer(model, ids[:, half:], targets[:, half:], middle)
    torch.testing.assert_close(torch.cat([first, second], 1), logprobs)
    torch.testing.assert_close(end, last)
    forgotten, _ = answer(model, ids[:, half:], targets[:, half:], answer(model, other, other, state)[1])
    assert (forgotten - second).abs().max() > 1e-2


def test_enas_text_ends_its_sentences_and_keeps_state() -> None:
    workload, rng = models.get("enas"), np.random.default_rng(0)
    stream = workload.samples(rng)
    samples = [next(stream) for _ in range(2000)]
    tokens = np.concatenate([sample["ids"] for sample in samples])
    assert (tokens == 0).mean() == pytest.approx(1 / 22, abs=0.006)
    assert all((sample["ids"][1:] == sample["targets"][:-1]).all() for sample in samples)
    assert np.mean([not sample["state"].any() for sample in samples]) == pytest.approx(1 / 20, abs=0.02)


def write_ptb(folder: Path, train: str, test: str) -> Path:
    (folder / "ptb.train.txt").write_text(train)
    (folder / "ptb.test.txt").write_text(test)
    return folder


def test_ptb_vocabulary_goes_by_frequency_then_alphabet(tmp_path: Path) -> None:
    write_ptb(tmp_path, " the cat <unk> \n the dog \n", " cat \n")
    ids = ptb.build_vocabulary(tmp_path / "ptb.train.txt")
    assert ids == {"<eos>": 0, "the": 1, "<unk>": 2, "cat": 3, "dog": 4}


def test_ptb_windows_are_consecutive_and_targets_come_next(tmp_path: Path) -> None:
    line = " ".join(f"w{i}" for i in range(40))
    found = requests("enas", write_ptb(tmp_path, f" {line} \n" * 2, f" {line} \n" * 2))
    text = ptb.build_vocabulary(tmp_path / "ptb.train.txt")
    expected = [text[word] for word in (*line.split(), "<eos>")] * 2
    assert len(found) == 2
    assert np.concatenate([request["ids"] for request in found]).tolist() == expected[:70]
    assert np.concatenate([request["targets"] for request in found]).tolist() == expected[1:71]


@pytest.mark.parametrize(
    ("train", "test", "reason"),
    [
        ("a b\n", "a b\nb c\n", r"ptb.test.txt:2: 'c' is not in the training text"),
        ("a b\n\nc\n", "a\n", r"ptb.train.txt:2 is blank"),
        ("", "a\n", r"ptb.train.txt is empty"),
        ("a b\n", "a b\n", r"ptb.test.txt has 3 tokens, one window needs 36"),
        (" ".join(map(str, range(10_000))), "1\n", r"ptb.train.txt has 10,001 different words"),
    ],
)
def test_odd_text_names_file_and_line(tmp_path: Path, train: str, test: str, reason: str) -> None:
    with pytest.raises(InputDataError, match=reason):
        requests("enas", write_ptb(tmp_path, train, test))


def test_missing_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match=r"ptb.train.txt cannot be read"):
        requests("enas", tmp_path)


def jpeg(picture: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="JPEG", quality=95)
    return buffer.getvalue()
