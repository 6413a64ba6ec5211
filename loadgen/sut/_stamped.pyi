import socket

"""Compiled from _stamped.c, where a C compiler was there; it takes 64 KiB at most."""

def receive(connected: socket.socket, most: int, /) -> tuple[bytes, int]: ...
