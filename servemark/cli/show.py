"""`servemark show`: a saved result again, as it was shown at its end."""

from servemark.documents.commands.show import Show
from servemark.results import directory
from servemark.results.saved import file_of, read_saved
from servemark.views.render import terminal


def show(options: Show) -> None:
    """Show a result."""
    file = file_of(options.result)
    if options.json:
        directory.print_json(directory.read(file))
        return
    terminal.show(read_saved(options.result))
