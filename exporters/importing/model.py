"""`servemark import`: a model file into the user's folder of models, checked in the format's own runtime."""

import functools
import itertools
import json
import os
import platform
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from exporters.importing import onnx_file, saved_model, torch_program, triton_entry
from exporters.importing.model_file import (
    Format,
    ModelDescription,
    Wishes,
    folders_of,
    inputs_of,
    largest_batch,
    unusable,
    written,
)
from exporters.importing.sandbox import NO_ROOM, run_sandboxed
from exporters.importing.triton_entry import TritonEntry
from exporters.pipeline.export import require_exporter, sha256_of, swap_in, sweep
from exporters.pipeline.golden import choose_answered
from exporters.pipeline.job import Run
from exporters.pipeline.parity import answers
from exporters.pipeline.provenance import packages
from exporters.pipeline.registry import SOURCE, exporter, route
from servemark import __version__
from servemark.errors import MAX_QUOTED, ArtifactError, OptionError, ServemarkError
from servemark.repository.entry import FULL, Golden, write_golden
from servemark.workload import Arrays, Sample, Workload, stack, write_npz
from servemark.workload.agreement import Agreement, compare_outputs, scale_of
from servemark.workload.imported import DESCRIPTION, GOLDEN, SAMPLES, described, read_model
from servemark.workload.registry import check_name, own
from servemark.workload.spec import VERSION

MAX_REQUESTS = 256
MAX_REQUEST_BYTES = 64 << 20
"""Requests that are kept with the model, at most."""
TOGETHER = 3
"""Samples that have to give the same together as one by one, for the model to take batches."""
NO_BATCH = "if the first size is not a batch, --max-batch 0"
MOST_WORDS = 400
"""Letters of a runtime's error, at most."""
MAX_NAME = 250
"""Letters of a tensor's name, at most."""
DRAFT = ".import-"
COMPARED = ("openvino", "onnxruntime")
"""Engines, in the order in which they are suggested for a comparison. A TensorFlow or TensorRT export takes too long to
be tried at import."""
FORMATS: tuple[Format, ...] = (onnx_file, torch_program, saved_model)
_TAKEN = (
    f"give {', '.join(each.KIND for each in FORMATS)}, or the folder of Transformers or timm with config.json in it"
)


@dataclass(frozen=True)
class ImportReport:
    """Result of an import, and the description that it wrote."""

    workload: Workload
    document: Mapping[str, Any]
    one_at_a_time: str | None
    """Reason why the model takes no batches; None if it does."""
    other: str | None = None
    """Another engine that it can be compared on; None if none is known."""
    open: tuple[str, ...] = ()
    """Accesses that this system could not close while the file was read and run: files, the network."""


def import_model(path: Path, name: str, models: Path, wishes: Wishes, *, force: bool = False) -> ImportReport:
    """Import a model file under a name into the folder of models, whole or not at all.

    Raises OptionError for a name that is taken or a wish that does not fit, ArtifactError for a file that cannot be
    used, InputDataError for data that does not fit.
    """
    check_name(name, "--name")
    target = models / name
    try:
        taken = own()
    except ServemarkError:
        if not (force and (target / DESCRIPTION).exists()):
            raise
        taken = {}  # the damaged description may be the one that this import writes anew
    if name in taken and (taken[name].source is None or not force):
        again = shlex.join([*wishes.command, "--force"])
        raise OptionError(f"{name!r} is a workload already", fix=f"take another --name, or import it again: {again}")
    try:
        if not path.exists():
            raise OptionError(f"{path} is not there", fix=_TAKEN)
        if entry := triton_entry.read(path):
            path = entry.file
            wishes = _with_entry(wishes, entry)
        format_of(path)
    except OSError as error:  # a folder that may not be searched, a name that is too long
        raise OptionError(
            f"{str(path)[:MAX_QUOTED]}: {error.strerror}", fix="name a path that this user can reach"
        ) from error
    try:
        models.mkdir(parents=True, exist_ok=True)
        sweep(models, DRAFT)
        with tempfile.TemporaryDirectory(prefix=f"{DRAFT}{os.getpid()}-", dir=models) as temporary:
            scratch = Path(temporary).absolute()
            draft = scratch / name
            own_data = [Path(wishes.requests_from)] if wishes.requests_from else []
            said = run_sandboxed(
                path,
                [*folders_of(path / saved_model.FILE if path.is_dir() else path), *own_data],
                own_data,
                scratch,
                functools.partial(_drafted, path, draft, wishes),
            )
            swap_in(draft, target)
    except OSError as error:
        fix = "make room in" if error.errno in NO_ROOM else "check the permissions of"
        raise ArtifactError(f"{target} cannot be written: {error}", fix=f"{fix} {models}") from error
    return ImportReport(read_model(target), said["document"], said["alone"], said["other"], tuple(said["open"]))


