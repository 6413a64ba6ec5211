"""KServe's Python server: a custom model."""

from servers.products import About, Deployment, Place

ABOUT = About(
    package="kserve",
    guide="https://kserve.github.io/website/docs/model-serving/predictive-inference/frameworks/custom-predictor",
    batching="",  # its batcher is a program of its own, which Kubernetes runs beside the server
    instances="workers",
    ready="/v2/models/{model}/ready",
    tried="right answers by `validation_data`, batches of 1 and 4, over HTTP and gRPC; `kserve-v1` too",
    grpc=True,
)


def command(deployment: Deployment, place: Place) -> list[str]:  # noqa: ARG001  the application reads it
    return [str(place.python), str(place.app)]
