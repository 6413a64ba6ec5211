"""All targets by name."""

from tests.fuzz import control_plane, files, grpc_answers, http_answers

TARGETS = {
    target.name: target for module in (http_answers, grpc_answers, control_plane, files) for target in module.TARGETS
}
