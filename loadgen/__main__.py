"""Locust with servemark's options known from the start: `python -m loadgen --help` shows them in any folder.

Locust itself reads no locustfile for its `--help`, and has no entry point by which an installed package adds options.
`servemark` starts its load generators here too: they are ready in two thirds of the time that `python -m locust` takes.
"""

import functools
import gc
from importlib import metadata

gc.disable()  # what is imported stays
# gevent looks for plugins at each of its 26 steps, and each look reads the files of every installed package
metadata.entry_points = functools.cache(metadata.entry_points)  # type: ignore[assignment]

from locust.main import main  # noqa: E402 - imports gevent

import loadgen.users  # noqa: E402, F401 - adds the options

if __name__ == "__main__":
    gc.freeze()
    gc.enable()
    main()
