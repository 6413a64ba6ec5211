"""Figures that AIBench has printed of its components, with the hardware that they are from.

Tang et al. 2021, "AIBench Training: Balanced Industry-Standard AI Training Benchmarking" and its technical report:
Tables 3 to 7, Figures 2 to 7 and section 5. They are of training on a TITAN XP (characterisation) or a TITAN RTX
(times), so no figure of an inference on other hardware has to be near them. The report prints no point or bar of
Figures 1 to 7 as a number, only what its text quotes.
"""

from dataclasses import dataclass

CHARACTERISED_ON = "NVIDIA TITAN XP, Xeon E5-2620 v3, PyTorch, CUDA 10, one training step"
TIMED_ON = "NVIDIA TITAN RTX, Xeon E5-2620 v3, PyTorch, CUDA 10, training to convergence"
SUBSET = ("resnet50", "faster_rcnn", "ranking")
"""Its own subset: image classification, object detection, learning to rank (section 5.4)."""
_SUITE = "AIBench DC-AI-"


@dataclass(frozen=True)
class Component:
    """One component: coefficient of variation of the epochs to convergence (Table 5), and cost (Table 6)."""

    variation: float | None
    repeats: int | None
    whole_h: float | None


COMPONENTS = {
    "C1": Component(0.0112, 5, 130.0),
    "C2": Component(None, None, None),
    "C3": Component(0.0938, 6, 1.72),
    "C4": Component(0.2353, 5, 10.21),
    "C5": Component(None, None, None),
    "C6": Component(0.1208, 4, 42.78),
    "C7": Component(0.0573, 8, 3.43),
    "C8": Component(0.3846, 4, 12.02),
    "C9": Component(0.0, 10, 2.52),
    "C10": Component(0.0995, 5, 0.16),
    "C11": Component(0.1183, 4, 2.11),
    "C12": Component(0.2249, 4, 5.67),
    "C13": Component(0.1607, 4, 0.38),
    "C14": Component(0.2472, 5, 6.41),
    "C15": Component(0.0729, 4, 0.06),
    "C16": Component(0.0190, 4, 0.47),
    "C17": Component(0.0615, 6, 7.47),
}
PRINTED = {
    "figure_2": "parameters 0.03 to 68.4 million, 0.09 to 157,802 million FLOPs (its tool, THOP, counts "
    "multiply-adds); image to text has most parameters, spatial transformer fewest, learning to rank fewest FLOPs, "
    "object detection and 3D reconstruction most",
    "figure_3": "IPC efficiency from 0.25 (learning to rank) to 0.77 (text to text), beside occupancy, load and store "
    "efficiency and memory utilisation of the GPU",
    "figure_4": "t-SNE shows three clusters; image classification, learning to rank and object detection lie in "
    "different ones. It prints no coordinates, perplexity or seed",
    "figure_5": "learning to rank spends most of its time on data arrangement. It leaves out the last 20 % of the "
    "time, and classifies by the kernel's name",
    "figure_6": "30 functions take more than 10 % of the run time of a component, 9 in MLPerf",
    "figure_7": "stalls on memory and on execution lead; element-wise operations stall on memory in 70 % of the cases",
    "table_5": "variation of the epochs to convergence, from 0 (object detection) to 38.5 % (3D face recognition)",
    "table_6": "225.4 hours for all components once; the subset takes 133 hours, 41 % less",
    "table_7": "cuDNN's and cuBLAS's kernels by category; convolutions stand under data arrangement and relu, too",
}
"""Words of the report on each figure and table that ours has too."""


def number_of(suites: tuple[str, ...] | list[str]) -> str | None:
    """Return the number of the component that a workload is, like C1, by its suites; None for a variant or another."""
    numbers = [suite.removeprefix(_SUITE) for suite in suites if suite.startswith(_SUITE)]
    return next((number for number in numbers if number in COMPONENTS), None)
