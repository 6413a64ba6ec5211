"""LitServe: an API whose worker is a process of its own."""

from servers.products import About, Deployment, Place

ABOUT = About(
    package="litserve",
    guide="https://lightning.ai/docs/litserve/features/batching",
    batching="max_batch_size: each batch waits batch_timeout, unless it is full",
    instances="workers_per_device",
    ready="/health",
    tried="right answers by `validation_data`",
    endpoint_type="predict",
    single_samples=True,
)


def command(deployment: Deployment, place: Place) -> list[str]:  # noqa: ARG001  the application reads it
    return [str(place.python), str(place.app)]
