"""DeepSpeech: speech recognition from cepstra with one recurrence that only looks back (AI Matrix).

Hannun et al. 2014, "Deep Speech: Scaling up end-to-end speech recognition", in the form of Mozilla DeepSpeech 0.2 that
AI Matrix ships: three dense layers over 19 frames, an LSTM of 2048 units forwards in time (the paper's recurrence runs
in both directions), two dense layers. Labels are Mozilla's alphabet counted from 1, since 0 is padding: space, a to z,
apostrophe. Decoding is greedy; Mozilla's beam search with a language model is left to the client. FLOPs are those of an
utterance of 12.3 s (616 frames), the mean of LibriSpeech's training set.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from servemark.datasets import librispeech
from servemark.datasets._audio import MFCC_COEFFICIENTS, Waveform, mfcc
from servemark.models.blocks import ctc
from servemark.models.blocks.weights import seeded
from servemark.models.synthesis import speech
from servemark.workload import Quality, Sample, Slo, Tensor, Variant, define

if TYPE_CHECKING:
    from torch import nn

LABELS = " abcdefghijklmnopqrstuvwxyz'"
BLANK = len(LABELS)
CONTEXT = 9  # frames on either side
CLIP = 20.0
FORGET_BIAS = 1.0
LOGIT_DEVIATION = 3.0
CALIBRATION_UTTERANCES, CALIBRATION_S = 4, 3.0


@dataclass(frozen=True)
class Sizes:
    """Units of every layer; durations and padded lengths of requests."""

    units: int = 2048
    durations: speech.Durations = speech.Durations()  # noqa: RUF009 - frozen
    buckets: tuple[int, ...] = (128, 256, 512, 768, 1024, 1750)
    """Frames of 20 ms."""


def network(sizes: Sizes) -> "nn.Module":
    """Define the network: (mfcc [B, T, 26], n_frames [B, 1]) -> ids [B, T], lengths [B, 1]."""
    import torch
    from torch import nn

    class Dense(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.hardtanh(super().forward(x), 0, CLIP)

    class DeepSpeech(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            units = sizes.units
            window = (2 * CONTEXT + 1) * MFCC_COEFFICIENTS
            self.before = nn.Sequential(Dense(window, units), Dense(units, units), Dense(units, units))
            self.lstm = nn.LSTM(units, units, batch_first=True)
            self.after = Dense(units, units)
            self.classifier = nn.Linear(units, len(LABELS) + 1)

        def logits(self, mfcc: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
            count = mfcc.shape[1]
            # what lies before the utterance and behind it is 0, not the cepstra of silence
            spoken = mfcc * ctc.within(frames, count).unsqueeze(2)
            padded = nn.functional.pad(spoken, (0, 0, CONTEXT, CONTEXT))
            windows = torch.cat([padded[:, i : i + count] for i in range(2 * CONTEXT + 1)], dim=2)
            states, _ = self.lstm(self.before(windows))
            logits: torch.Tensor = self.classifier(self.after(states))
            return logits

        def forward(self, mfcc: torch.Tensor, n_frames: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            frames = n_frames.long().clamp(0, mfcc.shape[1])
            return ctc.greedy(self.logits(mfcc, frames).argmax(dim=2) + 1, frames, BLANK + 1)

    return DeepSpeech()


def build(name: str, sizes: Sizes) -> "nn.Module":
    """Seed the network, with every layer's activations of order 1 on some utterances, as batch statistics would.

    Layer by layer (Mishkin & Matas 2016, "All you need is a good init"): cepstra are not normalised, and without this
    the energy that all frames share would decide every label.
    """
    import torch
    from torch import nn

    rng = np.random.default_rng(0)
    cepstra = np.stack([mfcc(speech.waveform(rng, CALIBRATION_S)) for _ in range(CALIBRATION_UTTERANCES)])
    with seeded(name), torch.no_grad():
        model = network(sizes)
        forget = slice(sizes.units, 2 * sizes.units)  # torch's gates: input, forget, cell, output
        model.get_parameter("lstm.bias_ih_l0")[forget] = FORGET_BIAS
        model.get_parameter("lstm.bias_hh_l0")[forget] = 0

        def standardise(layer: nn.Linear, inputs: tuple[torch.Tensor]) -> None:
            outputs = nn.functional.linear(inputs[0], layer.weight, layer.bias).flatten(0, 1)
            scale = (LOGIT_DEVIATION if layer.out_features == len(LABELS) + 1 else 1.0) / outputs.std(dim=0)
            layer.bias.sub_(outputs.mean(dim=0)).mul_(scale)
            layer.weight.mul_(scale[:, None])

        dense = [module for module in model.modules() if isinstance(module, nn.Linear)]
        hooks = [layer.register_forward_pre_hook(standardise) for layer in dense]
        model(torch.from_numpy(cepstra), torch.full((len(cepstra), 1), cepstra.shape[1]))
        for hook in hooks:
            hook.remove()
    return model.eval()


def sample(sizes: Sizes, waveform: Waveform) -> Sample:
    """Make one request of an utterance."""
    cepstra = mfcc(waveform)
    n_frames = np.array([len(cepstra)], np.int32)
    return {"mfcc": speech.pad_to_bucket(cepstra, sizes.buckets, axis=0), "n_frames": n_frames}


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw utterances with the durations of LibriSpeech's test-clean."""
    while True:
        yield sample(sizes, speech.waveform(rng, sizes.durations.draw(rng)))


def read(path: Path) -> Iterator[Sample]:
    """Read LibriSpeech's test-clean, or any folder of recordings. Raises InputDataError naming file and line."""
    for utterance in librispeech.read(path):
        yield sample(Sizes(), utterance.waveform)


TINY = Sizes(units=64, durations=speech.Durations(mean_s=1.1, shortest_s=0.6, longest_s=1.28), buckets=(40, 52, 64))

WORKLOAD = define(
    "deepspeech",
    "DeepSpeech",
    full=Variant(Sizes(), parameters=47_233_053, flops=58_160_807_936),
    tiny=Variant(TINY, parameters=79_325, flops=10_051_584),
    task="speech recognition",
    suites=("AI Matrix",),
    inputs=lambda _: (Tensor("mfcc", "FP32", (-1, MFCC_COEFFICIENTS)), Tensor("n_frames", "INT32", (1,))),
    outputs=lambda _: (Tensor("ids", "INT32", (-1,)), Tensor("lengths", "INT32", (1,))),
    max_batch=16,
    slo=Slo(99, 1000),
    quality=Quality("WER", None, "LibriSpeech test-clean, greedy decoding"),
    citation="Hannun et al. 2014, Deep Speech: Scaling up end-to-end speech recognition (arXiv:1412.5567)",
    locustfile="speech_recognition",
    build=build,
    samples=samples,
    dataset=librispeech.KEY,
    read=read,
)
