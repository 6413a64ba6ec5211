"""Recordings and the features speech recognisers take of them: DeepSpeech 2's log-spectrogram, DeepSpeech's MFCC.

A waveform is FP32 in [-1, 1), mono, 16 kHz.
"""

import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.errors import InputDataError

Waveform = npt.NDArray[np.float32]
Features = npt.NDArray[np.float32]

SAMPLE_RATE = 16_000
HOP = 160  # samples, 10 ms
FULL_SCALE = 32_768  # of 16-bit samples
SUFFIXES = {".wav", ".flac"}

WINDOW = 320  # samples, 20 ms: 161 frequencies of 50 Hz
MFCC_WINDOW, MFCC_FFT = 400, 512  # samples
MFCC_COEFFICIENTS = MEL_FILTERS = 26
PREEMPHASIS, LIFTER = 0.97, 22


def log_spectrogram(waveform: Waveform) -> Features:
    """Compute log(1 + |STFT|) [161, 1 + samples // 160], of mean 0 and standard deviation 1 over the utterance.

    Frames of 20 ms every 10 ms, centred (the ends mirrored), symmetric Hamming window (scipy's function, which the
    PyTorch port of Deep Speech 2 that AIBench runs hands to librosa; a window given by name would be periodic). Needs
    more than 160 samples.
    """
    from scipy.fft import rfft

    padded = np.pad(waveform, WINDOW // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP] * np.hamming(WINDOW)
    spectrogram = np.log1p(np.abs(rfft(frames, axis=1))).T
    deviation = spectrogram.std(ddof=1) or 1.0  # digital silence
    normalised: Features = ((spectrogram - spectrogram.mean()) / deviation).astype(np.float32)
    return normalised


def mfcc(waveform: Waveform) -> Features:
    """Compute 26 mel-frequency cepstral coefficients [frames, 26], one frame every 20 ms.

    As Mozilla DeepSpeech 0.2: python_speech_features' `mfcc(samples, 16000, numcep=26)` of 16-bit samples
    (pre-emphasis, rectangular windows of 25 ms every 10 ms, liftered, c0 replaced by the log energy), every second
    frame kept.
    """
    from scipy.fft import dct, rfft

    samples = waveform.astype(np.float64) * FULL_SCALE
    samples[1:] -= PREEMPHASIS * samples[:-1]
    count = 1 + max(0, -(-(len(samples) - MFCC_WINDOW) // HOP))
    padded = np.pad(samples, (0, max(0, (count - 1) * HOP + MFCC_WINDOW - len(samples))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, MFCC_WINDOW)[: count * HOP : 2 * HOP]
    power = np.abs(rfft(frames, MFCC_FFT, axis=1)) ** 2 / MFCC_FFT
    cepstra = dct(np.log(_positive(power @ _mel_filters().T)), type=2, axis=1, norm="ortho")[:, :MFCC_COEFFICIENTS]
    cepstra *= 1 + LIFTER / 2 * np.sin(np.pi * np.arange(MFCC_COEFFICIENTS) / LIFTER)
    cepstra[:, 0] = np.log(_positive(power.sum(axis=1)))
    coefficients: Features = cepstra.astype(np.float32)
    return coefficients


def _positive(energy: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Keep the logarithm of digital silence finite."""
    return np.where(energy == 0, np.finfo(np.float64).eps, energy)


def _mel_filters() -> npt.NDArray[np.float64]:
    """Triangles [26, 257] between FFT bins that lie evenly on the mel scale 2595 log10(1 + f / 700), 0 to 8 kHz."""
    top_mel = 2595 * np.log10(1 + SAMPLE_RATE / 2 / 700)
    edges_hz = 700 * (10 ** (np.linspace(0, top_mel, MEL_FILTERS + 2) / 2595) - 1)
    bins = np.floor((MFCC_FFT + 1) * edges_hz / SAMPLE_RATE)
    left, centre, right = bins[:-2, None], bins[1:-1, None], bins[2:, None]
    index = np.arange(MFCC_FFT // 2 + 1)
    rising, falling = (index - left) / (centre - left), (right - index) / (right - centre)
    triangles: npt.NDArray[np.float64] = np.clip(np.minimum(rising, falling), 0, None)
    return triangles


def load(path: Path) -> Waveform:
    """Read a WAV file (16-bit PCM), or a FLAC file with the package soundfile; both mono, 16 kHz.

    Raises InputDataError naming the file.
    """
    waveform, rate = _load_flac(path) if path.suffix.lower() == ".flac" else _load_wav(path)
    channels = 1 if waveform.ndim == 1 else waveform.shape[1]
    if (rate, channels) != (SAMPLE_RATE, 1):
        raise InputDataError(
            f"{path} has {channels} channel(s) at {rate} Hz, not one at {SAMPLE_RATE} Hz",
            fix=f"sox {path.name} -r {SAMPLE_RATE} -c 1 -b 16 converted.wav",
        )
    if len(waveform) <= WINDOW:
        raise InputDataError(f"{path} holds {len(waveform)} samples, less than two windows", fix="remove the file")
    return waveform


def _load_wav(path: Path) -> tuple[Waveform, int]:
    try:
        with wave.open(str(path), "rb") as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            content = file.readframes(file.getnframes())
            whole = len(content) == file.getnframes() * width * channels
    except (OSError, EOFError, wave.Error) as error:
        raise InputDataError(f"{path} is not a readable WAV file: {error}", fix="replace or remove the file") from error
    if width != 2:
        raise InputDataError(
            f"{path} has {8 * width}-bit samples, not 16-bit", fix=f"sox {path.name} -b 16 converted.wav"
        )
    if not whole:
        raise InputDataError(f"{path} is cut short", fix="replace or remove the file")
    waveform = np.frombuffer(content, "<i2").astype(np.float32) / np.float32(FULL_SCALE)
    return (waveform if channels == 1 else waveform.reshape(-1, channels)), rate


def _load_flac(path: Path) -> tuple[Waveform, int]:
    try:
        import soundfile
    except (ImportError, OSError) as error:  # OSError: the package is there, its library libsndfile is not
        raise InputDataError(
            f"{path}: reading FLAC needs the package soundfile ({error})",
            fix="pip install soundfile, or convert to WAV: sox in.flac -b 16 out.wav",
        ) from error
    try:
        waveform, rate = soundfile.read(path, dtype="float32")
    except (OSError, RuntimeError) as error:  # LibsndfileError is a RuntimeError
        raise InputDataError(
            f"{path} is not a readable FLAC file: {error}", fix="replace or remove the file"
        ) from error
    return waveform, int(rate)
