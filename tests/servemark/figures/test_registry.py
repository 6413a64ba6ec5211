"""A figure is declared in one file and appears wherever figures do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import servemark.figures as package
from loadgen.evaluation.evidence import so_far
from loadgen.evaluation.live import gauges
from loadgen.evaluation.mix import Part, total
from loadgen.measurement.recorder import Recorder
from servemark.compare.history import history
from servemark.compare.saved.differences import compare_sides
from servemark.compare.saved.figures import Gate
from servemark.compare.saved.saved_runs import Run
from servemark.documents.load import ConstantRate
from servemark.documents.request import RunRequest
from servemark.errors import OptionError
from servemark.figures import registry
from servemark.figures.evidence import Evidence
from servemark.figures.figure import Distribution
from servemark.figures.registry import figures_of, find, value_of
from servemark.results import directory
from servemark.results.kinds import json_schema
from servemark.results.saved import Saved
from servemark.results.schema.run import LiveFigures
from servemark.telemetry.metrics import catalog
from servemark.telemetry.metrics.catalog import Snapshot
from servemark.telemetry.metrics.exposition import expose
from servemark.telemetry.metrics.otlp import metrics_data
from servemark.views.blocks import Lines
from servemark.views.kinds.run import article
from servemark.views.live import LiveRun
from servemark.views.render.html import page
from servemark.views.render.programs import to_csv, to_run
from tests.support import saved_documents
from tests.support.documents import filled
from tests.support.load_config import config
from tests.support.measured import answered, evenly, load_result, measured
from tests.support.results import histogram_of, latencies
from tools.site_pages import result_page as reference

DECLARED = """
from servemark.figures.figure import Figure, summed
from servemark.figures.value import Unit, Value

GRAMS = Unit("g", "_g", "_grams")
FIGURES = (
    Figure(
        "carbon.emitted",
        GRAMS,
        "Carbon dioxide for the run's answers.",
        lambda evidence: Value(0.5 * evidence.completed),
        better="lower",
        join=summed,
        live=True,
    ),
)
"""
TAG = "carbon.emitted"
OPEN = ("--request-rate", "40", "--duration", "10", "--warmup", "1")


@pytest.fixture
def declared(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another file in the package of the figures; nothing else changes."""
    folder = tmp_path_factory.mktemp("figures")
    (folder / "carbon.py").write_text(DECLARED)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    caches: list[Any] = [registry._declared, registry.registry, registry.distributions, catalog.by_name]
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


def text_of(saved: Saved) -> str:
    lines = [
        block.lines for section in article(saved).sections for block in section.at_once if isinstance(block, Lines)
    ]
    return "\n".join(line for each in lines for line in each)


@pytest.mark.usefixtures("declared")
def test_a_new_figure_is_in_the_result_and_in_every_report(tmp_path: Path) -> None:
    saved = saved_documents.run(tmp_path / "run")
    completed = round((value_of(saved.document, "throughput.requests") or 0) * 10)
    assert saved.document["figures"][TAG] == {"value": 0.5 * completed, "unit": "g"}
    assert f"carbon: emitted {0.5 * completed:g} g" in text_of(saved)
    assert TAG in page("p", [saved])
    assert f"{TAG}_g" in to_csv([saved]).splitlines()[0].split(",")
    assert to_run(saved).metrics[f"{TAG}_g"] == 0.5 * completed
    assert TAG in str(json_schema("load"))
    assert "Carbon dioxide for the run's answers." in reference()


@pytest.mark.usefixtures("declared")
def test_it_is_published_and_drawn_while_the_run_goes_on() -> None:
    settings = config("ranking_tiny", *OPEN)
    recorder: Recorder = measured(settings, evenly(40, 11, 0.02)).recorder
    _, live = so_far(settings, recorder)
    assert live[TAG]["value"] == 200
    snapshot = Snapshot({"run": "r"}, [*gauges(live)])
    assert b"servemark_carbon_emitted_grams{" in expose(snapshot, "text/plain")[1]
    assert "servemark_carbon_emitted_grams" in str(metrics_data(snapshot, 0, 1))
    run = LiveRun("a run")
    known: Any = filled(LiveFigures, time_s=2.0, figures=live)
    run.take(known)
    assert str(run.rows(80, stopping=False)[TAG]) == "200 g"


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(("limit", "status"), [(199, "missed"), (201, "met")])
def test_it_can_be_an_objective(limit: float, status: str) -> None:
    result = load_result((*OPEN, "--slo", f"{TAG}:{limit}"), evenly(40, 11, 0.02))
    [objective] = result["verdict"]["objectives"]
    assert (objective["objective"], objective["status"], objective["unit"]) == (f"{TAG}:{limit}", status, "g")
    assert result["verdict"]["exit_code"] == (4 if status == "missed" else 0)


