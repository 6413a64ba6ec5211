"""The table of the workloads, `python -m tools.model_cards > docs/reference/models.md`, and the site's card of each."""

import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence

from servemark import datasets
from servemark.workload import Tensor, Workload
from servemark.workload.registry import zoo

_FLOPS = """\
FLOPs are those that the network computes for the mean request that the generator sends, its padding included. A
  multiply-add counts as 2"""
_TABLE_HEAD = f"""# Models

The built-in workloads. `python -m tools.model_cards` writes this page from the registry, and a test checks that it is
current. `servemark list` prints them with their suites, and `--json` with all that is known of each.

- A name leads to the module of the network. Its docstring says which version it is, and how it differs from others.
- Weights are random, from a seed. The quality is the published target of trained weights.
- The objective is what users of such a service expect, in ms, as `--slo` takes it.
- {_FLOPS} ([FLOPs](../explanation/metrics.md#flops)).
- `data` is the key of the workload's [data set](#data-sets). The others draw their inputs only.

| workload | task | suites | source | parameters | GFLOPs | max. batch | quality | objective | data |
|---|---|---|---|--:|--:|--:|---|---|---|
"""
_HEAD = f"""# Cards of the models

One card for each built-in workload, made from the registry.

- {_FLOPS} ([FLOPs](../../explanation/metrics.md#flops)).
- Shapes leave out the first dimension, which is the batch. -1 is a size that varies from request to request.
- Weights are random, from a seed.
"""
_ABSENT = """
## Not in the zoo, and why

The suites name or carry these too.

| suite | what | why it is not in the zoo |
|---|---|---|
| AIBench DC-AI-C2 | the critic of WGAN | Only training and the Earth-Mover distance use it. No request asks for it. |
| AIBench DC-AI-C4 | perplexity of captions | \
It needs the probability of each word of a reference. A captioning service answers words. |
| AIBench DC-AI-C5 | the judgement of an FCN-8s | \
`fcn8s` is the network. No trained weights come with the zoo, so `cyclegan` is not judged. |
| AIBench DC-AI-C12 | the entropy coder | It runs around the network, on its codes. AIBench's PyTorch code has none. |
| AIBench DC-AI-C13 | the perspective transformer | \
It projects the volume for the loss of training. It has no weights, and no request asks for it. |
| AIBench DC-AI-C14 | the pointer-generator | \
Not built yet. It would be an LSTM with two attentions and 48,234,833 parameters. \
`summarization` is the paper's network. |
| AIBench DC-AI-C17 | the search for a cell | It is training. `enas` serves the cell that its authors found. |
| AI Matrix | the generator of synthetic networks | \
It is not published. Its two published networks are `synnet` and `synnet_3c`. |
| AI Matrix | matterport's heads of Mask R-CNN | \
`mask_rcnn` has torchvision's. Matterport's box head is a 7x7 convolution with BatchNorm: \
the same task in another form. |
| AI Matrix | DenseNet-121 of its TensorFlow script | \
It is not the authors' network: it has three dense blocks. The authors' is `densenet121`. |
| MLPerf Training | Mask R-CNN on a ResNet-50 | \
`mask_rcnn` is the same network on a ResNet-101, `faster_rcnn` has the ResNet-50. |
| MLPerf Inference | BERT-large, Whisper | \
Transformers has them: `servemark list --suite mlperf-inference`. \
Of Whisper the encoder is served, since tokens are not generated. |
| MLPerf Inference | DLRM-v3 | \
Its checkpoint takes 1 TB, and its network is kernels of its own for sequences of what a user did. |
| MLPerf Inference | YOLOv11 | None of the libraries has it. Its code is of Ultralytics, under the AGPL. |
| MLPerf Inference | Stable Diffusion XL, Wan 2.2 | \
They generate pictures and films in many steps. In fp32 the first one's U-Net alone takes 10 GB. |
| MLPerf Inference | R-GAT | \
A request is a node of a graph, and its neighbours are sampled from a data set that does not fit here. |
| MLPerf Inference | PointPainting | \
It is two networks with a projection of laser points between them, and none of the libraries has it. |
| MLPerf Inference | its language models | Tokens are not generated. |
"""


