"""BentoML: a service with one batchable API."""

from servers.products import About, Deployment, Place

ABOUT = About(
    package="bentoml",
    guide="https://docs.bentoml.com/en/latest/get-started/adaptive-batching.html",
    batching="adaptive batching: waits as long as its own estimate of the next batch says",
    instances="workers",
    ready="/readyz",
    tried="right answers by `validation_data`",
    endpoint_type="bentoml",
    environment={"BENTOML_DO_NOT_TRACK": "True", "BENTOML_HOME": "{folder}"},
)


def command(deployment: Deployment, place: Place) -> list[str]:  # noqa: ARG001  the application reads it
    where = ["--host", "127.0.0.1", "--port", str(place.http_port), "--working-dir", str(place.folder)]
    return [place.script("bentoml"), "serve", "app:Model", *where]
