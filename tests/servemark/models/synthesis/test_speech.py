"""Speech front ends by their formulas, and the utterances that stand for LibriSpeech's."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import signal

from servemark.datasets import _audio
from servemark.models.synthesis import speech as _speech

Floats = npt.NDArray[np.floating[Any]]


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
    hamming = signal.get_window("hamming", 320, fftbins=False)  # symmetric
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


def test_what_is_longer_than_every_bucket_keeps_its_length() -> None:
    assert _speech.pad_to_bucket(np.ones((2, 7), np.float32), (3, 5), axis=1).shape == (2, 7)
