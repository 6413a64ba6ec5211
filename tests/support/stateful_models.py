"""Models of Triton's own Python backend that keep a state, answer more than once or read parameters."""

from pathlib import Path

from tests.support.triton import copy_identity

HEAD = """
import json
import time

import triton_python_backend_utils as triton

from servers.triton_backend import tensors


class TritonPythonModel:
"""
SUM = '''
    """Adds up what came in a sequence; a request that does not fit into one is an error."""

    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        def control(name):
            return tensors.read(triton.get_input_tensor_by_name(request, name)).ravel()[0]

        array, number = tensors.read(triton.get_input_tensor_by_name(request, "INPUT0")), int(control("CORRID"))
        start, end = control("START"), control("END")
        if bool(start) == (number in self.sums):
            return triton.InferenceResponse(error=triton.TritonError(f"sequence {number}: start is {start}"))
        self.sums[number] = self.sums.get(number, 0) + array
        result = self.sums.pop(number) if end else self.sums[number]
        return triton.InferenceResponse([tensors.write("OUTPUT0", result)])
'''
REPEAT = '''
    """Answers each request three times, 10 ms apart."""

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            array = tensors.read(triton.get_input_tensor_by_name(request, "INPUT0"))
            for number in range(3):
                time.sleep(0.01 if number else 0)
                sender.send(triton.InferenceResponse([tensors.write("OUTPUT0", array + number)]))
            sender.send(flags=triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''
SCALE = '''
    """Multiplies by the request's parameter `scale`; a request without it is an error."""

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        given = json.loads(request.parameters())
        if "scale" not in given:
            return triton.InferenceResponse(error=triton.TritonError(f"no scale, but {given}"))
        array = tensors.read(triton.get_input_tensor_by_name(request, "INPUT0"))
        return triton.InferenceResponse([tensors.write("OUTPUT0", array * given["scale"])])
'''
SEQUENCES = """
sequence_batching {
  max_sequence_idle_microseconds: 30000000
  control_input [
    { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
    { name: "END" control [ { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } ] },
    { name: "CORRID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } ] }
  ]
}
"""
MODELS = {
    "stateful": (SEQUENCES, SUM),
    "decoupled": ("model_transaction_policy { decoupled: true }\n", REPEAT),
    "scaled": ("", SCALE),
}
"""Name -> what its configuration has besides, and its class."""


def write_python_models(repository: Path) -> None:
    """Put the models into a repository."""
    for name, (settings, code) in MODELS.items():
        config = repository / copy_identity(repository, name) / "config.pbtxt"
        config.write_text(config.read_text() + settings)
        (config.parent / "1" / "model.py").write_text(HEAD + code)
