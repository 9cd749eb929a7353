"""Races against other libraries, at equal proven accuracy."""
