"""Programs for maintainers: the demo, generated docs and tables, GPU sessions, releases."""
