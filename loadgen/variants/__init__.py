"""Other runs than of one request, one answer and one server: sequences, several answers, cancellation, several servers.

Each is classes of channels and what records them. An ordinary run pays nothing for them.
"""