def models() -> str:
    """The page of the repository: a row for each workload, what is absent, and the data sets."""
    rows = "\n".join(f"| {' | '.join(_row(workload))} |" for workload in zoo().values())
    return "\n".join([f"{_TABLE_HEAD}{rows}", _ABSENT, "## Data sets", *_layouts()])


def _row(workload: Workload) -> Iterator[str]:
    quality, slo = workload.quality, workload.slo
    yield f"[{workload.name}](../../servemark/models/{workload.name}.py)"
    yield workload.task
    yield "; ".join(workload.suites)
    yield workload.citation.partition(",")[0]
    yield "" if workload.parameters is None else f"{workload.parameters:,}"
    yield "" if workload.flops is None else f"{workload.flops / 1e9:,.4g}"
    yield str(workload.max_batch)
    yield "-" if quality is None or quality.target is None else f"{quality.metric} {quality.target:g}"
    yield "-" if slo is None else f"p{slo.percentile:g}:{slo.limit:g}"
    yield workload.dataset or "-"


def cards() -> str:
    """The page of the site: all that is known of each workload."""
    return "\n".join([_HEAD, *(_card(workload) for workload in zoo().values())])


def _card(workload: Workload) -> str:
    notes = inspect.getdoc(importlib.import_module(f"servemark.models.{workload.name}")) or ""
    rows = "\n".join(f"| {label} | {value} |" for label, value in _rows(workload) if value)
    return f"\n## {workload.name}\n\n{notes}\n\n| {workload.title} | |\n|---|---|\n{rows}"


def _layouts() -> Iterator[str]:
    """List each reader's data set: citation and official layout, under the names that the cards use."""
    for key, reader in datasets.readers().items():
        yield f"\n### {key}\n\n{inspect.getdoc(reader)}"


def _rows(workload: Workload) -> Iterator[tuple[str, str]]:
    quality, slo = workload.quality, workload.slo
    yield "task", f"{workload.task} ({', '.join(workload.suites)})"
    yield "citation", workload.citation
    yield "whose network", workload.origin or ""
    yield "parameters", "" if workload.parameters is None else f"{workload.parameters:,}"
    yield "GFLOPs", _gflops(workload)
    yield "inputs", _tensors(workload.inputs)
    yield "outputs", _tensors(workload.outputs)
    yield "maximum batch", str(workload.max_batch)
    yield "requests", _summary(workload.samples, "samples")
    if quality is not None:
        yield "metric", f"{quality.metric}: {quality.protocol}"
        yield "target", f"{quality.target:g}" if quality.target is not None else "none published"
        yield "`servemark quality`", f"not measured: {quality.unmeasured}" if quality.unmeasured else ""
    yield "objective", "" if slo is None else f"p{slo.percentile:g} within {slo.limit:g} ms"
    if workload.dataset:
        yield "data set", f"`DATA_ROOT/{workload.dataset}`: {_summary(workload.read, 'read')}"
    yield "load it with", f"`locust -f loadgen/{workload.locustfile}.py --model {workload.name}`"


def _gflops(workload: Workload) -> str:
    if workload.flops is None:
        return ""
    others = {"without padding": workload.flops_without_padding, "longest request": workload.flops_longest}
    told = "; ".join(f"{label}: {flops / 1e9:,.4g}" for label, flops in others.items() if flops is not None)
    return f"{workload.flops / 1e9:,.4g}" + (f" ({told})" if told else "")


def _tensors(tensors: Sequence[Tensor]) -> str:
    return ", ".join(f"`{tensor.name}` {tensor.datatype} {list(tensor.shape)}" for tensor in tensors)


def _summary(bound: object, name: str) -> str:
    """Return the summary of a function in the workload's module, which the registry may have bound to sizes."""
    function = getattr(sys.modules[getattr(bound, "__module__", "")], name, bound)
    paragraph = (inspect.getdoc(function) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).partition(" Raises ")[0]


if __name__ == "__main__":
    sys.stdout.write(models())
