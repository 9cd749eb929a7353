"""Benchmarks for people: a quick race on embedded data, and the suites of the repository's ``benchmarks`` folder."""
