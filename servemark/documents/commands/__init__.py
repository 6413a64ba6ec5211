"""Each command's document: its arguments and options, each declared once, and its help, which is the docstring.

`servemark.cli` makes the command line of it. A module has the commands of one subject, each by its name.
"""
