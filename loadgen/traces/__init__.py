"""Stamps of each request, by the load generator and by a server: a module for each server that traces."""
