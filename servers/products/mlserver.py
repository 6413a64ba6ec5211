"""MLServer: a custom runtime, whose settings are files. Its workers do not start with uvloop after 0.21."""

import json
from collections.abc import Sequence
from typing import Any

from servemark.workload import Tensor
from servers.products import About, Deployment, Place

ABOUT = About(
    package="mlserver",
    guide="https://docs.seldon.ai/mlserver/user-guide/adaptive-batching",
    batching="adaptive batching: each batch waits max_batch_time, unless it is full",
    instances="parallel_workers",
    ready="/v2/models/{model}/ready",
    tried="right answers by `validation_data`, batches of 1 and 4, over HTTP and gRPC",
    grpc=True,
)


def command(deployment: Deployment, place: Place) -> list[str]:
    batching = (
        {"max_batch_size": deployment.max_batch, "max_batch_time": deployment.queue_delay_s}
        if deployment.queue_delay_s is not None
        else {}
    )
    model = {
        "name": deployment.model,
        "implementation": "app.Model",
        "inputs": _metadata(deployment.inputs, deployment.max_batch),
        "outputs": _metadata(deployment.outputs, deployment.max_batch),
        **batching,
    }
    server = {
        "host": "127.0.0.1",
        "http_port": place.http_port,
        "grpc_port": place.grpc_port,
        "metrics_port": place.metrics_port,
        "parallel_workers": deployment.instances,
        "debug": False,
    }
    (place.folder / "model-settings.json").write_text(json.dumps(model))
    (place.folder / "settings.json").write_text(json.dumps(server))
    return [place.script("mlserver"), "start", str(place.folder)]


def _metadata(tensors: Sequence[Tensor], max_batch: int) -> list[dict[str, Any]]:
    lead = [-1] if max_batch else []
    return [{"name": each.name, "datatype": each.datatype, "shape": [*lead, *each.shape]} for each in tensors]
