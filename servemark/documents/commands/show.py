"""Documents of the commands that show what was measured."""

from pathlib import Path
from typing import Annotated, ClassVar

from servemark.documents.commands import Command, Json, Repository, Verbose, existing
from servemark.documents.fields import Port, argument, folder, option
from servemark.documents.live import GENERATOR, TRITON
from servemark.documents.request import DEFAULT_ENGINE
from servemark.paths import MODEL_REPOSITORY, MONITORING
from servemark.results.kinds import KINDS

REQUEST = "request"
Scraped = Annotated[
    str, option("Metrics of the generator: a run's --metrics-port on this machine.", metavar="HOST:PORT")
]
TritonScraped = Annotated[str, option("Triton's own metrics.", metavar="HOST:PORT")]


class Show(Command, frozen=True, kw_only=True):
    """Show the saved result of any command again.

    The commands are run, explain, compare, tune, suite, mlperf, quality, calibrate, kernels, profile, characterise and
    synthesise.

    Example: servemark show results/latest -v
    """

    result: Annotated[Path, argument("A result directory, or its JSON file.", "RESULT", read=existing)]
    json: Json = False
    verbose: Verbose = False


class Report(Command, frozen=True, kw_only=True):
    """Write saved runs, searches, comparisons, tunings and suites as one self-contained HTML page.

    Several runs stand side by side; those of a range of rates are a curve. The page of one result lies beside it.

    csv: one row a result. md: for a pull request. junit: a test case for each constraint and each objective.

    parquet: requests.parquet, if --request-log kept them, and series.parquet beside each result.

    --mlflow: a run with request, figures, verdict and page. MLFLOW_EXPERIMENT_NAME names the experiment.

    Example: servemark report results/20261120-140000-ranking_onnxruntime

    Example: servemark report results/before results/after --format csv -o runs.csv
    """

    results: Annotated[
        tuple[Path, ...], argument("Result directories, or their JSON files.", "RESULT...", read=existing)
    ]
    out: Annotated[Path | None, option("Else stdout; html: report.html.", short="-o", metavar="FILE")] = None
    form: Annotated[str, option("html, md, csv, junit or parquet.", name="format", metavar="F")] = "html"
    mlflow: Annotated[str, option("Send each result to this MLflow server instead.", metavar="URL")] = ""


class DashboardsUp(Command, frozen=True, kw_only=True):
    """Start Triton, Prometheus and Grafana in containers (Docker or Podman, with compose), until Ctrl-C.

    Without a container engine: the prometheus on PATH, and how to show the dashboards in a Grafana of yours.

    Example: servemark dashboards up ranking_onnxruntime
    """

    SHORT: ClassVar = "Start Prometheus and Grafana until Ctrl-C."
    entry: Annotated[
        str, argument("Entry of the model repository that Triton serves; in containers alone.", "[ENTRY]")
    ] = f"ranking_{DEFAULT_ENGINE}"
    metrics: Scraped = GENERATOR
    triton_metrics: TritonScraped = TRITON
    prometheus_port: Annotated[Port, option("Prometheus; 0 picks a free port.")] = 9090
    grafana_port: Annotated[Port, option("Grafana, in containers; 0 picks a free port.")] = 3000
    data: Annotated[Path, folder("Folder of the files and of Prometheus's data.", MONITORING)] = MONITORING
    model_repository: Repository = MODEL_REPOSITORY
    json: Json = False


class DashboardsExport(Command, frozen=True, kw_only=True):
    """Write Grafana's dashboards and provisioning, Prometheus's configuration and rules, and the compose file.

    Example: servemark dashboards export monitoring
    """

    SHORT: ClassVar = "Write dashboards, rules and provisioning to a folder."
    folder: Annotated[Path, argument("Folder to write to.", "DIR")]
    metrics: Scraped = GENERATOR
    triton_metrics: TritonScraped = TRITON
    force: Annotated[bool, option("Overwrite files of another content.")] = False
    json: Json = False


class DashboardsLoad(Command, frozen=True, kw_only=True):
    """Load the dashboards into a Grafana through its API, with Prometheus as their data source.

    Example: servemark dashboards load http://127.0.0.1:3000 --token-file token.txt
    """

    SHORT: ClassVar = "Load the dashboards into a Grafana that runs."
    grafana: Annotated[str, argument("Its URL, like http://127.0.0.1:3000.", "GRAFANA")]
    prometheus: Annotated[str, option("Prometheus, as Grafana reaches it.", metavar="URL")] = "http://127.0.0.1:9090"
    token_file: Annotated[
        Path | None, option("A service account's token. Else ~/.netrc names user and password.", metavar="FILE")
    ] = None
    json: Json = False


class Dashboards(Command, frozen=True, kw_only=True):
    """Watch a run: Prometheus, and Grafana with dashboards and alert rules.

    Example: servemark dashboards up
    """

    PARTS: ClassVar = {"up": DashboardsUp, "export": DashboardsExport, "load": DashboardsLoad}


class Schema(Command, frozen=True, kw_only=True):
    """Print the JSON Schema (draft 2020-12) of a kind of document.

    Example: servemark schema comparison
    """

    kind: Annotated[str, argument(f"Kind of document: {', '.join((*KINDS, REQUEST))}.", "[KIND]")] = "load"
