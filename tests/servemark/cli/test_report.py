"""`servemark report`: saved results as one page."""

from pathlib import Path

import msgspec
import pytest

from servemark.errors import ExitCode
from servemark.results import directory
from servemark.results.saved import DOCUMENTS, Saved
from tests.support.command_line import Servemark
from tests.support.mlflow_server import mlflow_server
from tests.support.saved_documents import FLAGS, run

RATES = (("a", "40", 0.02), ("b", "80", 0.03))


@pytest.fixture
def two(tmp_path: Path) -> list[Saved]:
    """Runs at two rates, in one folder."""
    return [run(tmp_path / "range" / name, (FLAGS[0], rate, *FLAGS[2:]), slow=slow) for name, rate, slow in RATES]


def test_a_page_lies_beside_its_result(servemark: Servemark, two: list[Saved]) -> None:
    folder = two[0].folder
    assert folder
    done = servemark("report", str(folder))
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("page: ")
    text = (folder / "report.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "<title>servemark: a</title>" in text


def test_several_results_stand_side_by_side(servemark: Servemark, two: list[Saved], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert servemark("report", *(str(each.folder) for each in two), "-o", str(page)).code == 0
    text = page.read_text()
    assert text.count("<article") == 3  # the overview, and each
    assert "Latency over the answered rate" in text


@pytest.mark.usefixtures("two")
def test_the_folder_of_a_range_is_a_curve(servemark: Servemark, tmp_path: Path) -> None:
    folder = tmp_path / "range"
    assert servemark("report", str(folder)).code == 0
    text = (folder / "report.html").read_text()
    assert "<title>servemark: a and 1 more</title>" in text
    assert text.count("<article") == 1
    assert "80/s requested, " in text


def test_runs_that_differ_by_more_than_the_rate_have_no_curve(
    servemark: Servemark, two: list[Saved], tmp_path: Path
) -> None:
    other = two[1].folder
    assert other
    directory.write(other, two[1].document | {"engine": "pytorch"})
    servemark("report", str(tmp_path / "range"))
    assert "Latency over the answered rate" not in (tmp_path / "range" / "report.html").read_text()


def test_a_folder_may_hold_every_kind_of_document(
    servemark: Servemark, saved: dict[str, Saved], tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    made = {name: each for name, each in saved.items() if not each.parts}
    for name, each in made.items():
        file = folder / name / (own if (own := f"{each.kind}.json") in DOCUMENTS else directory.RESULT_FILE)
        file.parent.mkdir(parents=True)
        file.write_text(directory.to_json(each.document))
    (folder / directory.LATEST).symlink_to("tuning")
    (folder / "begun").mkdir()
    begun = {**made["open"].document, "verdict": None}
    (folder / "begun" / directory.RESULT_FILE).write_text(directory.to_json(begun))
    done = servemark("report", str(folder))
    assert done.code == 0
    assert [line.partition(": ")[0] for line in done.err.splitlines()] == ["left out", "page"]
    assert "begun/result.json has measured nothing yet" in done.err
    text = (folder / "report.html").read_text()
    assert text.count("<article") == len(made)
    assert f" and {len(made) - 1} more</title>" in text
    tables = servemark("report", str(folder), "--format", "parquet")
    assert tables.code == 0
    assert {line.partition(": ")[0] for line in tables.err.splitlines()} == {"left out", "table"}
    none = servemark("report", str(folder / "tuning"), "--format", "parquet")
    assert (none.code, "no result here has requests or series" in none.err) == (ExitCode.BAD_INPUT, True)
    csv, markdown = (servemark("report", str(folder), "--format", each) for each in ("csv", "md"))
    assert (csv.code, markdown.code) == (0, 0)
    assert {line.split(",")[0] for line in csv.out.splitlines()[1:]} >= made.keys()
    junit = servemark("report", str(folder), "--format", "junit")
    assert (junit.code, junit.out.count("<testsuite ")) == (0, len(made))
    with mlflow_server() as server:
        assert servemark("report", str(folder), "--mlflow", server.url).code == 0
    assert {run["run_name"] for run in server.runs} >= made.keys()


@pytest.mark.parametrize("name", ["none", "empty"])
def test_what_is_no_result_is_refused(servemark: Servemark, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    done = servemark("report", str(tmp_path / name))
    assert done.code == ExitCode.BAD_INPUT
    assert name in done.err
    assert not [*tmp_path.rglob("*.html")]


def test_other_formats_go_to_stdout_or_a_file(servemark: Servemark, two: list[Saved], tmp_path: Path) -> None:
    names = [str(each.folder) for each in two]
    csv = servemark("report", *names, "--format", "csv")
    assert (csv.code, len(csv.out.splitlines()), csv.err) == (0, 3, "")
    assert servemark("report", str(tmp_path / "range"), "--format", "csv").out == csv.out
    file = tmp_path / "x.xml"
    assert servemark("report", *names, "--format", "junit", "-o", str(file)) == (0, "", "")
    assert file.read_text().count("<testsuite ") == 2
    first = "### asked 40/s, scheduled 40/s, 99.75 % answered: p95 60 ms, VALID"
    assert servemark("report", names[0], "--format", "md").out.startswith(first)
    wrong = servemark("report", names[0], "--format", "pdf")
    assert (wrong.code, "html, md, csv, junit, parquet" in wrong.err) == (ExitCode.BAD_INPUT, True)


def test_tables_lie_beside_each_result(servemark: Servemark, two: list[Saved], tmp_path: Path) -> None:
    done = servemark("report", str(tmp_path / "range"), "--format", "parquet")
    assert (done.code, done.out) == (0, "")
    written = [*(tmp_path / "range").glob("*/*.parquet")]
    assert sorted((file.parent.name, file.name) for file in written) == [
        (name, file) for name in "ab" for file in ("requests.parquet", "series.parquet")
    ]
    assert [line.startswith("table: ") for line in done.err.splitlines()] == [True] * 4
    assert two[0].folder
    refused = servemark("report", str(two[0].folder), "--format", "parquet", "-o", "x")
    assert (refused.code, "fix: leave out --out" in refused.err) == (ExitCode.BAD_INPUT, True)


def test_each_result_is_sent_to_mlflow(servemark: Servemark, two: list[Saved], tmp_path: Path) -> None:
    folder = str(tmp_path / "range")
    with mlflow_server() as server:
        done = servemark("report", folder, "--mlflow", server.url)
    assert (done.code, done.out) == (0, "")
    assert done.err.count(f"MLflow: {server.url}/#/experiments/1/runs/run") == 2
    assert [(run["run_name"], run["status"]) for run in server.runs] == [("a", "FINISHED"), ("b", "FINISHED")]
    assert [float(run["params"]["load.rate"]) for run in server.runs] == [40, 80]
    assert not [*tmp_path.rglob("report.html")]
    assert two[0].folder
    for given, words in (((server.url, "-o", "x"), "leave out --out"), (("ftp://h",), "is not an HTTP URL")):
        refused = servemark("report", folder, "--mlflow", *given)
        assert (refused.code, words in refused.err) == (ExitCode.BAD_INPUT, True)


def test_suites_side_by_side_stand_in_front(servemark: Servemark, saved: dict[str, Saved], tmp_path: Path) -> None:
    files = [tmp_path / f"{part.name}.json" for part in saved["suites"].parts]
    for file, part in zip(files, saved["suites"].parts, strict=True):
        file.write_bytes(msgspec.json.encode(part.document))
    told = servemark("report", *map(str, files), "--format", "md")
    assert told.out.startswith("### aibench: 45% in convolution; today: 90% in convolution")
