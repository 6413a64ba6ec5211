"""Each engine's own profiler: a module with the engine's name, which the package finds as `servers.engines` does.

A module says which profiler it asks on which kind of device (`PROFILERS`), why it tells no rounds of loops (`NO_STEPS`,
None where it does), and loads an engine with it (`Profiler`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol

from servemark.documents.request import DEFAULT_ENGINE
from servemark.plugins import module_of, names_in
from servemark.profiling.timeline import Inference
from servemark.quantities import one_of
from servemark.repository.entry import Entry
from servemark.repository.model_config import Settings
from servemark.workload import Arrays, Engine


class Loaded(ABC):
    """A loaded engine, with its profiler at hand. Calls must not overlap."""

    def __init__(self, engine: Engine) -> None:
        """`engine` is not profiled when it is run by itself."""
        self.engine, self._found = engine, list[Inference]()

    @abstractmethod
    def profiled(self, inputs: Arrays) -> float:
        """Make one inference with the profiler on; its seconds."""

    def forget(self) -> None:
        """Leave out what was profiled until now: it was a warm-up."""
        self._found.clear()

    def inferences(self) -> list[Inference]:
        """End the profiler; what it saw, an inference for each one, or their mean where it keeps no more."""
        return self._found


class ProfilerModule(Protocol):
    """Interface of a module here."""

    PROFILERS: Mapping[str, str]
    """`cpu` or `cuda` -> the profiler that is asked there. On any other device the engine is not profiled."""
    NO_STEPS: str | None
    Profiler: Callable[[Entry, str, Arrays], Loaded]
    """Loads the model of an entry on a device of `PROFILERS`, with the inputs that will be asked."""


def profilers() -> list[str]:
    """List the engines whose profiler can be asked, whether or not they are installed."""
    return names_in(__name__)


def profiler_module(engine: str) -> ProfilerModule:
    """Import the module of an engine. Raises OptionError on an unknown name."""
    one_of("engine", engine, profilers())
    found: ProfilerModule = module_of(__name__, engine)
    return found


def kind_of(device: str) -> str:
    """Return `cpu`, or `cuda` for any GPU."""
    return device.partition(":")[0]


def loaded(entry: Entry, device: str, options: Mapping[str, str] | None = None) -> Engine:
    """Load an entry as its configuration says, with further options of the engine. Raises what `load_engine` does."""
    from servers.engines import load_model

    entry.require()
    model = Settings(options=options or {}).in_json(entry.read_config())
    return load_model(model, entry.version, device)


def modules_of(entry: Entry) -> Mapping[str, str]:
    """Map nodes and tensors of the workload's ONNX file to the modules that they stand in; empty without such a file.

    PyTorch's exporter writes the modules of a node into its metadata, outermost first, and itself last.
    """
    file = Entry(entry.repository, entry.workload, DEFAULT_ENGINE).version / "model.onnx"
    found: dict[str, str] = {}
    if not file.is_file():
        return found
    import ast

    import onnx

    graphs = [onnx.load(file, load_external_data=False).graph]
    while graphs:
        for node in graphs.pop().node:
            graphs += [each.g for each in node.attribute if each.HasField("g")]
            said = {each.key: each.value for each in node.metadata_props}.get("pkg.torch.onnx.name_scopes")
            scopes = ast.literal_eval(said) if said else []
            found |= dict.fromkeys((node.name, *node.output), scopes[-2] if len(scopes) > 1 else "")
    return found
