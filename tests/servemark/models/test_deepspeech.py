"""Speech recognition: requests in a few lengths, greedy decoding, recurrences against packed sequences, work."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from servemark.models import deepspeech, deepspeech2, deepspeech_ctc, deepspeech_streaming
from servemark.models.blocks import sequences
from servemark.models.deepspeech import features
from servemark.models.synthesis import speech
from servemark.quality.ctc import best_path
from servemark.workload import get, stack
from tests.support.workload_data import firm_batch

MODULES: dict[str, Any] = {
    "deepspeech": deepspeech,
    "deepspeech_streaming": deepspeech_streaming,
    "deepspeech2": deepspeech2,
}
TINY = [f"{name}_tiny" for name in MODULES]
FRAMES = {
    "deepspeech": {"flops": 490, "flops_without_padding": 371, "flops_longest": 1750},
    "deepspeech2": {"flops": 965, "flops_without_padding": 744, "flops_longest": 3501},
    "deepspeech_tiny": {"flops": 52, "flops_without_padding": 47, "flops_longest": 64},
    "deepspeech_streaming_tiny": {"flops": 52, "flops_without_padding": 47, "flops_longest": 64},
    "deepspeech2_tiny": {"flops": 159, "flops_without_padding": 146, "flops_longest": 201},
}
"""Frames of which a workload's FLOPs are."""


@pytest.mark.parametrize("name", TINY)
def test_requests_come_in_a_few_lengths(name: str) -> None:
    workload = get(name)
    features = workload.inputs[0]
    [axis] = features.variable_axes
    buckets = MODULES[name.removesuffix("_tiny")].TINY.buckets
    seen = set()
    for sample in itertools.islice(workload.samples(np.random.default_rng(0)), 100):
        array = np.moveaxis(sample[features.name], axis - 1, 0)
        frames = int(sample["n_frames"][0])
        assert not array[frames:].any()
        assert array[frames - 1].any()
        assert len(array) == min(bucket for bucket in buckets if bucket >= frames)
        seen.add(len(array))
    assert seen == set(buckets)


def reference_collapse(labels: list[int], blank: int) -> list[int]:
    return [label for label, _ in itertools.groupby(labels) if label != blank]


def test_greedy_decoding_merges_repeats_and_drops_blanks() -> None:
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(rng.integers(0, 4, (200, 12)))
    lengths = torch.from_numpy(rng.integers(0, 13, (200, 1)))
    for blank in (0, 3):
        ids, counts = sequences.best_path(labels, lengths, blank)
        assert (ids.dtype, counts.dtype, ids.shape, counts.shape) == (torch.int32, torch.int32, (200, 12), (200, 1))
        for row, length, found, count in zip(labels, lengths, ids, counts, strict=True):
            expected = reference_collapse(row[: int(length)].tolist(), blank)
            assert found.tolist() == expected + [0] * (12 - len(expected))
            assert int(count) == len(expected)


def test_sequences_are_reversed_within_their_lengths() -> None:
    sequence = torch.arange(10).reshape(2, 5, 1)
    reversed_ = sequences.reverse_within(sequence, torch.tensor([[3], [5]]))
    assert reversed_.squeeze(2).tolist() == [[2, 1, 0, 3, 4], [9, 8, 7, 6, 5]]


