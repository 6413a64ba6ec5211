"""Renderers of articles: terminal, HTML, Markdown, CSV, JUnit. They know blocks, and no documents."""
