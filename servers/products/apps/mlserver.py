"""MLServer's custom runtime."""

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse
from onnx_model import OnnxModel


class Model(MLModel):
    """The ONNX model behind KServe v2."""

    async def load(self):
        self._model = OnnxModel()
        return True

    async def predict(self, payload):
        found = self._model.run({each.name: NumpyCodec.decode_input(each) for each in payload.inputs})
        outputs = [NumpyCodec.encode_output(name, array) for name, array in found.items()]
        return InferenceResponse(model_name=self.name, outputs=outputs)
