"""All targets by name."""

from tests.fuzz import control_plane, files, grpc_answers, http_answers, worker_states

TARGETS = {
    target.name: target
    for module in (http_answers, grpc_answers, control_plane, files, worker_states)
    for target in module.TARGETS
}
