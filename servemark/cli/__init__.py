"""The command line. One file for each command; heavy imports live inside the commands."""

import sys

import typer
from typer.core import TyperGroup

from servemark import __version__, interrupts
from servemark.errors import ExitCode, NoResultError, ServemarkError
from servemark.output import stderr

EPILOG = (
    "Exit codes: 0 valid, 2 invalid or undecided, 3 bad option or input, 4 SLO missed, 5 regression, "
    "99 internal error, 130 ended by a signal."
)

OTHERS_FLAGS = {
    **dict.fromkeys(("--rate", "--qps", "--rps", "-r", "-R"), "--request-rate"),
    **dict.fromkeys(("-c", "--connections", "--users", "--vus", "--concurrent"), "--concurrency"),
    **dict.fromkeys(("-d", "-t", "--time", "--run-time", "--measurement-interval"), "--duration"),
    **dict.fromkeys(("-m", "--model"), "--model-name"),
    **dict.fromkeys(("-l", "--latency-threshold", "--threshold"), "--slo"),
    **dict.fromkeys(("-o", "--output", "-f"), "--out"),
}
"""What wrk2, k6, vegeta, Locust and perf_analyzer call it -> our flag of a load."""

app = typer.Typer(
    name="servemark",
    help="Load-test inference servers with real models: export, serve with Triton, drive, judge.",
    epilog=EPILOG,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"servemark {__version__}")
        raise typer.Exit


@app.callback()
def _version(
    # Its own callback comes before a missing command is noticed.
    version: bool = typer.Option(
        False, "--version", "-V", help="Show the version and exit.", is_eager=True, callback=_show_version
    ),
) -> None: ...


def build() -> TyperGroup:
    """The command group with all commands."""
    from servemark.cli import (
        compare,
        dashboards,
        data,
        doctor,
        export,
        history,
        import_,
        init,
        kernels,
        mlperf,
        quality,
        report,
        rerun,
        run,
        schema,
        serve,
        show,
        suite,
        tune,
    )
    from servemark.cli import list as listing
    from servemark.cli._own_models import takes_own_models
    from servemark.cli._run_file import TakesDefaults

    app.command("doctor", short_help="Show what this machine can do.")(doctor.doctor)
    app.command("list", short_help="Show the workloads.")(takes_own_models(listing.list_workloads))
    app.command("import", short_help="Make a workload of a model file of your own.")(
        takes_own_models(import_.import_model)
    )
    app.command("export", short_help="Export workloads to the model repository.")(takes_own_models(export.export))
    app.command("serve", short_help="Serve workloads with Triton until Ctrl-C.")(takes_own_models(serve.serve))
    app.command("run", cls=TakesDefaults, short_help="Measure one workload under load and judge the run.")(
        takes_own_models(run.run)
    )
    app.command("rerun", context_settings=rerun.PASSES_ON, short_help="Run again what made a result.")(rerun.rerun)
    app.command("compare", short_help="Compare engines, or saved results, side by side.")(
        takes_own_models(compare.compare)
    )
    app.command("tune", short_help="Find the best config.pbtxt for an objective.")(takes_own_models(tune.tune))
    app.command("mlperf", short_help="Run an MLPerf scenario through the official LoadGen.")(
        takes_own_models(mlperf.mlperf)
    )
    app.command("quality", short_help="Score the answers to a labelled data set.")(takes_own_models(quality.quality))
    app.command("suite", short_help="Export and load every workload of a suite.")(takes_own_models(suite.suite))
    app.command("kernels", short_help="Time the operations that models are made of.")(kernels.kernels)
    app.command("show", short_help="Show a saved result again.")(show.show)
    app.command("report", short_help="Write saved results as one HTML page.")(report.report)
    app.command("history", short_help="Find where a figure changed over all saved results.")(history.history)
    app.command("init", short_help="Write a starter configuration and locustfile.")(init.init)
    app.command("schema", short_help="Print the JSON Schema of a result.")(schema.schema)
    app.command("data", short_help="Fetch a data set.")(data.data)
    app.add_typer(dashboards.app, name="dashboards", short_help="Watch runs with Prometheus and Grafana.")
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def main() -> None:
    """Run a command and turn what goes wrong into a message and a documented exit code."""
    interrupts.install()
    try:
        code = build()(sys.argv[1:] or ["--help"], prog_name="servemark", standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "servemark"
        unknown = getattr(error, "option_name", "")
        known = OTHERS_FLAGS.get(unknown)
        said = f"No such option: {unknown}" if known else error.format_message()
        fix = f"{known} is what it is called here" if known else f"{command} --help"
        stderr.print(f"servemark: {said}\n  fix: {fix}", style="red")
        code = ExitCode.BAD_INPUT
    except ServemarkError as error:
        stderr.print(f"servemark: {error}", style="red")
        code = error.exit_code
    except NoResultError as error:
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = interrupts.EXIT_CODE
    except Exception:
        stderr.print_exception()
        code = ExitCode.INTERNAL
    if code == interrupts.EXIT_CODE:
        stderr.print("servemark: interrupted", style="red")
    sys.exit(int(code or 0))
