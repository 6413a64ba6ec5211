"""Mosec's worker: one sample a request, joined by the server."""

from mosec import Runtime, Server, Worker
from onnx_model import BATCHES, JOB, OnnxModel


class Model(Worker):
    """The ONNX model."""

    def __init__(self):
        self._model = OnnxModel()

    def forward(self, data):
        return self._model.answer(data) if BATCHES else self._model.answer([data])[0]


if __name__ == "__main__":
    joined = {"max_batch_size": JOB["max_batch"], "max_wait_time": round(JOB["queue_delay_s"] * 1e3)} if BATCHES else {}
    server = Server()
    server.register_runtime({"/predict": [Runtime(Model, num=JOB["instances"], **joined)]})
    server.run()
