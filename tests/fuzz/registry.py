"""All targets by name."""

from tests.fuzz import (
    control_plane,
    endpoint_answers,
    files,
    grpc_answers,
    http_answers,
    method_answers,
    model_files,
    reruns,
    worker_states,
)

MODULES = (
    http_answers,
    endpoint_answers,
    grpc_answers,
    method_answers,
    control_plane,
    files,
    model_files,
    reruns,
    worker_states,
)
TARGETS = {target.name: target for module in MODULES for target in module.TARGETS}
