"""The command line. One file for each command; heavy imports live inside the commands."""

import sys

import typer
from typer.core import TyperGroup

from servemark import __version__
from servemark.errors import ExitCode, ServemarkError
from servemark.output import stderr

EPILOG = (
    "Exit codes: 0 valid, 2 invalid or unstable, 3 bad option or input, 4 SLO missed, 5 regression, 99 internal error."
)

app = typer.Typer(
    name="servemark",
    help="Load-test inference servers with real models: export, serve with Triton, drive, judge.",
    epilog=EPILOG,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _version(
    version: bool = typer.Option(False, "--version", help="Show the version and exit.", is_eager=True),
) -> None:
    if version:
        typer.echo(f"servemark {__version__}")
        raise typer.Exit


def build() -> TyperGroup:
    """The command group with all commands."""
    from servemark.cli import compare, data, doctor, export, mlperf, run, serve, suite, tune, zoo

    app.command("doctor")(doctor.doctor)
    app.command("list")(zoo.list_workloads)
    app.command("export")(export.export)
    app.command("serve")(serve.serve)
    app.command("run")(run.run)
    app.command("compare")(compare.compare)
    app.command("tune")(tune.tune)
    app.command("mlperf")(mlperf.mlperf)
    app.command("suite")(suite.suite)
    app.command("data")(data.data)
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def main() -> None:
    """Run a command and turn what goes wrong into a message and a documented exit code."""
    try:
        code = build()(sys.argv[1:] or ["--help"], standalone_mode=False)
    except typer.TyperException as error:
        message = error.format_message()
        stderr.print(f"servemark: {message}\n  fix: servemark COMMAND --help", markup=False, style="red")
        code = ExitCode.BAD_INPUT
    except ServemarkError as error:
        stderr.print(f"servemark: {error}", markup=False, style="red")
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        stderr.print("servemark: interrupted", style="red")
        code = 130
    except Exception:
        stderr.print_exception()
        code = ExitCode.INTERNAL
    sys.exit(int(code or 0))
