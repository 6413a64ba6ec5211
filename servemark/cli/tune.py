"""`servemark tune`: search for the configuration with the highest rate within an objective, and write it."""

from pathlib import Path

from loadgen.load.load_config import LoadConfig
from servemark.cli._load import resolved
from servemark.cli._report import conclude
from servemark.documents.commands.compare import Tune
from servemark.errors import ExitCode, OptionError
from servemark.output import note
from servemark.paths import resumed
from servemark.quantities import duration_text
from servemark.repository.model_config import Settings
from servemark.results import directory
from servemark.results.schema.search import TuningDocument
from servemark.runs.server import export_where_needed, needs_export
from servemark.search.tuning import tune_entry, write_tuning, write_winner
from servemark.views.kinds.tuning import comment
from servemark.views.render.terminal import show
from servemark.workload import get

CODES = {"better": ExitCode.VALID, "same": ExitCode.VALID, "missed": ExitCode.SLO_MISSED, "undecided": ExitCode.INVALID}


def tune(options: Tune) -> int:
    """Tune an entry; the exit code."""
    if options.url:
        raise OptionError(
            f"tune writes a model's config.pbtxt and starts Triton with it, which {options.url} cannot be given",
            fix="tune it where its model repository lies; a file of a model: `servemark import FILE`",
        )
    get(options.workload)
    if not options.given["slo"]:
        raise OptionError("tune needs an objective", fix="give one, like --slo p99:50")
    options.require_fixed_warmup()
    config = resolved(options.request(options.workload))
    folder = resumed(options.resume) or directory.new_directory(config.out, f"tune-{config.model}")
    document = _tuned(config, options, folder)
    conclude(folder, document, options)
    return int(CODES[document["outcome"]])


def _tuned(config: LoadConfig, options: Tune, folder: Path) -> TuningDocument:
    """Tune an entry, write the winner into it unless --dry-run is given, and write the document."""
    end = "; --dry-run measures all the same, and writes no config.pbtxt" if options.dry_run else ""
    first = "; before that an export" if needs_export(config.entry) else ""
    note(
        f"tuning {config.model}: real runs for {duration_text(options.budget_s)} at most (--budget), and the one under "
        f"way then{first}{end}"
    )
    export_where_needed([config.workload.name], config.engine, config.model_repository, config.precision)
    settings, present = Settings.of(config.server), config.entry.read_config()
    document = tune_entry(
        config,
        settings.apply(present) if settings else present,
        folder=folder,
        budget_s=options.budget_s,
        resume=bool(options.resume),
        oversubscribe=options.oversubscribe,
        despite_busy=options.despite_busy,
        on_cut=(lambda _: None) if options.json else show,
    )
    written = reason = None
    if document["winner"] is None:
        reason = f"{document['outcome']}, not better"
    elif options.dry_run:
        reason = "--dry-run"
    else:
        text = comment(document) + "\n" + document["winner"]["config"]
        written = write_winner(config.entry.config, present, text)
    return write_tuning(folder, document, written=written, reason=reason)
