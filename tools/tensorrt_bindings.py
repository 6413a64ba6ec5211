"""Hold all that servemark calls of TensorRT against NVIDIA's Python bindings, of any version and without a GPU.

    python -m tools.tensorrt_bindings                               # those that are installed
    python -m tools.tensorrt_bindings 10.3.0 10.16.1.11 11.4.0.106

tests/doubles/stubs/tensorrt.pyi is what servemark calls: mypy checks the calls against it, and this checks it against
the names and signatures of the bindings. Their wheels are on PyPI; the libraries that they ask for are not, so empty
ones take their place. What the stub says to be of TensorRT-RTX is asked of those bindings alone.
"""

import argparse
import ast
import ctypes
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from servemark.paths import CHECKOUT

STUB = CHECKOUT / "tests" / "doubles" / "stubs" / "tensorrt.pyi"
OF_RTX = "of TensorRT-RTX"
"""Words of the stub's comment beside what TensorRT itself does not have."""
WHEEL = "tensorrt-cu13-bindings", "tensorrt-cu12-bindings"
"""The first has the versions from 10.13.2 on."""
MODULE = "tensorrt_bindings"
FUNCTIONS = (
    "createInferBuilder_INTERNAL",
    "createInferRefitter_INTERNAL",
    "createInferRuntime_INTERNAL",
    "createNvOnnxParserRefitter_INTERNAL",
    "createNvOnnxParser_INTERNAL",
    "getBuilderPluginRegistry",
    "getNvOnnxParserVersion",
    "getPluginRegistry",
    "initLibNvInferPlugins",
)
"""Symbols that the bindings ask the libraries for when they are loaded."""
UNSEEN = {"__buffer__", "__iter__"}
"""Python 3.11 does not show the one; sequences of pybind11 do without the other."""


def faults(module: object, *, rtx: bool) -> list[str]:
    """List what the stub says that a module does not have, or takes otherwise."""
    lines = STUB.read_text().splitlines()
    return list(_faults(ast.parse("\n".join(lines)).body, module, lines, rtx, ""))


def _faults(body: Sequence[ast.stmt], owner: Any, lines: Sequence[str], rtx: bool, path: str) -> Iterator[str]:
    for statement in body:
        name = _name(statement)
        ends = statement.lineno if isinstance(statement, ast.ClassDef) else statement.end_lineno
        of_rtx = any(OF_RTX in line for line in lines[statement.lineno - 1 : ends])
        if name is None or name in UNSEEN or name.startswith("_M") or (of_rtx and not rtx):
            continue
        found = getattr(owner, name, None)
        if found is None and not hasattr(owner, name):
            yield f"{path}{name} is not there"
        elif isinstance(statement, ast.ClassDef):
            yield from _faults(statement.body, found, lines, rtx, f"{path}{name}.")
        elif isinstance(statement, ast.FunctionDef) and not name.startswith("__"):
            taken = [each.arg for each in (*statement.args.posonlyargs, *statement.args.args) if each.arg != "self"]
            signatures = list(_signatures(str(found.__doc__), name))
            if not any(_fits(taken, bool(statement.args.posonlyargs), each) for each in signatures):
                yield f"{path}{name} takes {signatures}, called with {taken}"


def _name(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return statement.name
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    return None


def _signatures(words: str, name: str) -> Iterator[list[str]]:
    """Read pybind11's signatures, one a line: parameters but `self`, with a `=` behind those that have a default."""
    for line in re.findall(rf"^(?:\d+\. )?{name}\((.*)\)(?: -> .*)?$", words, re.MULTILINE):
        parts = re.split(r", (?=\w+: )", line) if line else []
        yield [part.partition(":")[0] + ("=" if " = " in part else "") for part in parts if not part.startswith("self")]


def _fits(taken: Sequence[str], by_place: bool, signature: Sequence[str]) -> bool:
    given, rest = signature[: len(taken)], signature[len(taken) :]
    named = by_place or all(
        one == other.removesuffix("=") or other.startswith("arg") for one, other in zip(taken, given, strict=False)
    )
    return len(given) == len(taken) and named and all(each.endswith("=") for each in rest)


def loaded(folder: Path) -> ModuleType:
    """Import the bindings of a folder over empty libraries; a process can do so once."""
    wanted = re.findall(
        rb"lib(?:nvinfer|nvonnxparser|nvinfer_plugin)\.so\.\d+", (folder / MODULE / "tensorrt.so").read_bytes()
    )
    source = "".join(f"void *{each}(void) {{ return 0; }}\n" for each in FUNCTIONS)
    for name in {each.decode() for each in wanted}:
        command = ["gcc", "-shared", "-fPIC", "-o", str(folder / name), f"-Wl,-soname,{name}", "-x", "c", "-"]
        subprocess.run(command, input=source, text=True, check=True)
        ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
    sys.setdlopenflags(os.RTLD_LAZY)
    sys.path.insert(0, str(folder))
    return importlib.import_module(MODULE)


def unpack(version: str | None, folder: Path) -> None:
    """Download the bindings of a version, or copy those that are installed. Raises SystemExit where there are none."""
    if version is None:
        spec = importlib.util.find_spec(MODULE)
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit(f"{MODULE} is not installed: make setup")
        shutil.copytree(spec.submodule_search_locations[0], folder / MODULE)
        return
    wheel = WHEEL[tuple(map(int, version.split(".")[:3])) < (10, 13, 2)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*command, "--dest", str(folder), f"{wheel}=={version}"], check=True, stderr=subprocess.DEVNULL)
    (file,) = folder.glob("*.whl")
    zipfile.ZipFile(file).extractall(folder)


def main() -> int:
    """Check the versions that are named, each in a process of its own, or the installed one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    versions: list[str] = parser.parse_args().versions
    if len(versions) > 1:
        command = [sys.executable, "-m", "tools.tensorrt_bindings"]
        return max(subprocess.run([*command, each], check=False).returncode for each in versions)
    with tempfile.TemporaryDirectory() as temporary:
        unpack(versions[0] if versions else None, Path(temporary))
        module = loaded(Path(temporary))
        found = faults(module, rtx=False)
    print("\n".join([f"TensorRT {module.__version__}: {len(found) or 'no'} faults", *found]), flush=True)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
