"""The command line. One file for each command, which is imported when it is called; and shell completion."""

import keyword
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from servemark import __version__, interrupts
from servemark.errors import ExitCode, NoResultError, OptionError, ServemarkError, of_the_system
from servemark.output import NOTES, SAYS, stderr

PLACES = {
    "bash": (".bash_completions/servemark.sh", ".bashrc", "source '{}'"),
    "zsh": (".zfunc/_servemark", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    "fish": (".config/fish/completions/servemark.fish", "", ""),
}
"""Shell -> the script's file in the home folder, and the file with the line that reads it, where one is needed."""
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
    **dict.fromkeys(("-o", "-f"), "--out"),
}
"""Flag names of wrk2, k6, vegeta, Locust and perf_analyzer -> our flag of a load."""
SUBJECTS = {
    "Measure": {
        "run": "Measure one workload under load and judge the run.",
        "suite": "Export and load every workload of a suite.",
        "mlperf": "Run an MLPerf scenario through the official LoadGen.",
        "quality": "Score the answers to a labelled data set.",
        "kernels": "Time the operations that models are made of.",
        "rerun": "Run again what made a result.",
    },
    "Compare": {
        "compare": "Compare engines, servers or saved results.",
        "tune": "Find the best config.pbtxt for an objective.",
        "history": "Find where a figure changed over all saved results.",
        "baseline": "Keep a result under a name, to be compared with.",
    },
    "Understand": {
        "explain": "Say why the slowest requests are slow.",
        "profile": "Time one inference by operator, and its memory.",
        "calibrate": "Show how wrong this load generator is, and others.",
        "characterise": "Find the few of a suite that stand for all.",
        "synthesise": "Make one network that stands for several.",
    },
    "Prepare": {
        "doctor": "Show what this machine can do.",
        "list": "Show the workloads.",
        "import": "Make a workload of a model file of your own.",
        "export": "Export workloads to the model repository.",
        "serve": "Serve workloads with Triton until Ctrl-C.",
        "servers": "List server products, or install one.",
        "data": "List the data sets, or fetch one.",
        "init": "Write a starter configuration and locustfile.",
    },
    "Show": {
        "show": "Show a saved result again.",
        "report": "Write saved results as one HTML page.",
        "dashboards": "Watch runs with Prometheus and Grafana.",
        "schema": "Print the JSON Schema of a result.",
    },
}
"""Purpose of commands -> each command, and what the list of commands says of it."""
COMMANDS = {name: words for commands in SUBJECTS.values() for name, words in commands.items()}
"""All commands. The function of each has its name, and so have its module here and its document."""
ELSEWHERE = {"kernels": "kernels.command"}
"""The module of a command's function that belongs to another room."""


def _flag(names: list[str], words: Callable[[], str], help_: str) -> click.Option:
    """Make an option of the group that shows words and ends, before a missing command is noticed."""

    def called(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            click.echo(words())
            context.exit()

    return click.Option(names, is_flag=True, is_eager=True, expose_value=False, callback=called, help=help_)


def _script() -> tuple[str, str]:
    """Return the current shell, and its script. Raises OptionError."""
    shell = Path(os.environ.get("SHELL", "")).name
    kind = get_completion_class(shell)
    if kind is None or shell not in PLACES:
        fix = f"SHELL=bash servemark --show-completion; there are {', '.join(PLACES)}"
        raise OptionError(f"there is no completion for the shell {shell!r}", fix=fix)
    return shell, kind(click.Group(), {}, "servemark", "_SERVEMARK_COMPLETE").source()


def _install() -> str:
    """Write the script where the current shell reads it, and say where. Raises OptionError."""
    shell, script = _script()
    place, start, line = PLACES[shell]
    file = Path.home() / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script)
    if start:
        beginning = Path.home() / start
        text = beginning.read_text() if beginning.is_file() else ""
        if line.format(file) not in text:
            beginning.write_text(f"{text}\n{line.format(file)}\n")
    return f"{shell} completion installed in {file}\nCompletion will take effect once you restart the terminal"


class _Imported(Mapping[str, Any]):
    """The commands by name, each made when it is asked for: all documents together take time to import."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        if name not in self._made:
            from servemark.cli._command import command_of

            room = ELSEWHERE.get(name, f"servemark.cli.{name}{'_' * keyword.iskeyword(name)}")
            subject = next(subject for subject, commands in SUBJECTS.items() if name in commands)
            self._made[name] = command_of(name, room, subject.lower())
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Commands(click.Group):
    """A group that imports a command when it is called, and none to list them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        commands: Any = _Imported()
        self.commands = commands

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Their names in the order of the table."""
        return [*COMMANDS]  # list is a module here once that command is imported

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the commands by what they are for."""
        width = max(map(len, COMMANDS))
        for subject, commands in SUBJECTS.items():
            with formatter.section(subject):
                formatter.write_dl([(f"{name:{width}}", words) for name, words in commands.items()])


def build() -> click.Group:
    """The command group with all commands."""
    return _Commands(
        name="servemark",
        params=[
            _flag(["--version", "-V"], lambda: f"servemark {__version__}", "Show the version and exit."),
            _flag(["--install-completion"], _install, "Install completion for the current shell."),
            _flag(
                ["--show-completion"],
                lambda: _script()[1],
                "Show completion for the current shell, to copy it or customize the installation.",
            ),
        ],
        help="Load-test inference servers with real models: export, serve with Triton, drive, judge.",
        epilog=EPILOG,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


_INTERRUPTED = "servemark: interrupted"


def main() -> None:
    """Run a command and turn what goes wrong into a message and a documented exit code."""
    os.environ.setdefault(SAYS, NOTES)
    interrupts.install()
    try:
        code = build()(sys.argv[1:] or ["--help"], prog_name="servemark", standalone_mode=False)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "servemark"
        unknown = getattr(error, "option_name", "")
        known = OTHERS_FLAGS.get(unknown)
        said = f"No such option {unknown!r}." if known else error.format_message()
        fix = f"{known} is what it is called here" if known else f"{command} --help"
        stderr.print(f"servemark: {said}\n  fix: {fix}", style="red")
        code = ExitCode.BAD_INPUT
    except ServemarkError as error:
        stderr.print(f"servemark: {error}", style="red")
        code = error.exit_code
    except NoResultError as error:
        code = error.exit_code
        if said := error.said or (_INTERRUPTED if code == interrupts.EXIT_CODE else ""):
            stderr.print(said, style="red")
    except (KeyboardInterrupt, click.Abort):
        stderr.print(_INTERRUPTED, style="red")
        code = interrupts.EXIT_CODE
    except Exception as error:
        if words := of_the_system(error):
            stderr.print(f"servemark: {words}", style="red")
            code = words.exit_code
        else:
            stderr.print_exception()
            code = ExitCode.INTERNAL
    sys.exit(int(code or 0))
