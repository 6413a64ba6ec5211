"""Annotations of objects in COCO's format: one JSON file with `images`, `annotations` and `categories`.

Lin et al. 2014, "Microsoft COCO: Common Objects in Context" (ECCV).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servemark import files
from servemark.errors import InputDataError, reason

OBJECT_KEYS = frozenset({"image_id", "category_id", "bbox", "area", "iscrowd"})


@dataclass(frozen=True)
class Annotations:
    """The annotated pictures, each with its entry of `images` and its entries of `annotations`."""

    pictures: list[tuple[Path, dict[str, Any], list[dict[str, Any]]]]
    categories: list[int]
    """The ids of the classes, in order."""


@dataclass(frozen=True)
class Layout:
    """Places of the files of a data set in this format, and the keys that its objects have beside OBJECT_KEYS."""

    annotations: Path
    folder: Path
    """Of the pictures."""
    fix: str
    more_keys: frozenset[str] = frozenset()

    def pictures(self, root: Path) -> Iterator[Path]:
        """List the annotated pictures in the order of the annotations.

        Raises InputDataError naming the file, and the line or the entry, for anything that is not the official layout.
        """
        return (picture for picture, _ in self._pictures(root, self._content(root)))

    def annotated(self, root: Path) -> Annotations:
        """Read the pictures with their objects. Raises InputDataError naming the file, and the line or the entry."""
        path, content = root / self.annotations, self._content(root)
        objects: dict[int, list[dict[str, Any]]] = {}
        for index, each in enumerate(content.get("annotations") or []):
            if not isinstance(each, dict) or not each.keys() >= OBJECT_KEYS | self.more_keys:
                raise self._wrong(f"{path}: annotations[{index}] is not an object: {each!r:.80}")
            objects.setdefault(each["image_id"], []).append(each)
        if not objects:
            raise self._wrong(f"{path} has no `annotations`")
        try:
            categories = sorted(int(each["id"]) for each in content["categories"])
            found = [(picture, entry, objects.get(entry["id"], [])) for picture, entry in self._pictures(root, content)]
            sized = all(entry["height"] and entry["width"] for _, entry, _ in found)
        except (KeyError, TypeError, ValueError) as error:
            raise self._wrong(f"{path} lacks {error}") from error
        if not sized:
            raise self._wrong(f"{path} has pictures without a size")
        return Annotations(found, categories)

    def _content(self, root: Path) -> dict[str, Any]:
        path = root / self.annotations
        try:
            content = json.loads(files.text(path, files.DATA_BYTES))
        except json.JSONDecodeError as error:
            raise self._wrong(f"{path}:{error.lineno}: no JSON: {error.msg}") from error
        except (OSError, files.NotTextError) as error:
            raise self._wrong(f"{path} cannot be read: {reason(error)}") from error
        if not isinstance(content, dict) or not isinstance(content.get("images"), list) or not content["images"]:
            raise self._wrong(f"{path} has no list of `images`")
        return content

    def _pictures(self, root: Path, content: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
        path = root / self.annotations
        for index, entry in enumerate(content["images"]):
            name = entry.get("file_name") if isinstance(entry, dict) else None
            if not isinstance(name, str) or Path(name).name != name:
                raise self._wrong(f"{path}: images[{index}] has no `file_name` of a picture: {entry!r:.80}")
            picture = root / self.folder / name
            if not picture.is_file():
                raise self._wrong(f"{picture} is not there; {path} has it as images[{index}]")
            yield picture, entry

    def _wrong(self, what: str) -> InputDataError:
        return InputDataError(what, fix=self.fix)
