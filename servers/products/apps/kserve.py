"""KServe's custom model. The server has no option for the address that it listens at, so loopback is set here."""

import grpc.aio._server
import uvicorn
from kserve import InferOutput, InferResponse, Model, ModelServer
from onnx_model import JOB, OnnxModel

LOOPBACK = "127.0.0.1"
_Config, _listen = uvicorn.Config, grpc.aio._server.Server.add_insecure_port


class LoopbackConfig(_Config):
    """Uvicorn's configuration, but for its address."""

    def __init__(self, app, **settings):
        super().__init__(app, **{**settings, "host": LOOPBACK})


uvicorn.Config = LoopbackConfig
grpc.aio._server.Server.add_insecure_port = lambda self, address: _listen(self, address.replace("[::]", LOOPBACK))


class Served(Model):
    """The ONNX model behind KServe v2, and V1."""

    def __init__(self, name):
        super().__init__(name)
        self._model = OnnxModel()
        self.ready = True

    async def get_input_types(self):
        return metadata(JOB["inputs"])

    async def get_output_types(self):
        return metadata(JOB["outputs"])

    def predict(self, payload, headers=None, response_headers=None):
        if isinstance(payload, dict):
            return {"predictions": self._model.answer(payload["instances"])}
        found = self._model.run({each.name: each.as_numpy() for each in payload.inputs})
        outputs = [output(name, array) for name, array in found.items()]
        # It answers 500 where the request has no id, and the answer none either.
        return InferResponse(payload.id or "none", self.name, outputs)


def metadata(tensors):
    """Describe tensors as KServe v2 does."""
    lead = [-1] if JOB["max_batch"] else []
    return [{"name": t["name"], "datatype": t["datatype"], "shape": [*lead, *t["shape"]]} for t in tensors]


def output(name, array):
    """Make an output of an array, whose values travel as JSON."""
    datatype = next(each["datatype"] for each in JOB["outputs"] if each["name"] == name)
    found = InferOutput(name, list(array.shape), datatype)
    found.set_data_from_numpy(array, binary_data=False)
    return found


if __name__ == "__main__":
    server = ModelServer(http_port=JOB["http_port"], grpc_port=JOB["grpc_port"], workers=JOB["instances"])
    server.start([Served(JOB["model"])])
