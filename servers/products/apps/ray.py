"""Ray Serve's deployment, and a cluster of this process alone."""

import os
import signal

import grpc.aio._server
import ray
from onnx_model import BATCHES, JOB, OnnxModel
from ray import serve
from starlette.responses import JSONResponse

LOOPBACK = "127.0.0.1"
OBJECT_STORE_BYTES = 80 << 20
"""The least that Ray allows is 75 MiB; nothing of a request passes through it."""
NEVER_FULL = 100_000
"""Requests that a replica takes at once: the load generator limits them."""


@serve.deployment(num_replicas=JOB["instances"], max_ongoing_requests=NEVER_FULL)
class Model:
    """The ONNX model, with an answer to GET so that a client sees when it is ready."""

    def __init__(self):
        # A replica starts a gRPC server for other deployments after this, and would bind it to every address.
        listen = grpc.aio._server.Server.add_insecure_port
        grpc.aio._server.Server.add_insecure_port = lambda server, address: listen(
            server, address.replace("[::]", LOOPBACK)
        )
        self._model = OnnxModel()

    @serve.batch(max_batch_size=JOB["max_batch"] or 1, batch_wait_timeout_s=JOB["queue_delay_s"] or 0.0)
    async def joined(self, samples):
        return self._model.answer(samples)

    async def __call__(self, request):
        if request.method == "GET":
            return "ready"
        sample = await request.json()
        # An object alone would be sent in chunks, without its length.
        return JSONResponse(await self.joined(sample) if BATCHES else self._model.answer([sample])[0])


if __name__ == "__main__":
    signals = {signal.SIGTERM, signal.SIGINT}
    ray.init(
        num_cpus=max(os.cpu_count(), JOB["instances"] + 1),
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        _temp_dir=os.environ["TMPDIR"],
    )
    serve.start(http_options={"host": LOOPBACK, "port": JOB["http_port"]})
    serve.run(Model.bind(), route_prefix="/predict")
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    signal.sigwait(signals)
    ray.shutdown()
