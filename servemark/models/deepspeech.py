"""DeepSpeech: speech recognition from cepstra with a recurrence in both directions (AI Matrix).

Hannun et al. 2014, "Deep Speech: Scaling up end-to-end speech recognition", in the form of Mozilla DeepSpeech 0.1.1,
whose model AI Matrix downloads and runs: dense layers of 2048, 2048 and 4096 units over 19 frames, an LSTM of 2048
units in each direction, two dense layers. A step of 20 ms is 245,411,840 FLOPs. A mean request is 371 of them, 7.4 s,
and is padded to 490. PyTorch's LSTM has a second bias vector: without it there are 122,732,573 parameters, in fp32 the
490,978,889 bytes of AI Matrix's file but for 48,597 of its graph.

Cepstra are whitened over the utterance's windows, as Mozilla's client does; the empty frames beyond its ends are 0
here, the mean, where that client whitens its zeros too. Labels are Mozilla's alphabet counted from 1, since 0 is
padding: space, a to z, apostrophe. Decoding is greedy. Mozilla's beam search with a language model runs around the
network, on the client: `deepspeech_ctc` answers what it needs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.datasets import _audio, librispeech
from servemark.datasets._audio import MFCC_COEFFICIENTS, Features, Waveform, mfcc
from servemark.models.blocks import sequences
from servemark.models.blocks.weights import seeded
from servemark.models.synthesis import speech, text
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, Workload, define

LABELS = " abcdefghijklmnopqrstuvwxyz'"
LETTERS = dict(enumerate(LABELS, 1))
BLANK = len(LABELS)
CONTEXT = 9  # frames on either side
CLIP = 20.0
FORGET_BIAS = 1.0
LOGIT_DEVIATION = 3.0
CALIBRATION_UTTERANCES, CALIBRATION_S = 4, 3.0


@dataclass(frozen=True)
class Sizes:
    """Units of every layer, whether the recurrence looks both ways; durations and padded lengths of requests."""

    units: int = 2048
    bidirectional: bool = True
    """The third layer is then twice as wide, and cepstra are whitened."""
    durations: speech.Durations = speech.Durations()  # noqa: RUF009 - frozen
    buckets: tuple[int, ...] = (128, 256, 512, 768, 1024, 1750)
    """Frames of 20 ms."""
    decoded: bool = True
    """Letters are answered, decoded greedily; otherwise the log-probability of each label in each frame."""


def network(sizes: Sizes) -> Module:
    """Define the network: (mfcc [B, T, 26], n_frames [B, 1]) -> ids [B, T], lengths [B, 1]; or log_probs [B, T, 29]."""
    import torch
    from torch import nn

    class Dense(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.hardtanh(super().forward(x), 0, CLIP)

    class DeepSpeech(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            units, directions = sizes.units, 2 if sizes.bidirectional else 1
            window = (2 * CONTEXT + 1) * MFCC_COEFFICIENTS
            self.before = nn.Sequential(Dense(window, units), Dense(units, units), Dense(units, directions * units))
            self.lstm = nn.ModuleList(nn.LSTM(directions * units, units, batch_first=True) for _ in range(directions))
            self.after = Dense(directions * units, units)
            self.classifier = nn.Linear(units, len(LABELS) + 1)

        def logits(self, mfcc: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
            count = mfcc.shape[1]
            # what lies before the utterance and behind it is 0, not the cepstra of silence
            spoken = mfcc * sequences.within(frames, count).unsqueeze(2)
            padded = nn.functional.pad(spoken, (0, 0, CONTEXT, CONTEXT))
            windows = torch.cat([padded[:, i : i + count] for i in range(2 * CONTEXT + 1)], dim=2)
            inputs = self.before(windows)
            forwards, *backwards = self.lstm
            states, _ = forwards(inputs)
            for layer in backwards:
                back, _ = layer(sequences.reverse_within(inputs, frames))
                states = torch.cat([states, sequences.reverse_within(back, frames)], dim=2)
            logits: torch.Tensor = self.classifier(self.after(states))
            return logits

        def forward(self, mfcc: torch.Tensor, n_frames: torch.Tensor) -> tuple[torch.Tensor, ...] | torch.Tensor:
            frames = n_frames.long().clamp(0, mfcc.shape[1])
            logits = self.logits(mfcc, frames)
            if sizes.decoded:
                return sequences.best_path(logits.argmax(dim=2) + 1, frames, BLANK + 1)
            log_probs: torch.Tensor = logits.log_softmax(dim=2) * sequences.within(frames, mfcc.shape[1]).unsqueeze(2)
            return log_probs

    return DeepSpeech()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network, with every layer's activations of order 1 on some utterances, as batch statistics would.

    Layer by layer (Mishkin & Matas 2016, "All you need is a good init"): cepstra are not normalised, and without this
    the energy that all frames share would decide every label.
    """
    import torch
    from torch import nn

    rng = np.random.default_rng(0)
    cepstra = np.stack([features(sizes, speech.waveform(rng, CALIBRATION_S)) for _ in range(CALIBRATION_UTTERANCES)])
    with seeded(name), torch.no_grad():
        model = network(sizes)
        forget = slice(sizes.units, 2 * sizes.units)  # torch's gates: input, forget, cell, output
        for layer in model.get_submodule("lstm").children():
            layer.get_parameter("bias_ih_l0")[forget] = FORGET_BIAS
            layer.get_parameter("bias_hh_l0")[forget] = 0

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


