"""Deep Speech 2: speech recognition from spectrograms with convolutions and recurrences in both directions.

Amodei et al. 2016, "Deep Speech 2: End-to-End Speech Recognition in English and Mandarin", in the size of the PyTorch
port that AIBench runs: 5 bidirectional GRU layers of 800 units with their directions summed (the paper has up to 7
recurrent layers, and other widths). Labels: blank, apostrophe, A to Z, space. Decoding is greedy; a beam search with a
language model is left to the client. Requests are padded to a few lengths, so that the server can join them. The mean
request is 7.4 s, 744 frames, padded to 965.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from servemark.datasets._audio import Waveform, log_spectrogram
from servemark.models.blocks import sequences
from servemark.models.blocks.weights import calibrate, seeded
from servemark.models.deepspeech import of_librispeech
from servemark.models.synthesis import speech, text
from servemark.workload import Module, Quality, Sample, Slo, Tensor, Variant, define

LABELS = "_'ABCDEFGHIJKLMNOPQRSTUVWXYZ "
LETTERS = dict(enumerate(LABELS))
BLANK = 0
FREQUENCIES = 161
LOGIT_DEVIATION = 3.0
CALIBRATION_UTTERANCES, CALIBRATION_S = 4, 3.0


@dataclass(frozen=True)
class Sizes:
    """Channels of the convolutions, units and layers of the recurrence; durations and padded lengths of requests."""

    channels: int = 32
    units: int = 800
    layers: int = 5
    durations: speech.Durations = speech.Durations()  # noqa: RUF009 - frozen
    buckets: tuple[int, ...] = (401, 801, 1201, 1601, 2401, 3501)
    """Frames of 10 ms."""


def network(sizes: Sizes) -> Module:
    """Define the network: (spect [B, 161, T], n_frames [B, 1]) -> ids [B, (T + 1) // 2], lengths [B, 1]."""
    import torch
    from torch import nn

    class Bidirectional(nn.Module):
        """A GRU in both directions within each sequence's length; the sum of the two."""

        def __init__(self, inputs: int) -> None:
            super().__init__()
            self.forwards = nn.GRU(inputs, sizes.units, batch_first=True)
            self.backwards = nn.GRU(inputs, sizes.units, batch_first=True)

        def forward(self, sequence: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            ahead, _ = self.forwards(sequence)
            back, _ = self.backwards(sequences.reverse_within(sequence, lengths))
            both: torch.Tensor = ahead + sequences.reverse_within(back, lengths)
            return both

    class DeepSpeech2(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            channels = sizes.channels
            self.convolutions = nn.Sequential(
                nn.Conv2d(1, channels, (41, 11), stride=(2, 2), padding=(20, 5)),
                nn.BatchNorm2d(channels),
                nn.Hardtanh(0, 20),
                nn.Conv2d(channels, channels, (21, 11), stride=(2, 1), padding=(10, 5)),
                nn.BatchNorm2d(channels),
                nn.Hardtanh(0, 20),
            )
            widths = [channels * 41] + [sizes.units] * (sizes.layers - 1)  # 161 -> 81 -> 41 frequencies
            self.layers = nn.ModuleList(Bidirectional(width) for width in widths)
            self.norms = nn.ModuleList(nn.BatchNorm1d(sizes.units) for _ in range(sizes.layers))
            self.classifier = nn.Linear(sizes.units, len(LABELS), bias=False)

        def logits(self, spect: torch.Tensor, frames: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            x = (spect * sequences.within(frames, spect.shape[2]).unsqueeze(1)).unsqueeze(1)
            for layer in self.convolutions:
                x = layer(x)
                x = x * sequences.within(lengths, x.shape[3])[:, None, None, :]
            x = x.flatten(1, 2).transpose(1, 2)  # [B, T', channels * 41]
            for layer, norm in zip(self.layers, self.norms, strict=True):
                # every layer's norm is the next one's input, the last the classifier's
                x = norm(layer(x, lengths).transpose(1, 2)).transpose(1, 2)
            logits: torch.Tensor = self.classifier(x)
            return logits

        def forward(self, spect: torch.Tensor, n_frames: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            frames = n_frames.long().clamp(0, spect.shape[2])
            lengths = (frames + 1) // 2
            return sequences.best_path(self.logits(spect, frames, lengths).argmax(dim=2), lengths, BLANK)

    return DeepSpeech2()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network, calibrate its statistics on utterances of one length, and spread its logits."""
    import torch

    rng = np.random.default_rng(0)
    spectrograms = [log_spectrogram(speech.waveform(rng, CALIBRATION_S)) for _ in range(CALIBRATION_UTTERANCES)]
    spect = torch.from_numpy(np.stack(spectrograms))
    n_frames = torch.full((len(spectrograms), 1), spect.shape[2])
    with seeded(name), torch.no_grad():
        model = network(sizes)
        torch.nn.init.normal_(model.get_parameter("classifier.weight"), std=LOGIT_DEVIATION / sizes.units**0.5)
        calibrate(model, spect, n_frames)
    return model


def sample(sizes: Sizes, waveform: Waveform) -> Sample:
    """Make one request of an utterance."""
    spect = log_spectrogram(waveform)
    n_frames = np.array([spect.shape[1]], np.int32)
    return {"spect": speech.pad_to_bucket(spect, sizes.buckets, axis=1), "n_frames": n_frames}


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw utterances with the durations of LibriSpeech's test-clean."""
    while True:
        yield sample(sizes, speech.waveform(rng, sizes.durations.draw(rng)))


def transcript(outputs: Sample) -> str:
    """The letters of an answer. Raises KeyError for an id of none."""
    return "".join(LETTERS[label] for label in text.answered(outputs))


TINY = Sizes(
    channels=4,
    units=32,
    layers=2,
    durations=speech.Durations(mean_s=1.6, shortest_s=1.0, longest_s=2.0),
    buckets=(121, 161, 201),
)

WORKLOAD = define(
    "deepspeech2",
    "Deep Speech 2",
    # of 965 frames, of 744 and of 3,501
    full=Variant(
        Sizes(),
        parameters=41_187_968,
        flops=49_988_660_736,
        flops_without_padding=38_500_583_424,
        flops_longest=181_221_832_192,
    ),
    # of 159 frames, of 146 and of 201
    tiny=Variant(TINY, parameters=57_268, flops=55_761_280, flops_without_padding=50_882_168, flops_longest=70_398_616),
    task="speech recognition",
    suites=("AIBench DC-AI-C6",),
    inputs=lambda _: (Tensor("spect", "FP32", (FREQUENCIES, -1)), Tensor("n_frames", "INT32", (1,))),
    outputs=lambda _: (Tensor("ids", "INT32", (-1,)), Tensor("lengths", "INT32", (1,))),
    max_batch=16,
    slo=Slo(99, 1000),
    quality=Quality("WER", 0.0533, "LibriSpeech test-clean, greedy decoding"),
    citation="Amodei et al. 2016, Deep Speech 2, ICML (arXiv:1512.02595)",
    origin="The PyTorch port that AIBench runs. The target of 5.33 % is the paper's, with a language model and a "
    "larger network; AIBench's own run of this one ends at 23.5 %.",
    locustfile="speech_recognition",
    build=build,
    samples=samples,
    **of_librispeech(partial(sample, Sizes()), transcript),
)
