"""LitServe's API: one sample a request, joined by the server."""

import litserve
from onnx_model import BATCHES, JOB, OnnxModel


class Model(litserve.LitAPI):
    """The ONNX model."""

    def setup(self, device):
        self._model = OnnxModel()

    def decode_request(self, request):
        return request

    def batch(self, inputs):
        return inputs

    def predict(self, samples):
        return self._model.answer(samples) if BATCHES else self._model.answer([samples])[0]

    def unbatch(self, output):
        return output

    def encode_response(self, output):
        return output


if __name__ == "__main__":
    joined = {"max_batch_size": JOB["max_batch"], "batch_timeout": JOB["queue_delay_s"]} if BATCHES else {}
    server = litserve.LitServer(Model(**joined), accelerator="cpu", workers_per_device=JOB["instances"])
    server.run(host="127.0.0.1", port=JOB["http_port"], generate_client_file=False)
