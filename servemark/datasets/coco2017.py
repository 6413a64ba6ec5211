"""COCO 2017's validation pictures in the official layout: `annotations/instances_val2017.json` and `val2017/*.jpg`.

Lin et al. 2014, "Microsoft COCO: Common Objects in Context" (ECCV).
"""

import json
from collections.abc import Iterator
from pathlib import Path

from servemark.errors import InputDataError

KEY = "coco2017"
ANNOTATIONS, PICTURES = Path("annotations/instances_val2017.json"), Path("val2017")
FIX = "unpack the official annotations_trainval2017.zip and val2017.zip into one folder"


def pictures(folder: Path) -> Iterator[Path]:
    """List the annotated pictures in the order of the annotations.

    Raises InputDataError naming the file, and the line or the entry, for anything that is not the official layout.
    """
    path = folder / ANNOTATIONS
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputDataError(f"{path}:{error.lineno}: no JSON: {error.msg}", fix=FIX) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputDataError(f"{path} cannot be read: {error}", fix=FIX) from error
    entries = content.get("images") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not entries:
        raise InputDataError(f"{path} has no list of `images`", fix=FIX)
    for index, entry in enumerate(entries):
        name = entry.get("file_name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or Path(name).name != name:
            raise InputDataError(f"{path}: images[{index}] has no `file_name` of a picture: {entry!r:.80}", fix=FIX)
        picture = folder / PICTURES / name
        if not picture.is_file():
            raise InputDataError(f"{picture} is not there; {path} has it as images[{index}]", fix=FIX)
        yield picture
