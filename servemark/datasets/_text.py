"""Text files, line by line with their places."""

import codecs
from collections.abc import Iterator
from pathlib import Path

from servemark import files
from servemark.errors import InputDataError


def lines(path: Path, fix: str) -> Iterator[tuple[str, str]]:
    """Yield each line of a UTF-8 file, without its end, after the place it stands at: `file:number`.

    Raises InputDataError naming a file that is not there, cannot be read or is empty, and the line that is no UTF-8.
    """
    number = 0
    try:
        with path.open("rb") as file:  # a text file would name the byte of its buffer rather than the line
            for number, line in enumerate(file, 1):
                if number == 1:
                    files.require_utf8(line)
                    line = line.removeprefix(codecs.BOM_UTF8)  # noqa: PLW2901
                yield f"{path}:{number}", line.decode("utf-8").rstrip("\r\n")
    except FileNotFoundError as error:
        raise InputDataError(f"{path} is not there", fix=fix) from error
    except files.NotTextError as error:
        raise InputDataError(f"{path}: {error}", fix=error.fix) from error
    except UnicodeDecodeError as error:
        raise InputDataError(f"{path}:{number}: no UTF-8: {error.reason}", fix=fix) from error
    except OSError as error:
        raise InputDataError(f"{path} cannot be read: {error}", fix=fix) from error
    if not number:
        raise InputDataError(f"{path} is empty", fix=fix)
