"""The dashboards, a module each; `_board` and `_queries` are what they have in common. Imports the SDK alone."""
