"""Synthetic speech: utterances of realistic duration and of changing spectrum, for the recognisers' real front ends."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SAMPLE_RATE = 16_000
GAMMA_SHAPE = 2.0
SYLLABLE_S = 0.25
"""Speech is loudest and softest some four times a second (Houtgast & Steeneken 1985, J. Acoust. Soc. Am. 77)."""
LOUDNESS = (0.02, 0.12)
"""Range of an utterance's root mean square, of full scale."""
NOISE = 1e-3  # of a quiet room

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Durations:
    """Durations of utterances: a gamma distribution of shape 2, clipped.

    LibriSpeech's test-clean has 5.4 h in 2,620 utterances, 7.4 s on average, up to 35 s; the shape is our fit.
    """

    mean_s: float = 7.4
    shortest_s: float = 1.3
    longest_s: float = 35.0

    def draw(self, rng: np.random.Generator) -> float:
        """Draw one duration in seconds."""
        return float(np.clip(rng.gamma(GAMMA_SHAPE, self.mean_s / GAMMA_SHAPE), self.shortest_s, self.longest_s))


def waveform(rng: np.random.Generator, duration_s: float) -> Floats:
    """Make an utterance in [-1, 1): syllables of noise, each with two resonances of its own, over quiet noise."""
    from scipy.fft import irfft, rfft, rfftfreq

    samples = int(duration_s * SAMPLE_RATE)
    length = int(SYLLABLE_S * SAMPLE_RATE)
    count = -(-samples // length)
    frequency_hz = rfftfreq(length, 1 / SAMPLE_RATE)
    # the first two formants of vowels (Peterson & Barney 1952), some 150 Hz wide
    formants_hz = np.stack([rng.uniform(250, 900, count), rng.uniform(800, 3200, count)], axis=1)[:, :, None]
    resonances = 1 / (1 + ((frequency_hz - formants_hz) / 150) ** 2)
    spectra = rfft(rng.standard_normal((count, length)), axis=1) * (resonances.sum(axis=1) + 0.02)
    stress = rng.uniform(0.2, 1.0, (count, 1)) * np.sin(np.pi * (np.arange(length) + 0.5) / length) ** 2
    speech = (irfft(spectra, length, axis=1) * stress).ravel()[:samples]
    speech *= rng.uniform(*LOUDNESS) / np.sqrt(np.mean(speech**2))
    speech += rng.normal(0, NOISE, samples)
    clipped: npt.NDArray[np.float32] = np.clip(speech, -1, 1 - 2**-15).astype(np.float32)
    return clipped


def pad_to_bucket(features: Floats, buckets: tuple[int, ...], axis: int) -> Floats:
    """Pad with zeros along `axis` to the next bucket; what is longer than the last keeps its length."""
    frames = features.shape[axis]
    size = next((bucket for bucket in buckets if bucket >= frames), frames)
    widths = [(0, 0)] * features.ndim
    widths[axis] = (0, size - frames)
    return np.pad(features, widths)
