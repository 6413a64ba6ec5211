"""Ray Serve: a deployment behind its HTTP proxy, on a cluster of one node that ends with it."""

from servers.products import About, Deployment, Place

ABOUT = About(
    package="ray",
    guide="https://docs.ray.io/en/latest/serve/advanced-guides/dyn-req-batch.html",
    batching="serve.batch: each batch waits batch_wait_timeout_s, unless it is full",
    instances="num_replicas",
    ready="/predict",
    tried="right answers by `validation_data`",
    endpoint_type="predict",
    single_samples=True,
    environment={
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # without a cluster its processes listen on loopback, not everywhere
    },
)


def command(deployment: Deployment, place: Place) -> list[str]:  # noqa: ARG001  the application reads it
    return [str(place.python), str(place.app)]
