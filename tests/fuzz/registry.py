"""All targets by name."""

from tests.fuzz import control_plane, files, grpc_answers, http_answers, model_files, reruns, worker_states

TARGETS = {
    target.name: target
    for module in (http_answers, grpc_answers, control_plane, files, model_files, reruns, worker_states)
    for target in module.TARGETS
}
