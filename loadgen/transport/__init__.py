"""Bytes to a server and back: sockets, TLS, HTTP/2, access rights. Imports no protocol of inference and no run."""