def features(sizes: Sizes, waveform: Waveform) -> Features:
    """Compute the cepstra [frames, 26] of an utterance, whitened where the network looks both ways."""
    cepstra = mfcc(waveform)
    if not sizes.bidirectional:
        return cepstra
    padded = np.pad(cepstra, ((CONTEXT, CONTEXT), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * CONTEXT + 1, axis=0)
    whitened: Features = (cepstra - windows.mean(dtype=np.float64)) / windows.std(dtype=np.float64)
    return whitened.astype(np.float32)


def sample(sizes: Sizes, waveform: Waveform) -> Sample:
    """Make one request of an utterance."""
    cepstra = features(sizes, waveform)
    n_frames = np.array([len(cepstra)], np.int32)
    return {"mfcc": speech.pad_to_bucket(cepstra, sizes.buckets, axis=0), "n_frames": n_frames}


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw utterances with the durations of LibriSpeech's test-clean."""
    while True:
        yield sample(sizes, speech.waveform(rng, sizes.durations.draw(rng)))


def of_librispeech(
    sample: Callable[[Waveform], Sample], answer: Callable[[Sample], Any], alphabet: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Give `define` the readers of LibriSpeech's test-clean, or of a folder of recordings, which raise InputDataError.

    `answer` makes of outputs what is compared with the transcript, or log-probabilities of the labels of `alphabet`.
    """

    def read(path: Path) -> Iterator[Sample]:
        return (sample(utterance.waveform) for utterance in librispeech.read(path))

    def labelled(path: Path) -> LabelledSet:
        def example(recording: Path, words: str) -> Example:
            return Example((sample(_audio.load(recording)),), words)

        utterances = librispeech.transcribed(path)
        return replace(LabelledSet.of(utterances, example, lambda outputs, _: answer(outputs)), alphabet=alphabet)

    return {"dataset": librispeech.KEY, "read": read, "labelled": labelled}


def log_probs(outputs: Sample) -> npt.NDArray[np.generic]:
    """The log-probabilities [frames, labels] of an answer, without its padding: no other frame has but zeros."""
    frames = outputs["log_probs"]
    spoken: npt.NDArray[np.generic] = frames[frames.any(axis=1)]
    return spoken


def transcript(outputs: Sample) -> str:
    """The letters of an answer. Raises KeyError for an id of none."""
    return "".join(LETTERS[label] for label in text.answered(outputs))


def answers(sizes: Sizes) -> tuple[Tensor, ...]:
    """The outputs."""
    if sizes.decoded:
        return Tensor("ids", "INT32", (-1,)), Tensor("lengths", "INT32", (1,))
    return (Tensor("log_probs", "FP32", (-1, len(LABELS) + 1)),)


def recogniser(
    name: str,
    title: str,
    *,
    suites: tuple[str, ...],
    origin: str,
    full: Sizes,
    tiny: Sizes,
    parameters: tuple[int, int],
    step_flops: tuple[int, int],
) -> Workload:
    """Describe one of Mozilla's networks, full and tiny, of which a step of 20 ms takes these FLOPs.

    The full one's mean request is padded to 490 steps and has 371, the longest 1,750; the tiny one's 52, 47 and 64.
    """
    decoded = full.decoded
    decoding = "greedy decoding" if decoded else "decoded by the client"
    described = zip((full, tiny), parameters, step_flops, ((490, 371, 1750), (52, 47, 64)), strict=True)
    of_full, of_tiny = (
        Variant(
            sizes,
            parameters=count,
            flops=padded * flops,
            flops_without_padding=spoken * flops,
            flops_longest=longest * flops,
        )
        for sizes, count, flops, (padded, spoken, longest) in described
    )
    return define(
        name,
        title,
        full=of_full,
        tiny=of_tiny,
        task="speech recognition",
        suites=suites,
        inputs=lambda _: (Tensor("mfcc", "FP32", (-1, MFCC_COEFFICIENTS)), Tensor("n_frames", "INT32", (1,))),
        outputs=answers,
        max_batch=16,
        slo=Slo(99, 1000),
        quality=Quality("WER", None, f"LibriSpeech test-clean, {decoding}"),
        citation="Hannun et al. 2014, Deep Speech: Scaling up end-to-end speech recognition (arXiv:1412.5567)",
        origin=origin,
        locustfile="speech_recognition",
        build=build,
        samples=samples,
        **of_librispeech(partial(sample, full), transcript if decoded else log_probs, () if decoded else (*LABELS, "")),
    )


TINY = Sizes(units=64, durations=speech.Durations(mean_s=1.1, shortest_s=0.6, longest_s=1.28), buckets=(40, 52, 64))

WORKLOAD = recogniser(
    "deepspeech",
    "DeepSpeech",
    suites=("AI Matrix",),
    origin="Mozilla DeepSpeech 0.1.1, which AI Matrix runs with a language model's beam search around it, at batch 1. "
    "It publishes seconds, and no WER.",
    full=Sizes(),
    tiny=TINY,
    parameters=(122_748_957, 153_629),
    step_flops=(245_411_840, 304_512),
)
