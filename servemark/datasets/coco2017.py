"""COCO 2017's validation pictures in the official layout: `annotations/instances_val2017.json` and `val2017/*.jpg`.

Lin et al. 2014, "Microsoft COCO: Common Objects in Context" (ECCV).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servemark import files
from servemark.datasets._origin import CATALOGUE, COPY, Origin
from servemark.errors import InputDataError

KEY = "coco2017"
ORIGIN = Origin(
    "cocodataset.org", 1068, "annotations CC BY 4.0, pictures Flickr's terms", size_from=CATALOGUE, terms_from=COPY
)
ANNOTATIONS, PICTURES = Path("annotations/instances_val2017.json"), Path("val2017")
OBJECT_KEYS = {"image_id", "category_id", "bbox", "area", "iscrowd", "segmentation"}
FIX = "unpack the official annotations_trainval2017.zip and val2017.zip into one folder"


@dataclass(frozen=True)
class Annotations:
    """The validation pictures, each with its entry of `images` and its entries of `annotations`."""

    pictures: list[tuple[Path, dict[str, Any], list[dict[str, Any]]]]
    categories: list[int]
    """The ids of the classes, in order: 80 of 1 to 90."""


def pictures(folder: Path) -> Iterator[Path]:
    """List the annotated pictures in the order of the annotations.

    Raises InputDataError naming the file, and the line or the entry, for anything that is not the official layout.
    """
    return (picture for picture, _ in _pictures(folder, _content(folder)))


def annotated(folder: Path) -> Annotations:
    """Read the pictures with their objects. Raises InputDataError naming the file, and the line or the entry."""
    path, content = folder / ANNOTATIONS, _content(folder)
    objects: dict[int, list[dict[str, Any]]] = {}
    for index, each in enumerate(content.get("annotations") or []):
        if not isinstance(each, dict) or not each.keys() >= OBJECT_KEYS:
            raise InputDataError(f"{path}: annotations[{index}] is not an object: {each!r:.80}", fix=FIX)
        objects.setdefault(each["image_id"], []).append(each)
    if not objects:
        raise InputDataError(f"{path} has no `annotations`", fix=FIX)
    try:
        categories = sorted(int(each["id"]) for each in content["categories"])
        found = [(picture, entry, objects.get(entry["id"], [])) for picture, entry in _pictures(folder, content)]
        sized = all(entry["height"] and entry["width"] for _, entry, _ in found)
    except (KeyError, TypeError, ValueError) as error:
        raise InputDataError(f"{path} lacks {error}", fix=FIX) from error
    if not sized:
        raise InputDataError(f"{path} has pictures without a size", fix=FIX)
    return Annotations(found, categories)


def _content(folder: Path) -> dict[str, Any]:
    path = folder / ANNOTATIONS
    try:
        content = json.loads(files.text(path, files.DATA_BYTES))
    except json.JSONDecodeError as error:
        raise InputDataError(f"{path}:{error.lineno}: no JSON: {error.msg}", fix=FIX) from error
    except (OSError, files.NotTextError) as error:
        raise InputDataError(f"{path} cannot be read: {error}", fix=FIX) from error
    if not isinstance(content, dict) or not isinstance(content.get("images"), list) or not content["images"]:
        raise InputDataError(f"{path} has no list of `images`", fix=FIX)
    return content


def _pictures(folder: Path, content: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    path = folder / ANNOTATIONS
    for index, entry in enumerate(content["images"]):
        name = entry.get("file_name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or Path(name).name != name:
            raise InputDataError(f"{path}: images[{index}] has no `file_name` of a picture: {entry!r:.80}", fix=FIX)
        picture = folder / PICTURES / name
        if not picture.is_file():
            raise InputDataError(f"{picture} is not there; {path} has it as images[{index}]", fix=FIX)
        yield picture, entry
