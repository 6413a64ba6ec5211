"""One run as a process, with its server. Knows no command line."""
