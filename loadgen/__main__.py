"""Locust with servemark's options known from the start: `python -m loadgen --help` shows them in any folder.

Locust itself reads no locustfile for its `--help`, and has no entry point by which an installed package adds options.
"""

from locust.main import main

import loadgen.users  # noqa: F401 - adds the options

if __name__ == "__main__":
    main()
