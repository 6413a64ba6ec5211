"""A workload made of what a server says of a model: `servemark run MODEL -u URL`, and loadgen/any_model.py."""

import functools
from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from loadgen.inputs.generated import random_samples
from loadgen.kserve.control import Control
from loadgen.load.load_config import server_address
from loadgen.targets.control import control_at
from loadgen.transport.access import Access
from servemark.documents.request import Inputs, RunRequest
from servemark.errors import OptionError
from servemark.workload import Sample, Tensor, UnknownWorkloadError, Workload, get


def workload_of(request: RunRequest) -> Workload:
    """The workload that options name: one of the zoo, else the model of that name on the server that they name.

    Without a workload's name it is the model that --model-name names, whatever the zoo has. Raises OptionError,
    ServerError.
    """
    if request.workload:
        try:
            return get(request.workload)
        except UnknownWorkloadError as error:
            if not request.server.url:
                raise OptionError(
                    error.what, fix=f"{error.fix}; or --url URL of a server that has this model"
                ) from None
    name = request.workload or request.server.model_name
    if not name:
        raise OptionError("no model is named", fix="--model-name NAME, as the server names it")
    url, _ = server_address(request)
    control = control_at(url, Access.of(request.server, url), request.server.model_version)
    return served_workload(control, name, request.inputs)


def served_workload(control: Control, name: str, inputs: Inputs) -> Workload:
    """Describe a model by what its server says. Raises ServerError."""
    model = control.served_model(name)
    return Workload(
        name=name,
        title=f"{name} at {control.url}",
        inputs=model.inputs,
        outputs=model.outputs,
        max_batch=model.max_batch,
        build=functools.partial(_not_here, name),
        samples=functools.partial(_samples, model.inputs, inputs),
        served=True,
    )


def _samples(tensors: tuple[Tensor, ...], inputs: Inputs, rng: np.random.Generator) -> Iterator[Sample]:
    """Random requests."""
    return random_samples(tensors, inputs, rng)


def _not_here(name: str) -> NoReturn:
    raise OptionError(
        f"{name} is a server's own model, of which there is no network here", fix="`servemark import` a file of it"
    )
