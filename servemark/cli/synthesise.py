"""`servemark synthesise`: one network whose layers match those of several."""

from servemark.cli._report import conclude
from servemark.documents.commands.understand import Synthesise
from servemark.synthesis.run import synthesise as make


def synthesise(options: Synthesise) -> None:
    """Make the network."""
    folder, document = make(options)
    conclude(folder, document, options)