def test_bidirectional_layers_are_those_of_packed_sequences() -> None:
    model = get("deepspeech2_tiny").build()
    ours: Any = model.get_submodule("layers.0")
    inputs, units = ours.forwards.input_size, ours.forwards.hidden_size
    theirs = nn.GRU(inputs, units, batch_first=True, bidirectional=True)
    for name, parameter in ours.forwards.named_parameters():
        theirs.get_parameter(name).data = parameter.data
        theirs.get_parameter(f"{name}_reverse").data = ours.backwards.get_parameter(name).data
    sequence, lengths = torch.randn(4, 20, inputs), torch.tensor([20, 3, 11, 1])
    packed = nn.utils.rnn.pack_padded_sequence(sequence, lengths, batch_first=True, enforce_sorted=False)
    with torch.no_grad():
        both = nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)[0]
        found = ours(sequence, lengths[:, None])
    mask = sequences.within(lengths[:, None], 20).unsqueeze(2)
    torch.testing.assert_close(found * mask, both[..., :units] + both[..., units:], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", TINY)
def test_an_answer_depends_on_the_utterance_alone(name: str) -> None:
    """Neither on the length it is padded to, nor on what the padding holds, nor on a length beyond the array."""
    workload = get(name)
    model, features = workload.build(), workload.inputs[0]
    [axis] = features.variable_axes
    batch = firm_batch(model, workload, 8, seed=1)
    samples = [{t.name: part[row].numpy() for t, part in zip(workload.inputs, batch, strict=True)} for row in range(8)]
    together = [part.numpy() for part in model(*batch)]
    assert len({int(count) for count in together[1][:, 0]}) > 3
    for sample, ids, count in zip(samples, *together, strict=True):
        frames = int(sample["n_frames"][0])
        bare = np.moveaxis(np.moveaxis(sample[features.name], axis - 1, 0)[:frames], 0, axis - 1)
        noisy = np.concatenate([bare, np.ones_like(bare)], axis=axis - 1)
        for array, length in ((bare, frames), (noisy, frames), (bare, frames + 1000)):
            inputs = torch.from_numpy(np.ascontiguousarray(array))[None], torch.tensor([[length]], dtype=torch.int32)
            own_ids, own_count = (part.numpy()[0] for part in model(*inputs))
            assert own_count == count
            np.testing.assert_array_equal(own_ids[: count[0]], ids[: count[0]])
            assert not own_ids[count[0] :].any()


def test_both_directions_are_those_of_packed_sequences() -> None:
    model: Any = get("deepspeech_tiny").build()
    forwards, backwards = model.lstm
    theirs = nn.LSTM(forwards.input_size, forwards.hidden_size, batch_first=True, bidirectional=True)
    for name, parameter in forwards.named_parameters():
        theirs.get_parameter(name).data = parameter.data
        theirs.get_parameter(f"{name}_reverse").data = backwards.get_parameter(name).data
    seen: dict[str, torch.Tensor] = {}
    model.before.register_forward_hook(lambda *call: seen.update(inputs=call[-1]))
    model.after.register_forward_pre_hook(lambda _, inputs: seen.update(states=inputs[0]))
    n_frames = torch.tensor([[30], [3], [17], [1]], dtype=torch.int32)
    with torch.no_grad():
        model(torch.randn(4, 30, 26), n_frames)
        lengths = n_frames[:, 0].long()
        packed = nn.utils.rnn.pack_padded_sequence(seen["inputs"], lengths, batch_first=True, enforce_sorted=False)
        both = nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)[0]
    mask = sequences.within(n_frames, 30).unsqueeze(2)
    torch.testing.assert_close(seen["states"] * mask, both, atol=1e-5, rtol=0)


def test_the_network_of_ai_matrix_has_the_size_of_its_file() -> None:
    """490,978,889 bytes are Mozilla 0.1.1's fp32 parameters, with one bias vector in each direction, and a graph."""
    with torch.device("meta"):
        model = deepspeech.network(deepspeech.Sizes())
    second = sum(p.numel() for name, p in model.named_parameters() if "bias_hh" in name)
    parameters = sum(p.numel() for p in model.parameters()) - second
    assert parameters == 122_732_573
    assert 490_978_889 - 4 * parameters == 48_597


def test_cepstra_are_whitened_over_the_windows() -> None:
    waveform = speech.waveform(np.random.default_rng(0), 1.0)
    ours, plain = (features(deepspeech.Sizes(bidirectional=both), waveform) for both in (True, False))
    padded = np.concatenate([np.zeros((9, 26)), plain, np.zeros((9, 26))])
    windows = np.stack([padded[i : i + 19] for i in range(len(plain))])
    np.testing.assert_allclose(ours, (plain - windows.mean()) / windows.std(), atol=1e-5)


def test_windows_hold_nine_frames_on_either_side() -> None:
    model: Any = get("deepspeech_tiny").build()
    seen: list[torch.Tensor] = []
    model.before.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    cepstra = torch.randn(1, 40, 26)
    model(cepstra, torch.tensor([[30]], dtype=torch.int32))
    [windows] = seen
    for t in (0, 5, 20, 29, 39):
        frames = [cepstra[0, i] if 0 <= i < 30 else torch.zeros(26) for i in range(t - 9, t + 10)]
        assert torch.equal(windows[0, t], torch.cat(frames))


