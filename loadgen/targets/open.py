"""The target that a configuration asks for; and a workload made of what a server says of a model.

The latter is for `servemark run MODEL -u URL`, and for loadgen/any_model.py.
"""

import ctypes
import functools
from collections.abc import Mapping
from typing import NoReturn

from loadgen.inputs.sources import random_samples
from loadgen.kserve.control import Control
from loadgen.load.load_config import LoadConfig, server_addresses
from loadgen.sut.target import Target
from loadgen.targets.http import HttpTarget, control_at
from loadgen.transport.access import Access
from servemark.documents.request import Inputs, RunRequest
from servemark.documents.server import Tensors
from servemark.errors import OptionError
from servemark.machine.addresses import forget
from servemark.repository.names import checked_name
from servemark.workload import UnknownWorkloadError, Workload, get

# malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
MMAP_THRESHOLD_BYTES = 32 << 20
"""Blocks up to this size come from the heap; glibc takes no more."""
TRIM_THRESHOLD_BYTES = 256 << 20
"""Free heap memory kept by the process instead of returned to the OS."""


def tune_malloc() -> bool:
    """Keep freed blocks instead of giving them back to the kernel; whether the C library can be told so.

    Requests and responses of 100 kB and more are made and freed again and again. glibc gives such blocks back, and
    the kernel clears and maps new pages for the next ones: at 600 kB each way page faults were half of a request's CPU.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {_M_MMAP_THRESHOLD: MMAP_THRESHOLD_BYTES, _M_TRIM_THRESHOLD: TRIM_THRESHOLD_BYTES}
    return all(mallopt(parameter, value) for parameter, value in settings.items())


def open_target(config: LoadConfig) -> Target:
    """The server, over the protocol that its URL names, with tensors where the configuration wants them."""
    tune_malloc()
    forget()
    if config.server.shared_memory != "none":
        from loadgen.targets.shared_memory import SharedGrpcTarget, SharedMemoryTarget

        return SharedGrpcTarget(config) if config.protocol == "grpc" else SharedMemoryTarget(config)
    if config.protocol == "grpc":
        from loadgen.targets.grpc import GrpcTarget

        return GrpcTarget(config)
    if config.server.endpoint_type:
        from loadgen.targets.endpoint import EndpointTarget

        return EndpointTarget(config)
    return HttpTarget(config)


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
        except UnknownWorkloadError as error:
            if not request.server.url:
                fix = f"{error.fix}; --url URL where a server has this model"
                raise UnknownWorkloadError(error.what, fix=fix) from error
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