@pytest.mark.usefixtures("declared")
def test_it_fails_a_comparison_and_is_followed(tmp_path: Path) -> None:
    def runs(name: str, rate: float) -> list[Run]:
        found = []
        for number in range(6):
            # A few more answers in each run, so that runs differ.
            outcomes = [*evenly(rate, 11, 0.02), *(answered(2 + 0.1 * more, 0.02) for more in range(number))]
            result = load_result(OPEN, outcomes)
            (folder := tmp_path / f"{name}{number}").mkdir()
            directory.write(folder, result)
            found.append(Run("a", result, histogram_of(latencies(20))))
        return found

    compared = compare_sides(runs("a", 40), runs("b", 80), Gate(TAG, 0.05, allow_invalid=True))
    [found] = [each for each in compared["subjects"][0]["differences"] if each["judged"]]
    assert (found["figure"], found["reading"], compared["outcome"]) == (f"{TAG} g", "worse", "worse")
    followed = history(tmp_path, find(TAG), threshold=0.05, allow_invalid=True)
    assert (followed["metric"], followed["unit"], len(followed["series"][0]["results"])) == (TAG, "g", 12)


@pytest.mark.usefixtures("declared")
def test_workers_and_the_parts_of_a_mix_are_joined() -> None:
    def part(name: str, rate: float) -> Part:
        result = load_result(OPEN, evenly(rate, 11, 0.02))
        return Part(name, 0.5, name, cast(Any, result), {})

    both = total([part("a", 40), part("b", 20)], RunRequest(workload="a", load=ConstantRate(rate=60)))
    assert both["figures"][TAG] == {"value": 300.0, "unit": "g"}
    [first, second] = both["mix"]
    assert (first["figures"][TAG]["value"], second["figures"][TAG]["value"]) == (200, 100)


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("p99", "latency.p99"),
        ("p97.5", "latency.p97.5"),
        ("service_p50", "service_time.p50"),
        ("sequence.p97", "sequence.p97"),
        ("errors", "errors.share"),
        ("throughput", "throughput.requests"),
        ("energy.per_inference", "energy.per_inference"),
    ],
)
def test_a_figure_is_found_by_its_tag_its_short_name_or_as_a_percentile(name: str, tag: str) -> None:
    assert find(name).tag == tag


@pytest.mark.parametrize(
    ("name", "what", "fix"),
    [
        ("enery.per_inference", "there is no figure", "one of: energy.per_inference, .*servemark list figures"),
        ("nothing.p50", "there is no figure", "servemark list figures"),
        ("", "there is no figure", "servemark list figures"),
        ("latency.p0", "must lie between 0 and 100", "p99"),
        ("p100", "must lie between 0 and 100", "p99"),
    ],
)
def test_what_names_no_figure_is_refused_with_the_nearest_names(name: str, what: str, fix: str) -> None:
    with pytest.raises(OptionError, match=rf"{what}(.|\n)*{fix}"):
        find(name)


def test_every_tag_is_plain_and_every_help_a_sentence() -> None:
    for tag, figure in registry.registry().items():
        assert tag == figure.tag
        assert tag.replace("_", "").replace(".", "").isalnum(), tag
        assert figure.help.endswith("."), tag
    names = [figure.metric for figure in registry.registry().values()]
    assert len(set(names)) == len(names)
    assert len({figure.column for figure in registry.registry().values()}) == len(names)


def test_a_run_that_saw_nothing_has_a_reason_for_each_null_and_not_what_only_some_runs_have() -> None:
    found = figures_of(Evidence())
    assert not [tag for tag, each in found.items() if each["value"] is None and not each["reason"]]
    absent = {"sequence", "answers", "first_answer", "between_answers", "connect", "compression", "cancellation"}
    assert not absent & {tag.partition(".")[0] for tag in found}


def test_live_figures_have_no_intervals() -> None:
    found = figures_of(Evidence(live=True))
    assert {"latency.p99", "throughput.requests", "errors.share"} <= found.keys()
    assert not [tag for tag, each in found.items() if "ci95" in each]
    assert "energy.per_inference" not in found


def test_a_distribution_has_the_figures_of_any_histogram() -> None:
    whole = Distribution("x", "Of something.", lambda evidence: evidence.latency)
    evidence = Evidence()
    for figure in whole.figures:
        value = figure.of(evidence)
        assert value is not None
        assert value.to_dict(figure.unit) == whole.values(evidence.latency)[figure.tag]
