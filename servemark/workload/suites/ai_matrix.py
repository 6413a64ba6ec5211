"""AI Matrix's own macro benchmark: its batches and precisions, and the figures that it has published.

github.com/alibaba/ai-matrix, commit f7e1d77: the scripts of macro_benchmark/, results/Nvidia_V100_052019 (TensorRT 5,
"CNN-Caffe" and "SSD-Caffe") and results/tf_macro.md (TensorFlow 1.10, CUDA 9, Xeon E5-2682 v4). It counts images,
recommendations and sentences per second, and for two workloads seconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass

TENSORRT = "V100, TensorRT"
TENSORFLOW = "V100, TensorFlow 1.10"
PICTURES = 28
"""Number of pictures that Mask R-CNN runs on, each repeated to a whole batch."""


@dataclass(frozen=True)
class Macro:
    """AI Matrix's way to run a workload: its batches, its precisions and the unit that it counts."""

    batches: tuple[int, ...]
    unit: str
    precisions: tuple[str, ...] = ("fp32",)


CNN = Macro((16, 32, 64), "images", ("fp32", "fp16", "int8"))
MACRO = {
    "googlenet": CNN,
    "vgg16": CNN,
    "resnet50": CNN,
    "resnet152": CNN,
    "densenet121": CNN,
    "synnet": Macro(CNN.batches, "images"),
    "synnet_3c": Macro(CNN.batches, "images"),
    "ssd300": Macro((8, 16, 32), "images", ("fp32", "fp16", "int8")),
    "mask_rcnn": Macro((4, 8, 16), "images"),
    "nmt": Macro((64, 128, 256), "sentences"),
    "nmt_greedy": Macro((64, 128, 256), "sentences"),
    "din": Macro((256, 512, 1024), "recommendations"),
    "deepspeech": Macro((1,), "utterances"),
}

_TENSORRT = {
    "googlenet": {"fp32": (2818.46, 3406.90, 3751.53), "fp16": (6450.78, 8676.37, 9906.92)}
    | {"int8": (6867.19, 5194.43, 4755.47)},
    "resnet50": {"fp32": (1431.79, 1579.63, 1692.71), "fp16": (4418.10, 5512.71, 6309.89)}
    | {"int8": (2478.54, 2236.25, 2688.30)},
    "resnet152": {"fp32": (520.84, 594.53, 608.65), "fp16": (1741.61, 2096.42, 2421.08)}
    | {"int8": (1402.03, 789.01, 1609.09)},
    "densenet121": {"fp32": (967.23, 1112.88, 1230.96), "fp16": (1708.15, 2190.18, 2531.49)}
    | {"int8": (822.77, 1102.24, 1825.14)},
    "ssd300": {"fp32": (249.805, 252.348, 252.258), "fp16": (896.258, 948.964, 981.369)}
    | {"int8": (503.192, 525.944, 543.954)},
}
"""Images per second at batches of 16, 32 and 64."""
_TENSORFLOW = {
    "googlenet": {16: 1706.0, 32: 2202.0, 64: 2561.0},
    "vgg16": {16: 626.0, 32: 672.0, 64: 685.0},
    "resnet50": {16: 949.0, 32: 1079.0, 64: 1156.0},
    "resnet152": {16: 377.0, 32: 435.0, 64: 458.0},
    "densenet121": {16: 839.0, 32: 1049.0, 64: 1181.0},
    "synnet": {16: 321.0, 32: 377.0, 64: 409.0},
    "din": {256: 68129.0, 512: 88441.0, 1024: 97492.0},
}
_MASK_RCNN_SECONDS = {4: 40.2, 8: 73.6, 16: 136.7}
_REMARKS = {
    "nmt": "no figure of this model: it publishes English to Vietnamese",
    "nmt_greedy": "no figure of this model: it publishes English to Vietnamese",
    "ssd300": f"130 pictures in 5.83 s, at a batch that it does not name ({TENSORFLOW})",
    "deepspeech": f"10.92 s for 31.7 s of speech, 6.11 s for 12.2 s, with a language model ({TENSORFLOW})",
}


def published(workload: str, precision: str, batch: int) -> Iterator[str]:
    """Yield the figures that AI Matrix publishes for a workload, precision and batch, with hardware and software."""
    of_precision = _TENSORRT.get(workload, {}).get(precision)
    if of_precision and batch in CNN.batches:
        yield f"{of_precision[CNN.batches.index(batch)]:,.0f}/s ({TENSORRT})"
    if precision == "fp32" and batch in (rates := _TENSORFLOW.get(workload, {})):
        yield f"{rates[batch]:,.0f}/s ({TENSORFLOW})"
    if workload == "mask_rcnn" and precision == "fp32" and batch in _MASK_RCNN_SECONDS:
        seconds = _MASK_RCNN_SECONDS[batch]
        yield f"{seconds} s, {PICTURES * batch / seconds:.2f}/s ({TENSORFLOW})"
    if precision == "fp32" and workload in _REMARKS:
        yield _REMARKS[workload]
