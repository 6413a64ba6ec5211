"""A load from the test's own process, and checks that every load result must pass, whoever made it."""

from pathlib import Path

from loadgen.evaluation.measured_run import record
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.measurement import Measurement
from loadgen.measurement.sender import Sender
from loadgen.targets.open import open_target
from servemark.figures.registry import count_of, registry
from servemark.results.schema.header import reason_of
from tests.support.documents import validated
from tests.support.locust_run import Result, accounted, the_result
from tests.support.rendering import shown


def run_here(config: LoadConfig) -> tuple[Result, str]:
    """Run a load; its result, and what a terminal shows of it."""
    target = open_target(config)
    result: Result = {**record(Measurement(config, target, Sender(config, target), on_progress=lambda *_: None))}
    return result, shown(result)


def check_schema(result: Result) -> None:
    """Its schema describes it, and a null has its reason (or one for its group)."""
    validated(result)
    for key, value in result.items():
        assert value is not None or reason_of(result, key), f"{key} is null without a reason"
    for tag, found in result["figures"].items():
        assert tag in registry(), tag
        assert found["value"] is not None or found["reason"], f"{tag} is null without a reason"


def check_counts(result: Result, received: int) -> None:
    """Nothing lost, nothing counted twice: the server's log has as many requests as the result accounts for."""
    assert accounted(result) == received
    assert sum(result["details"]["errors"]["by_kind"].values()) == count_of(result, "errors.count")


def counted_result(folder: Path, received: int) -> Result:
    """Return the only result in a folder, after its schema and its counts."""
    result = the_result(folder)
    check_schema(result)
    check_counts(result, received)
    return result


def constraint(result: Result, name: str) -> Result:
    [found] = [c for c in result["verdict"]["constraints"] if c["name"] == name]
    return dict(found)
