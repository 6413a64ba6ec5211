"""`servemark import`: a model file of the user's becomes a workload."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import numpy as np

from loadgen.inputs.sources import random_samples, samples_at
from servemark.documents.commands.prepare import Import
from servemark.documents.flags import given_options, request_of
from servemark.documents.request import Inputs, RunRequest
from servemark.errors import OptionError
from servemark.hub.blocks.description import imported, is_importable
from servemark.output import note
from servemark.paths import shown
from servemark.results.directory import print_json
from servemark.results.schema.header import command
from servemark.workload import Sample, Workload
from servemark.workload.imported import models_folder
from servemark.workload.registry import check_name


def _requests(
    input_data: str, wished: Inputs, workload: Workload, ranges: Mapping[str, tuple[float, float]]
) -> Iterator[Sample]:
    """Take real requests from files, or draw random ones."""
    if input_data:
        return samples_at(Path(input_data), workload)
    rng = np.random.default_rng(crc32(workload.name.encode()))
    return random_samples(workload.inputs, msgspec.structs.replace(wished, shape={}, input_range=dict(ranges)), rng)


def import_(options: Import) -> None:
    """Import a model file, and describe what it has become."""
    input_data, path = options.input_data, options.path
    if is_importable(path):
        _import_of_library(options)
        return
    if input_data and not Path(input_data).exists():
        raise OptionError(f"--input-data {input_data}: no such file or folder", fix="give a .json, .npz or folder")
    # The frameworks take seconds to import; a typing mistake should not.
    from exporters.importing.model import import_model
    from exporters.importing.model_file import Wishes

    wished = _wished(options).inputs
    wishes = Wishes(
        shapes=wished.shape,
        ranges=wished.input_range,
        max_batch=options.max_batch,
        requests=functools.partial(_requests, input_data, wished),
        requests_from=str(Path(input_data).absolute()) if input_data else None,
        command=command(),
    )
    report = import_model(
        path, options.name or path.name.partition(".")[0], models_folder(), wishes, force=options.force
    )
    if options.json:
        print_json({"name": report.workload.name, **report.document})
        return
    if report.open:
        note(f"{' and '.join(report.open)} stayed open to the model: this system has no Landlock, or no namespaces")
    for line in _lines(report.workload, report.document, report.one_at_a_time, report.other):
        note(line)


def _wished(options: Import) -> RunRequest:
    """Read what is asked of the inputs. Raises OptionError."""
    return request_of({name: value for name, value in options.given.items() if name in Inputs.__struct_fields__})


def _import_of_library(options: Import) -> None:
    """Import a library's model from its folder or by its name, and describe it. Raises OptionError."""
    wished = _wished(options)
    foreign = [name for name in ("input_data", "max_batch") if getattr(options, name) not in {"", None}]
    foreign += [name for name in Inputs.__struct_fields__ if name in given_options(wished) and name != "shape"]
    if foreign:
        raise OptionError(
            f"--{foreign[0].replace('_', '-')} is for model files: servemark knows the requests of a library's models",
            fix="leave it out; `servemark run NAME --input-data PATH` sends real requests",
        )
    name = options.name or options.path.resolve().name
    check_name(name, str(options.path))
    description = imported(options.path, name, wished.inputs.shape, force=options.force)
    if options.json:
        print_json(msgspec.to_builtins(description))
        return
    note(f"{name}: {description.made_of}")
    for kind, ports in (("input", description.inputs), ("output", description.outputs)):
        for port in ports:
            note(f"  {kind:6} {port.name} {port.datatype}{list(port.shape)}")
    note(
        f"  {description.parameters:,} parameters, {(description.flops or 0) / 1e9:.3g} GFLOPs, "
        f"maximum batch {description.max_batch}"
    )
    note(f"next: servemark compare {name} --engines onnxruntime,pytorch")


def _lines(
    workload: Workload, document: Mapping[str, Any], one_at_a_time: str | None, other: str | None
) -> Iterator[str]:
    """Describe the imported model, for the user to check."""
    source = document["source"]
    opset = f", opset {source['opset']}" if source.get("opset") else ""
    yield f"{workload.name}: {source['kind']}{opset}, sha256 {source['sha256'][:12]}"
    for kind in ("inputs", "outputs"):
        for tensor in document[kind]:
            bounds = f", {tensor['range'][0]:g} to {tensor['range'][1]:g}" if "range" in tensor else ""
            yield f"  {kind[:-1]:6} {tensor['name']} {tensor['datatype']}{tensor['shape']}{bounds}"
    counts = [
        "parameters not known" if workload.parameters is None else f"{workload.parameters:,} parameters",
        "FLOPs not known" if workload.flops is None else f"{workload.flops / 1e9:.3g} GFLOPs",
        f"maximum batch {workload.max_batch or 1}" + (f" ({one_at_a_time})" if one_at_a_time else ""),
    ]
    yield f"  {', '.join(counts)}"
    yield f"  requests: {document['requests'] or 'random; --input-data gives real ones, which int8 is calibrated with'}"
    yield f"kept in {shown(workload.source.folder) if workload.source else ''}"
    own = source["engine"]
    next_ = f"compare {workload.name} --engines {own},{other}" if other else f"run {workload.name} --engine {own}"
    yield f"next: servemark {next_}"
