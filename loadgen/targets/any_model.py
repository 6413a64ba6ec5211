"""A workload made of what a server says of a model: `servemark run MODEL -u URL`, and loadgen/any_model.py."""

import functools
from collections.abc import Mapping
from typing import NoReturn

from loadgen.inputs.sources import random_samples
from loadgen.kserve.control import Control
from loadgen.load.load_config import server_addresses
from loadgen.targets.http import control_at
from loadgen.transport.access import Access
from servemark.documents.request import Inputs, RunRequest
from servemark.documents.server import Tensors
from servemark.errors import OptionError
from servemark.repository.names import checked_name
from servemark.workload import UnknownWorkloadError, Workload, get


def workload_of(request: RunRequest) -> Workload:
    """The workload that options name: one of the zoo, else the model of that name on the server that they name.

    Without a workload's name it is the model that --model-name names, whatever the zoo has. Raises OptionError,
    ServerError.
    """
    server = request.server
    declared = {"inputs": server.input_tensors, "outputs": server.output_tensors} if server.input_tensors else None
    if request.workload:
        try:
            found = get(request.workload)
            if declared:
                raise OptionError(
                    f"--input and --output describe a model of the server's, and {found.name} is one of ours",
                    fix="leave them out, or name the server's model",
                )
            return found
        except UnknownWorkloadError:
            if not request.server.url:
                raise
    name = request.workload or request.server.model_name
    if not name:
        raise OptionError(
            "no model is named",
            fix="--model-name NAME, as the server names it; or in the class of a locustfile own = get(NAME), "
            "with `from servemark.workload import get`",
        )
    urls, _ = server_addresses(request)
    control = control_at(urls[0], Access.of(request.server, urls[0]), request.server)
    return served_workload(control, checked_name(name), request.inputs, declared)


def served_workload(
    control: Control, name: str, inputs: Inputs, declared: Mapping[str, Tensors] | None = None
) -> Workload:
    """Describe a model by what its server says or, where it says nothing, by what is declared. Raises ServerError."""
    model = control.served_model(name, declared)
    return Workload(
        name=name,
        title=f"{name} at {control.url}",
        inputs=model.inputs,
        outputs=model.outputs,
        max_batch=model.max_batch,
        build=functools.partial(_not_here, name),
        samples=functools.partial(random_samples, model.inputs, inputs),
        served=True,
    )


def _not_here(name: str) -> NoReturn:
    raise OptionError(
        f"{name} is a server's own model, of which there is no network here", fix="`servemark import` a file of it"
    )
