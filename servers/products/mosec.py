"""Mosec: a Rust server in front of Python workers."""

from servers.products import About, Deployment, Place

ABOUT = About(
    package="mosec",
    guide="https://mosecorg.github.io/mosec/reference/interface.html",
    batching="max_batch_size: each batch waits max_wait_time, unless it is full",
    instances="num",
    ready="/",
    tried="right answers by `validation_data`",
    endpoint_type="predict",
    single_samples=True,
)


def command(deployment: Deployment, place: Place) -> list[str]:  # noqa: ARG001  the application reads it
    where = ["--address", "127.0.0.1", "--port", str(place.http_port), "--path", str(place.folder / "sockets")]
    return [str(place.python), str(place.app), *where]
