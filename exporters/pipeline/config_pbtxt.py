"""Triton's model configuration (config.pbtxt), commented where a user tunes it."""

from collections.abc import Sequence

from google.protobuf.text_encoding import CEscape

from servemark.workload import Tensor, Workload

TEMPLATE = """\
# Written by `servemark export`. Edit it: an edited file is kept by later exports, `--force` writes it anew.
name: "{model}"
backend: "{engine}"
default_model_filename: "{artifact}"

{batch}
max_batch_size: {max_batch}

input [
{inputs}
]
output [
{outputs}
]
{joining}
# More instances run batches side by side and share the cores. On a GPU: {{ count: 1 kind: KIND_GPU gpus: [ 0 ] }}
instance_group [
  {{ {place} }}
]

{threads}
{on_host}"""

BATCH = "# The largest batch, of one request and of requests joined. Every tensor has the batch as its first dimension."
NO_BATCH = "# The tensors have no batch dimension: a request is one sample, and none are joined."
JOINING = """
# Joins waiting requests into batches. Without a delay it takes what waits when an instance falls idle; a delay trades
# latency for fuller batches.
dynamic_batching {{
  # max_queue_delay_microseconds: 500
  # preferred_batch_size: [ {preferred} ]
}}
"""
ALL_CORES = """\
# Threads of one run; by default as many as there are cores.
# parameters { key: "intra_op_thread_count" value: { string_value: "1" } }"""
ONE_THREAD = """\
# Threads of one run. So small a model gains nothing from more: they wait for each other, and spin on cores that Triton
# and a load generator on the same machine need.
parameters { key: "intra_op_thread_count" value: { string_value: "1" } }"""
ON_DEVICE = """\
# Triton's Python backend hands input tensors on as they lie, on the GPU where they are there.
parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value: { string_value: "no" } }
"""
CPU = "count: 1 kind: KIND_CPU"
_OTHERWISE = {"BYTES": "STRING"}
"""KServe's names -> Triton's, where they are not the same."""
SMALL_FLOPS = 100_000_000
"""Below this a forward pass of one sample takes well under 10 ms on one core."""


def render(workload: Workload, *, model: str, engine: str, artifact: str, device: str = "cpu") -> str:
    """Write the configuration of one model; Triton's datatypes are KServe's with a prefix."""
    preferred = ", ".join(str(size) for size in (4, 8, 16, 32) if size <= workload.max_batch) or "1"
    return TEMPLATE.format(
        model=model,
        engine=engine,
        artifact=artifact,
        batch=BATCH if workload.batched else NO_BATCH,
        max_batch=workload.max_batch,
        joining=JOINING.format(preferred=preferred) if workload.batched else "",
        inputs=_tensors(workload.inputs, batched=workload.batched),
        outputs=_tensors(workload.outputs, batched=workload.batched),
        on_host="" if device == "cpu" else ON_DEVICE,
        place=CPU if device == "cpu" else f"count: 1 kind: KIND_GPU gpus: [ {device.removeprefix('cuda:')} ]",
        threads=ONE_THREAD if workload.flops is not None and workload.flops < SMALL_FLOPS else ALL_CORES,
    )


def _tensors(tensors: Sequence[Tensor], *, batched: bool) -> str:
    return ",\n".join(
        f'  {{ name: "{CEscape(tensor.name.encode(), as_utf8=False)}" '
        f"data_type: TYPE_{_OTHERWISE.get(tensor.datatype, tensor.datatype)} "
        f"{_dims(tensor.shape, batched=batched)} }}"
        for tensor in tensors
    )


def _dims(shape: Sequence[int], *, batched: bool) -> str:
    """Write the sizes of a tensor. Triton knows no tensor without any: its clients see [1] for one value per sample.

    Triton removes that dimension before the model if there are batches; without them our backend does.
    Source: Triton's model configuration, "Reshape".
    """
    if shape:
        return f"dims: [ {', '.join(map(str, shape))} ]"
    return "dims: [ 1 ] reshape: { shape: [ ] }" if batched else "dims: [ 1 ]"
