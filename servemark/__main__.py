"""`python -m servemark` is the command line."""

from servemark.cli import main

main()
