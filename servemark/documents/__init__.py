"""The documents that a run is made of. Knows no command line, no server and no report."""
