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
    with pytest.raises(InputDataError, match=r"ptb.train.txt is not there"):
        requests("enas", tmp_path)


# --- video prediction


def jpeg(picture: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="JPEG", quality=95)
    return buffer.getvalue()


def test_video_reads_the_start_of_each_push(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    poses, commands = rng.random((2, 12, 5), np.float32)
    frame = np.zeros((512, 640, 3), np.uint8)
    frame[:, 64:576] = (200, 100, 50)  # the central square
    features: dict[str, Any] = {}
    for t in range(12):
        features[f"move/{t}/image/encoded"] = jpeg(frame)
        features[f"move/{t}/commanded_pose/vec_pitch_yaw"] = commands[t]
        features[f"move/{t}/endeffector/vec_pitch_yaw"] = poses[t]
    for split, count in (("push_testseen", 2), ("push_train", 1)):
        (tmp_path / split).mkdir()
        (tmp_path / split / f"{split}.tfrecord-00000-of-00005").write_bytes(record(example(features)) * count)
    first, second = requests("video_prediction", tmp_path)
    np.testing.assert_array_equal(first["actions"], commands[:10])
    np.testing.assert_array_equal(first["state"], poses[0])
    np.testing.assert_allclose(second["frames"].mean(axis=(0, 2, 3)) * 255, [200, 100, 50], atol=3)
    features["move/1/image/encoded"] = b"\xff\xd8 no picture"
    path = tmp_path / "push_testseen" / "damaged.tfrecord"
    path.write_bytes(record(example(features)))
    with pytest.raises(
        InputDataError, match=r"damaged.tfrecord, record 1: move/1/image/encoded is no readable picture"
    ):
        requests("video_prediction", path)


def test_moved_frames_are_the_depthwise_convolutions_of_the_paper() -> None:
    """Each sample with its own kernels: the reference form, a grouped convolution, sample by sample."""
    from torch.nn import functional

    workload = models.get("video_prediction_tiny")
    model, inputs = workload.build(), batch_of(workload, 3)
    kernels: list[torch.Tensor] = []
    masks: list[torch.Tensor] = []
    drawn: list[torch.Tensor] = []
    for name, calls in (("kernels", kernels), ("masks", masks), ("scratch", drawn)):
        model.get_submodule(name).register_forward_hook(lambda _m, _i, output, calls=calls: calls.append(output))
    frames, _ = answer(model, *inputs)
    for t in range(frames.shape[1]):
        last = inputs[0][:, t] if t < 2 else frames[:, t - 1]
        share = torch.relu(masks[t]).softmax(dim=1)
        expected = share[:, :1] * last + share[:, 1:2] * torch.sigmoid(torch.relu(drawn[t]))
        for row in range(len(last)):
            kernel = torch.relu(kernels[t][row].view(-1, 1, 5, 5) - 1e-12) + 1e-12
            kernel = kernel / kernel.sum(dim=(2, 3), keepdim=True)
            moved = functional.conv2d(last[row][:, None], kernel, padding=2)  # [3, masks, S, S]
            for mask in range(2, share.shape[1]):
                expected[row] += share[row, mask] * moved[:, mask - 2]
        torch.testing.assert_close(frames[:, t], expected, atol=1e-5, rtol=1e-4)


def test_video_depends_on_both_frames_and_on_each_action_but_the_last() -> None:
    workload = models.get("video_prediction_tiny")
    model, (frames, actions, state) = workload.build(), batch_of(workload, 2)
    pictures, states = answer(model, frames, actions, state)
    for t in range(actions.shape[1]):
        changed = actions.clone()
        changed[:, t] += 1
        other, moved = answer(model, frames, changed, state)
        differs = [not torch.equal(other[:, k], pictures[:, k]) for k in range(pictures.shape[1])]
        assert differs == [k >= t for k in range(pictures.shape[1])]
        assert torch.equal(states[:, :t], moved[:, :t])
    second = frames.clone()
    second[:, 1] = 1 - second[:, 1]
    other, _ = answer(model, second, actions, state)
    assert torch.equal(other[:, 0], pictures[:, 0])
    assert not torch.equal(other[:, 1], pictures[:, 1])


# --- compression


def test_codec_bits_alone_give_the_reconstruction() -> None:
    """A decoder that sees nothing but the codes answers the same picture: what is served is a real code."""
    workload = models.get("image_compression_tiny")
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
    workload = models.get("image_compression_tiny")
    codes, _ = answer(workload.build(), *batch_of(workload, 32))
    assert set(codes.flatten().tolist()) == {0, 1}
    ones = codes.float().mean(dim=(0, 3, 4))  # of each bit of each iteration
    assert ((ones > 0.02) & (ones < 0.98)).all()
    assert not torch.equal(codes[:, 0], codes[:, 1])


def test_kodak_is_cut_into_tiles(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (512, 768, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "kodim01.png")
    found = requests("image_compression", tmp_path)
    assert len(found) == 6
    np.testing.assert_allclose(found[4]["image"] * 255, pixels[256:, 256:512].transpose(2, 0, 1), atol=1e-3)
    Image.new("RGB", (300, 200)).save(tmp_path / "small.png")
    with pytest.raises(InputDataError, match=r"small.png is 300 x 200, smaller than 256 x 256"):
        requests("image_compression", tmp_path)
