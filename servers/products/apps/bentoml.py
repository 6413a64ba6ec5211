"""BentoML's service: a list of samples in, a list of answers out."""

import bentoml
from onnx_model import BATCHES, JOB, OnnxModel

SETTINGS = {"batchable": True, "batch_dim": 0, "max_batch_size": JOB["max_batch"]} if BATCHES else {}


@bentoml.service(workers=JOB["instances"])
class Model:
    """The ONNX model."""

    def __init__(self):
        self._model = OnnxModel()

    @bentoml.api(**SETTINGS)
    def predict(self, samples: list) -> list:
        return self._model.answer(samples)
