"""Documents for other programs: CSV for a spreadsheet, Markdown for a pull request, JUnit for a pipeline."""
