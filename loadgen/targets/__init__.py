"""Targets of a run: a server over HTTP, gRPC or shared memory, or engines in this process. Imports no measurement."""
