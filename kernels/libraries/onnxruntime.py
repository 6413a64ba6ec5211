"""ONNX Runtime on its CPU provider, with inputs and output bound to memory."""

from collections.abc import Callable, Sequence

from kernels.libraries import Array, Computed, Node, model_of


def lacks(node: Node) -> str | None:  # noqa: ARG001 - the contract's
    """It has every operator that kernels name."""
    return None


def prepare(node: Node, arrays: Sequence[Array], output: tuple[int, ...], cores: int) -> Computed:
    """A session with an input/output binding."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = cores
    settings.log_severity_level = 3
    content = model_of(node, arrays, output)
    session = onnxruntime.InferenceSession(content, settings, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for number in node.inputs:
        if number not in node.constants:
            binding.bind_cpu_input(f"{number}", arrays[number])
    binding.bind_output("out", "cpu")
    run: Callable[[], object] = lambda: session.run_with_iobinding(binding)  # noqa: E731 - the shortest call
    return run, lambda: binding.copy_outputs_to_cpu()[0]
