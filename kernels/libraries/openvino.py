"""OpenVINO on the CPU, in fp32."""

from collections.abc import Sequence

from kernels.libraries import Array, Computed, Node, model_of


def lacks(node: Node) -> str | None:  # noqa: ARG001 - the contract's
    """It has every operator that kernels name."""
    return None


def prepare(node: Node, arrays: Sequence[Array], output: tuple[int, ...], cores: int) -> Computed:
    """A compiled model's infer request, with its tensors set."""
    import openvino

    core = openvino.Core()
    properties = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": cores}
    compiled = core.compile_model(core.read_model(model_of(node, arrays, output)), "CPU", properties)
    request = compiled.create_infer_request()
    for number in node.inputs:
        if number not in node.constants:
            request.set_tensor(f"{number}", openvino.Tensor(arrays[number], shared_memory=True))

    def run() -> object:
        request.start_async()
        return request.wait()

    return run, lambda: request.get_output_tensor(0).data
