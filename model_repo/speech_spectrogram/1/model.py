"""Waveform to log-spectrogram for Triton's Python backend, with numpy alone: it runs in NVIDIA's container as well.

The same formula as servemark.datasets._audio.log_spectrogram, which a test holds it to.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as triton

try:  # servemark's own Triton may run on a numpy that its stub does not know (servers/triton_backend/tensors.py)
    from servers.triton_backend.tensors import read, write
except ImportError:  # the stub defines triton.Tensor after it has imported this module

    def read(tensor: "triton.Tensor") -> npt.NDArray[np.generic]:
        """View a request's tensor."""
        return tensor.as_numpy()

    def write(name: str, array: npt.NDArray[np.generic]) -> "triton.Tensor":
        """Wrap an array for a response."""
        return triton.Tensor(name, array)


HOP, WINDOW = 160, 320  # samples at 16 kHz: 10 and 20 ms
HAMMING = np.hamming(WINDOW)
BUCKETS = (401, 801, 1201, 1601, 2401, 3501)  # frames


def log_spectrogram(waveform: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Compute log(1 + |STFT|) [161, 1 + samples // 160], of mean 0 and standard deviation 1."""
    padded = np.pad(waveform, WINDOW // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP] * HAMMING
    spectrogram = np.log1p(np.abs(np.fft.rfft(frames, axis=1))).T
    deviation = spectrogram.std(ddof=1) or 1.0
    return ((spectrogram - spectrogram.mean()) / deviation).astype(np.float32)


class TritonPythonModel:
    """One instance of the model."""

    def execute(self, requests: "Sequence[triton.InferenceRequest]") -> "list[triton.InferenceResponse]":
        """Answer each request by itself."""
        return [respond(request) for request in requests]


def respond(request: "triton.InferenceRequest") -> "triton.InferenceResponse":
    """Make the spectrograms of one request's waveforms [batch, samples]."""
    waveforms = read(triton.get_input_tensor_by_name(request, "waveform"))
    if waveforms.shape[1] <= WINDOW // 2:
        error = f"waveform has {waveforms.shape[1]} samples; at least {WINDOW // 2 + 1} are needed"
        return triton.InferenceResponse(error=triton.TritonError(error))
    spectrograms = np.stack([log_spectrogram(waveform) for waveform in waveforms])
    count, _, frames = spectrograms.shape
    size = next((bucket for bucket in BUCKETS if bucket >= frames), frames)
    return triton.InferenceResponse(
        [
            write("spect", np.pad(spectrograms, ((0, 0), (0, 0), (0, size - frames)))),
            write("n_frames", np.full((count, 1), frames, np.int32)),
        ]
    )
