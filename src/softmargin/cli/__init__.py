"""The command line: `main` parses and dispatches, a file a verb does the work."""
