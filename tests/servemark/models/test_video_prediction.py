"""Video prediction: the robot's records, the paper's convolutions, what each frame depends on."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from servemark.errors import InputDataError
from servemark.workload import get
from tests.support.tfrecords import example, record
from tests.support.workload_data import answer, batch_of, read_requests


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
    first, second = read_requests("video_prediction", tmp_path)
    np.testing.assert_array_equal(first["actions"], commands[:10])
    np.testing.assert_array_equal(first["state"], poses[0])
    np.testing.assert_allclose(second["frames"].mean(axis=(0, 2, 3)) * 255, [200, 100, 50], atol=3)
    features["move/1/image/encoded"] = b"\xff\xd8 no picture"
    path = tmp_path / "push_testseen" / "damaged.tfrecord"
    path.write_bytes(record(example(features)))
    with pytest.raises(
        InputDataError, match=r"damaged.tfrecord, record 1: move/1/image/encoded is not a readable picture"
    ):
        read_requests("video_prediction", path)


def test_moved_frames_are_the_depthwise_convolutions_of_the_paper() -> None:
    """Each sample with its own kernels: the reference form, a grouped convolution, sample by sample."""
    from torch.nn import functional

    workload = get("video_prediction_tiny")
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
    workload = get("video_prediction_tiny")
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