@pytest.mark.parametrize("name", [*MODULES, *TINY])
def test_frames_of_the_mean_request_are_those_that_the_generator_draws(name: str) -> None:
    """As many as it has, and as many as it is padded to."""
    module, rng = MODULES[name.removesuffix("_tiny")], np.random.default_rng(0)
    sizes = module.TINY if name.endswith("_tiny") else getattr(module, "FULL", None) or module.Sizes()
    seconds = [sizes.durations.draw(rng) for _ in range(20_000)]
    spoken = [_frames(module is deepspeech2, int(each * 16_000)) for each in seconds]
    padded = [next(size for size in sizes.buckets if size >= frames) for frames in spoken]
    expected = FRAMES.get(name) or FRAMES["deepspeech"]
    assert np.mean(spoken) == pytest.approx(expected["flops_without_padding"], rel=0.02)
    assert np.mean(padded) == pytest.approx(expected["flops"], rel=0.02)


@pytest.mark.parametrize("name", TINY)
def test_a_waveform_has_as_many_frames_as_its_samples_make(name: str) -> None:
    module = MODULES[name.removesuffix("_tiny")]
    sample = (deepspeech2 if module is deepspeech2 else deepspeech).sample
    for samples in (9_600, 9_999, 20_480):
        silence = sample(module.TINY, np.full(samples, 0.1, np.float32))
        assert int(silence["n_frames"][0]) == _frames(module is deepspeech2, samples)


def _frames(spectrogram: bool, samples: int) -> int:
    """Of 20 ms every 10 ms, centred; or every second one of 25 ms every 10 ms."""
    return 1 + samples // 160 if spectrogram else (1 + -(-(samples - 400) // 160) + 1) // 2


def recurrent_flops(model: nn.Module, steps: int) -> int:
    """Twice the weights of all recurrent and dense layers, in every step; biases add nothing."""
    layers = (module for module in model.modules() if isinstance(module, nn.RNNBase | nn.Linear))
    return sum(2 * p.numel() * steps for layer in layers for p in layer.parameters() if p.ndim == 2)


def test_log_probabilities_decoded_greedily_are_the_letters_of_deepspeech() -> None:
    """The same weights, with the decoder in the graph and without it; what follows an utterance is 0."""
    letters, whole = (deepspeech.build("deepspeech_tiny", m.TINY) for m in (deepspeech, deepspeech_ctc))
    assert replace(deepspeech.TINY, decoded=False) == deepspeech_ctc.TINY
    workload = get("deepspeech_ctc_tiny")
    samples = list(itertools.islice(workload.samples(np.random.default_rng(1)), 8))
    batch = [torch.from_numpy(array) for array in stack(samples, workload.inputs).values()]
    with torch.no_grad():
        ids, counts = (part.numpy() for part in letters(*batch))
        answers = whole(*batch).numpy()
    said: list[str] = []
    for sample, *decoded, log_probs in zip(samples, ids, counts, answers, strict=True):
        own, length = deepspeech.log_probs({"log_probs": log_probs}), int(sample["n_frames"][0])
        assert len(own) == length
        np.testing.assert_array_equal(own, log_probs[:length])
        np.testing.assert_allclose(np.exp(own).sum(axis=1), 1, rtol=1e-4)
        said.append(best_path((*deepspeech.LABELS, ""), own))
        assert said[-1] == deepspeech.transcript(dict(zip(("ids", "lengths"), decoded, strict=True)))
    assert all(said)
    assert len(set(said)) == len(samples)


@pytest.mark.parametrize("figure", ["flops", "flops_without_padding", "flops_longest"])
@pytest.mark.parametrize("name", TINY)
def test_flops_are_twice_the_multiplications(name: str, figure: str) -> None:
    """Of as many frames as the mean request is padded to, as it has, and as the longest one has."""
    workload = get(name)
    frames = FRAMES[name][figure]
    model = workload.build()
    convolutions = 0

    def count(layer: nn.Module, _: Any, output: torch.Tensor) -> None:
        nonlocal convolutions
        convolutions += 2 * layer.get_parameter("weight")[0].numel() * output[0].numel()

    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(count)
    shape = [1, *(frames if size == -1 else size for size in workload.inputs[0].shape)]
    model(torch.randn(shape), torch.tensor([[frames]], dtype=torch.int32))
    steps = (frames + 1) // 2 if name.startswith("deepspeech2") else frames
    assert recurrent_flops(model, steps) + convolutions == getattr(workload, figure)
