"""The command line: `main` parses and dispatches, one file per verb does the work."""