def _with_entry(wishes: Wishes, entry: TritonEntry) -> Wishes:
    """Complete the wishes by a Triton entry's configuration; its sizes omit the batch only if it has batches."""
    if wishes.max_batch is None:
        return replace(wishes, shapes={**entry.shapes, **wishes.shapes}, max_batch=entry.max_batch)
    alike = (wishes.max_batch > 0) == (entry.max_batch > 0)
    largest = min(wishes.max_batch, entry.max_batch or wishes.max_batch)
    return replace(wishes, shapes={**entry.shapes, **wishes.shapes} if alike else wishes.shapes, max_batch=largest)


def format_of(path: Path) -> Format:
    """The format of a model file. Raises OptionError where it is none that can be imported."""
    for each in FORMATS:
        if each.recognises(path):
            return each
    raise OptionError(f"{path} is of no format that can be imported", fix=_TAKEN)


def _drafted(path: Path, draft: Path, wishes: Wishes, seal: Callable[[], None]) -> dict[str, Any]:
    """Copy a file, answer sampled requests with its format's runtime, and write what came of it.

    Once the file is copied it is sealed off: what it holds is run without a way to other files.
    """
    format_ = format_of(path)
    found = format_.describe(path)
    format_.place(path, draft / VERSION)
    seal()
    module = exporter(format_.ENGINE)
    _check_names(path, found)
    max_batch, alone = largest_batch(path, found, wishes)
    inputs = inputs_of(path, found, wishes, batched=max_batch > 0)
    skipped = 1 if max_batch else 0
    document: dict[str, Any] = {
        "version": 1,
        "inputs": inputs,
        # What the file leaves open of an answer is known from the first one.
        "outputs": [
            {"name": port.name, "datatype": port.datatype, "shape": list(port.sizes[skipped:])}
            for port in found.outputs
        ],
        "max_batch": max_batch,
        "parameters": found.parameters,
        "flops": found.flops({each["name"]: (*[1] * skipped, *each["shape"]) for each in inputs}),
        "file": module.ARTIFACT,
        "requests": wishes.requests_from,
        "source": {
            "engine": format_.ENGINE,
            "kind": format_.KIND,
            "path": str(path.absolute()),
            "sha256": sha256_of(draft / VERSION),
            **found.facts,
            "versions": {"servemark": __version__, "python": platform.python_version(), **packages(module)},
            "imported": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    }
    provisional = described(draft, document, "")
    artifact = draft / VERSION / module.ARTIFACT
    try:
        run = module.load(artifact, provisional)
    except Exception as error:  # the runtimes' exceptions share no base
        words = _words(error, {str(artifact): str(path)})
        raise unusable(path, f"{format_.ENGINE} cannot load it: {words}", fix="export it again") from error
    bounds = {each["name"]: tuple(each["range"]) for each in inputs if "range" in each}
    if not wishes.requests_from and format_.ENGINE == onnx_file.ENGINE:  # the other formats' thresholds are not read
        free = {each["name"]: each["datatype"] for each in inputs if "range" not in each}
        chosen = onnx_file.wider(
            artifact, free, lambda more: wishes.requests(provisional, {**bounds, **more}), provisional
        )
        for each in inputs:
            each.update({"range": list(chosen[each["name"]])} if each["name"] in chosen else {})
        bounds.update(chosen)
    rows = _taken(wishes.requests(provisional, bounds))
    write_npz(draft / SAMPLES, stack(rows, provisional.inputs))
    golden = choose_answered(provisional, lambda asked: _answered(path, run, asked, found, provisional))
    _check_steady(path, _answered(path, run, golden.inputs, found, provisional), golden, found)
    for each in document["outputs"]:
        each["shape"] = list(golden.outputs[each["name"]].shape[1:])
    if max_batch > 1 and (alone := _not_together(run, golden, provisional)):
        document["max_batch"] = 1
    write_golden(draft / GOLDEN, golden)
    (draft / DESCRIPTION).write_text(json.dumps(document, indent=2) + "\n")
    return {"document": document, "alone": alone, "other": other_engine(provisional, artifact)}


def _check_names(path: Path, found: ModelDescription) -> None:
    """Names go into requests, tables and the server's configuration. Raises ArtifactError."""
    for port in (*found.inputs, *found.outputs):
        if not port.name.isprintable() or not 0 < len(port.name) <= MAX_NAME or {'"', "\\"} & set(port.name):
            raise unusable(
                path,
                f"the name {port.name[:MAX_NAME]!r} of its tensor is empty, longer than {MAX_NAME} characters, or has "
                "quotes, backslashes or control characters",
                fix="rename its inputs and outputs",
            )


def _taken(samples: Iterator[Sample]) -> list[Sample]:
    """As many samples as are kept."""
    taken: list[Sample] = []
    size = 0
    for sample in itertools.islice(samples, MAX_REQUESTS):
        size += sum(array.nbytes for array in sample.values())
        if size > MAX_REQUEST_BYTES and taken:
            break
        taken.append(sample)
    return taken


def _check_steady(path: Path, again: Arrays, golden: Golden, found: ModelDescription) -> None:
    """Compare the second answers to the same requests. Raises ArtifactError where they are others."""
    for name, reference in golden.outputs.items():
        differing = compare_outputs(again[name], reference, Agreement())
        if not differing.agrees:
            who = f" (its operators {', '.join(found.random)} are random)" if found.random else ""
            raise unusable(
                path,
                f"it answers the same request differently each time: {name} the second time: {differing}{who}",
                fix="export it without what is random, so that answers can be checked, or serve it yourself: "
                "`servemark run NAME --url URL`",
            )


def _answered(path: Path, run: Run, inputs: Arrays, found: ModelDescription, workload: Workload) -> Arrays:
    """Answer each sample by itself. Raises ArtifactError."""
    rows = []
    for row in range(len(next(iter(inputs.values())))):
        try:
            answer = answers(run, inputs, [row], workload)
        except Exception as error:  # the runtimes' exceptions share no base
            whole = next((each for each in workload.inputs if each.dtype.kind in "iu"), None)
            fix = "--input-data with real requests"
            if whole is not None:
                # A scalar is a rate, a length or a mode.
                bounds = "0:MOST for ids" if whole.shape else "VALUE:VALUE for its value"
                fix = f"--input-range {whole.name}:{bounds}, or {fix}"
            raise unusable(path, f"it fails on a sample: {_words(error)}", fix=fix) from error
        rows.append({port.name: answer[port.name] for port in found.outputs})
    outputs = {}
    for port in found.outputs:
        shapes = {each[port.name].shape for each in rows}
        if len(shapes) == 1 and next(iter(shapes))[:1] != (1,):
            taken, ports = list(next(iter(shapes))), ", ".join(map(written, found.inputs))
            raise unusable(
                path,
                f"its output {port.name!r} is {taken} for one sample of {ports}: the first size is not a batch",
                fix="--max-batch 0: a request is then one sample, with all sizes as the file has them",
            )
        if len(shapes) > 1:
            raise unusable(
                path,
                f"its output {port.name!r} has no fixed size for each sample: {sorted(shapes)}",
                fix="leave the output out, or pad it",
            )
        outputs[port.name] = np.concatenate([each[port.name] for each in rows])
    return outputs


def _not_together(run: Run, golden: Golden, workload: Workload) -> str | None:
    """Return the reason if samples in a batch give other answers than one by one; None if the answers agree."""
    together = min(TOGETHER, golden.rows)
    try:
        answer = answers(run, golden.inputs, range(together), workload)
    except Exception as error:
        return _words(error)
    for name, reference in golden.outputs.items():
        expected = reference[:together]
        if answer[name].shape != expected.shape:
            return f"{name} is {list(answer[name].shape)} for {together} samples; {NO_BATCH}"
        moves = golden.moves[name][:together] if name in golden.moves else None
        if not (found := compare_outputs(answer[name], expected, Agreement(), scale_of(reference), moves)).agrees:
            return (
                f"{name} of {together} samples in one request is not what each is answered alone: {found}; {NO_BATCH}"
            )
    return None


def _words(error: Exception, names: Mapping[str, str] | None = None) -> str:
    """Quote a runtime's error, with other `names` for paths; of a long one the beginning and the end."""
    text = " ".join(str(error).split())
    for ours, theirs in (names or {}).items():
        text = text.replace(ours, theirs)
    if len(text) > MOST_WORDS:
        text = f"{text[: MOST_WORDS // 4]} ... {text[-3 * MOST_WORDS // 4 :]}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def other_engine(workload: Workload, artifact: Path) -> str | None:
    """Name an engine beside the file's own that is installed here and has a converter for it; None if there is none.

    The model itself is not run on it.
    """
    source = workload.source
    assert source is not None
    for engine in (each for each in COMPARED if each != source.engine):
        try:
            route(workload, engine, FULL)
            require_exporter(engine, FULL)
        except ServemarkError:
            continue
        if engine != "openvino" or source.engine != SOURCE or _openvino_reads(artifact):
            return engine
    return None


def _openvino_reads(artifact: Path) -> bool:
    """Return True if OpenVINO knows all operators of an ONNX file."""
    import openvino

    try:
        openvino.Core().read_model(str(artifact))
    except Exception:  # OpenVINO raises RuntimeError and classes of its C extension
        return False
    return True
