"""Other uses of connections than one server and keep-alive: classes of channels, and what records them.

An ordinary run has none of them, and pays nothing for them. Imports no protocol of inference.
"""
