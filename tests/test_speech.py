"""Speech recognition: front ends by their formulas, greedy decoding, recurrences against packed sequences, readers."""

import itertools
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from exporters._job import golden_inputs
from servemark import models
from servemark.datasets import _audio, librispeech
from servemark.errors import InputDataError
from servemark.models import _ctc, _speech, deepspeech, deepspeech2

Floats = npt.NDArray[np.floating[Any]]
TINY = ["deepspeech_tiny", "deepspeech2_tiny"]


def speech(samples: int) -> _audio.Waveform:
    return _speech.waveform(np.random.default_rng(0), 2.0)[:samples]


def fourier(frames: Floats, size: int) -> Floats:
    """Magnitudes of the discrete Fourier transform by its definition, of frames padded with zeros to `size`."""
    basis = np.exp(-2j * np.pi * np.outer(np.arange(frames.shape[1]), np.arange(size // 2 + 1)) / size)
    magnitudes: Floats = np.abs(frames @ basis)
    return magnitudes


@pytest.mark.parametrize("samples", [161, 320, 16_000, 16_159, 16_161])
def test_spectrogram_is_its_definition(samples: int) -> None:
    waveform = speech(samples).astype(np.float64)
    mirrored = np.concatenate([waveform[160:0:-1], waveform, waveform[-2:-162:-1]])
    hamming = np.hamming(321)[:320]  # the symmetric window of one more, without its last value, is the periodic one
    frames = np.stack([mirrored[160 * i : 160 * i + 320] * hamming for i in range(1 + samples // 160)])
    expected = np.log(1 + fourier(frames, 320)).T
    expected = (expected - expected.mean()) / expected.std(ddof=1)
    found = _audio.log_spectrogram(waveform.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize(("samples", "frames"), [(300, 1), (400, 1), (401, 1), (561, 2), (16_000, 50), (16_100, 50)])
def test_cepstra_are_their_definition(samples: int, frames: int) -> None:
    waveform = speech(samples)
    found = _audio.mfcc(waveform)
    assert found.shape == (frames, 26)
    signal = waveform.astype(np.float64) * 32_768
    emphasised = np.append(signal[0], signal[1:] - 0.97 * signal[:-1])
    emphasised = np.append(emphasised, np.zeros(400))
    for i, row in enumerate(found):
        power = fourier(emphasised[None, 320 * i : 320 * i + 400], 512)[0] ** 2 / 512
        mel_hz = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 28) / 2595) - 1)
        edges = [int(513 * hz / 16_000) for hz in mel_hz]
        energies = []
        for left, centre, right in zip(edges, edges[1:], edges[2:], strict=False):
            rising = sum(power[k] * (k - left) / (centre - left) for k in range(left, centre))
            energies.append(rising + sum(power[k] * (right - k) / (right - centre) for k in range(centre, right)))
        logs, n = np.log(energies), np.arange(26)
        cepstra = np.array([np.sum(logs * np.cos(np.pi * k * (2 * n + 1) / 52)) for k in range(26)]) * np.sqrt(2 / 26)
        cepstra *= 1 + 11 * np.sin(np.pi * n / 22)
        cepstra[0] = np.log(power.sum())
        np.testing.assert_allclose(row, cepstra, atol=1e-3)


def test_silence_has_finite_features() -> None:
    silence = np.zeros(16_000, np.float32)
    assert not _audio.log_spectrogram(silence).any()
    assert np.isfinite(_audio.mfcc(silence)).all()


def test_utterances_last_as_long_as_librispeechs_and_differ() -> None:
    rng = np.random.default_rng(0)
    durations = _speech.Durations()
    drawn = np.array([durations.draw(rng) for _ in range(20_000)])
    assert drawn.mean() == pytest.approx(7.4, abs=0.2)
    assert (drawn.min(), drawn.max()) == (1.3, 35.0)
    one, other = _speech.waveform(rng, 1.3), _speech.waveform(rng, 1.3)
    assert len(one) == 20_800
    assert one.dtype == np.float32
    assert np.abs(one).max() < 1
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.1


@pytest.mark.parametrize("name", TINY)
def test_requests_come_in_a_few_lengths(name: str) -> None:
    workload = models.get(name)
    features = workload.inputs[0]
    [axis] = features.variable_axes
    buckets = (deepspeech2 if name.startswith("deepspeech2") else deepspeech).TINY.buckets
    seen = set()
    for sample in itertools.islice(workload.samples(np.random.default_rng(0)), 100):
        array = np.moveaxis(sample[features.name], axis - 1, 0)
        frames = int(sample["n_frames"][0])
        assert not array[frames:].any()
        assert array[frames - 1].any()
        assert len(array) == min(bucket for bucket in buckets if bucket >= frames)
        seen.add(len(array))
    assert seen == set(buckets)


def test_what_is_longer_than_every_bucket_keeps_its_length() -> None:
    assert _speech.pad_to_bucket(np.ones((2, 7), np.float32), (3, 5), axis=1).shape == (2, 7)


def reference_collapse(labels: list[int], blank: int) -> list[int]:
    return [label for label, _ in itertools.groupby(labels) if label != blank]


def test_greedy_decoding_merges_repeats_and_drops_blanks() -> None:
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(rng.integers(0, 4, (200, 12)))
    lengths = torch.from_numpy(rng.integers(0, 13, (200, 1)))
    for blank in (0, 3):
        ids, counts = _ctc.greedy(labels, lengths, blank)
        assert (ids.dtype, counts.dtype, ids.shape, counts.shape) == (torch.int32, torch.int32, (200, 12), (200, 1))
        for row, length, found, count in zip(labels, lengths, ids, counts, strict=True):
            expected = reference_collapse(row[: int(length)].tolist(), blank)
            assert found.tolist() == expected + [0] * (12 - len(expected))
            assert int(count) == len(expected)


def test_sequences_are_reversed_within_their_lengths() -> None:
    sequence = torch.arange(10).reshape(2, 5, 1)
    reversed_ = _ctc.reverse_within(sequence, torch.tensor([[3], [5]]))
    assert reversed_.squeeze(2).tolist() == [[2, 1, 0, 3, 4], [9, 8, 7, 6, 5]]


def test_bidirectional_layers_are_those_of_packed_sequences() -> None:
    model = models.get("deepspeech2_tiny").build()
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
    mask = _ctc.within(lengths[:, None], 20).unsqueeze(2)
    torch.testing.assert_close(found * mask, both[..., :units] + both[..., units:], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", TINY)
def test_an_answer_depends_on_the_utterance_alone(name: str) -> None:
    """Neither on the length it is padded to, nor on what the padding holds, nor on a length beyond the array."""
    workload = models.get(name)
    model, features = workload.build(), workload.inputs[0]
    [axis] = features.variable_axes
    samples = list(itertools.islice(workload.samples(np.random.default_rng(1)), 8))
    batch = models.stack(samples, workload.inputs)
    together = [part.numpy() for part in model(*map(torch.from_numpy, batch.values()))]
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


def test_windows_hold_nine_frames_on_either_side() -> None:
    model: Any = models.get("deepspeech_tiny").build()
    seen: list[torch.Tensor] = []
    model.before.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    cepstra = torch.randn(1, 40, 26)
    model(cepstra, torch.tensor([[30]], dtype=torch.int32))
    [windows] = seen
    for t in (0, 5, 20, 29, 39):
        frames = [cepstra[0, i] if 0 <= i < 30 else torch.zeros(26) for i in range(t - 9, t + 10)]
        assert torch.equal(windows[0, t], torch.cat(frames))


def recurrent_flops(model: nn.Module, steps: int) -> int:
    """Twice the weights of all recurrent and dense layers, in every step; biases add nothing."""
    layers = (module for module in model.modules() if isinstance(module, nn.RNNBase | nn.Linear))
    return sum(2 * p.numel() * steps for layer in layers for p in layer.parameters() if p.ndim == 2)


@pytest.mark.parametrize(("name", "frames"), [("deepspeech2_tiny", 201), ("deepspeech_tiny", 64)])
def test_flops_are_twice_the_multiplications(name: str, frames: int) -> None:
    workload = models.get(name)
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
    assert recurrent_flops(model, steps) + convolutions == workload.flops


@pytest.mark.parametrize("name", TINY)
def test_golden_samples_have_no_near_ties(name: str) -> None:
    """Engines differ by some 1e-5 in the logits: a label that hangs on less would make the ids a matter of luck."""
    workload = models.get(name)
    model, inputs = workload.build(), golden_inputs(workload)
    seen: list[torch.Tensor] = []
    model.get_submodule("classifier").register_forward_hook(lambda *call: seen.append(call[-1]))
    model(*(torch.from_numpy(inputs[tensor.name]) for tensor in workload.inputs))
    steps = torch.from_numpy(inputs["n_frames"])
    lengths = (steps + 1) // 2 if name.startswith("deepspeech2") else steps
    best = seen[0][_ctc.within(lengths, seen[0].shape[1])].topk(2, dim=1).values
    assert (best[:, 0] - best[:, 1]).min() > 1e-3


def write_wav(
    path: Path, samples: npt.NDArray[np.int16], rate: int = 16_000, channels: int = 1, width: int = 2
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return path


RAMP = np.arange(-8_000, 8_000, dtype=np.int16)


def chapter(root: Path) -> Path:
    """Two utterances in LibriSpeech's layout; returns the transcript."""
    folder = root / "LibriSpeech" / "test-clean" / "1089" / "134686"
    for number in (0, 1):
        write_wav(folder / f"1089-134686-000{number}.wav", RAMP + number)
    transcript = folder / "1089-134686.trans.txt"
    transcript.write_text("1089-134686-0000 HE HOPED THERE WOULD BE STEW\n1089-134686-0001 STUFF IT INTO YOU\n")
    return transcript


def test_librispeech_layout_is_read_in_order(tmp_path: Path) -> None:
    chapter(tmp_path)
    write_wav(tmp_path / "LibriSpeech" / "dev-clean" / "1" / "2" / "1-2-0000.wav", RAMP)  # not test-clean
    first, second = librispeech.read(tmp_path)
    assert (first.path.name, first.text) == ("1089-134686-0000.wav", "HE HOPED THERE WOULD BE STEW")
    assert second.text == "STUFF IT INTO YOU"
    np.testing.assert_array_equal(first.waveform * 32_768, RAMP)


def test_folder_of_recordings_is_read_without_transcripts(tmp_path: Path) -> None:
    for name in ("sense_and_sensibility_01.wav", "cards/001.wav"):
        write_wav(tmp_path / name, RAMP)
    assert [(u.path.name, u.text) for u in librispeech.read(tmp_path)] == [
        ("001.wav", None),
        ("sense_and_sensibility_01.wav", None),
    ]


@pytest.mark.parametrize("name", ["deepspeech", "deepspeech2"])
def test_requests_from_recordings_are_the_front_ends_features(tmp_path: Path, name: str) -> None:
    chapter(tmp_path)
    read = models.get(name).read
    assert read is not None
    sample, _ = read(tmp_path)
    waveform = (RAMP / np.float32(32_768)).astype(np.float32)
    if name == "deepspeech":
        np.testing.assert_array_equal(sample["mfcc"][:50], _audio.mfcc(waveform))
        assert (sample["mfcc"].shape, sample["n_frames"].tolist()) == ((128, 26), [50])
    else:
        np.testing.assert_array_equal(sample["spect"][:, :101], _audio.log_spectrogram(waveform))
        assert (sample["spect"].shape, sample["n_frames"].tolist()) == ((161, 401), [101])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1089-134686-0002", "is no utterance"),
        ("1089-134686-0002 ", "is no utterance"),
        ("", "is no utterance"),
        ("1089-134687-0002 TEXT", "is no utterance of chapter 1089-134686"),
        ("1089-134686-x TEXT", "is no utterance"),
        ("1089-134686-0002 TEXT", "1089-134686-0002.flac is not there"),
    ],
)
def test_damaged_transcripts_name_file_and_line(tmp_path: Path, line: str, reason: str) -> None:
    transcript = chapter(tmp_path)
    transcript.write_text(f"{transcript.read_text()}{line}\n")
    with pytest.raises(InputDataError, match=reason) as caught:
        list(librispeech.read(tmp_path))
    assert f"{transcript}:3" in caught.value.what


def test_damaged_recordings_name_the_file(tmp_path: Path) -> None:
    whole = write_wav(tmp_path / "whole.wav", RAMP).read_bytes()
    cut, empty, text = (tmp_path / f"{name}.wav" for name in ("cut", "empty", "text"))
    cut.write_bytes(whole[:-1000])
    empty.write_bytes(b"")
    text.write_bytes(b"RIFF it is not")
    bad = {
        cut: "is cut short",
        empty: "no readable WAV",
        text: "no readable WAV",
        write_wav(tmp_path / "slow.wav", RAMP, rate=8_000): r"1 channel\(s\) at 8000 Hz",
        write_wav(tmp_path / "stereo.wav", RAMP, channels=2): r"2 channel\(s\) at 16000 Hz",
        write_wav(tmp_path / "bytes.wav", RAMP, width=1): "8-bit samples",
        write_wav(tmp_path / "click.wav", RAMP[:320]): "320 samples",
    }
    for path, reason in bad.items():
        with pytest.raises(InputDataError, match=reason) as caught:
            _audio.load(path)
        assert path.name in caught.value.what
        assert caught.value.fix


def test_folder_without_recordings_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="neither"):
        librispeech.read(tmp_path)


def test_flac_without_its_package_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(InputDataError, match="needs the package soundfile") as caught:
        _audio.load(tmp_path / "a.flac")
    assert "pip install soundfile" in str(caught.value)


def test_official_flac_is_read(tmp_path: Path) -> None:
    import soundfile

    transcript = chapter(tmp_path)
    for wav in transcript.parent.glob("*.wav"):
        samples, rate = soundfile.read(wav, dtype="int16")
        soundfile.write(wav.with_suffix(".flac"), samples, rate)
        wav.unlink()
    first, _ = librispeech.read(tmp_path)
    assert first.path.suffix == ".flac"
    np.testing.assert_array_equal(first.waveform * 32_768, RAMP)
