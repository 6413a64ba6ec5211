"""Declaration of each constraint, which nothing else decides."""

import ast

import pytest

from servemark.paths import CHECKOUT
from servemark.results.verdict import About, Kind, about, broken, consequences, kind_of, of_the_server, overload

NAMES = {kind.value for kind in Kind}


def test_a_name_is_its_own_text() -> None:
    assert f"{Kind.SCHEDULE_DELAY}" == "schedule_delay_p99"
    assert Kind.SCHEDULE_DELAY in ["schedule_delay_p99"]


def test_a_mix_writes_the_workload_before_it_and_an_unknown_name_says_nothing() -> None:
    assert kind_of("resnet50.error_rate") is Kind.ERROR_RATE
    assert of_the_server(["din.output_agreement"]) == ["din.output_agreement"]
    assert kind_of("luck") is None
    assert about(["luck"], *About) == broken(["luck"]) == overload(["luck"]) == []


def test_groups_of_the_failures() -> None:
    assert about(Kind, About.MACHINE) == ["other_load"]
    assert overload(Kind) == ["error_rate", "achieved_rate"]
    assert of_the_server(Kind) == ["error_rate", "achieved_rate", "server_alive", "output_agreement"]
    assert broken(Kind) == ["completed", "server_alive", "output_agreement", "loadgen"]
    assert consequences(Kind) == ["enough_samples", "steady_state", "max_rate"]


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in {Kind.MAX_RATE, Kind.LOADGEN}])
def test_the_page_says_what_each_is_about(kind: Kind) -> None:
    page = (CHECKOUT / "docs/explanation/verdict.md").read_text()
    assert f"| `{kind}` | {kind.about} |" in page


def test_no_other_file_keeps_a_set_of_names() -> None:
    """Seven did, and two of them disagreed."""
    ours = CHECKOUT / "servemark/results/verdict.py"
    found = []
    for package in ("servemark", "loadgen", "tools"):
        for path in (CHECKOUT / package).rglob("*.py"):
            text = path.read_text()
            named = [name for name in NAMES if f'"{name}"' in text]  # to parse all files would take long
            if path != ours and len(named) > 1:
                found += [f"{path}: {ast.dump(node)}" for node in ast.walk(ast.parse(text)) if _names(node)]
    assert not found


def _names(node: ast.AST) -> bool:
    """Tell if a set or a tuple is of constraints' names."""
    if not isinstance(node, ast.Set | ast.Tuple):
        return False
    values = {each.value for each in node.elts if isinstance(each, ast.Constant)}
    return len(values & NAMES) > 1
