"""Renderers of articles: terminal, HTML, Markdown; of records and checks: other programs. They know no documents."""
