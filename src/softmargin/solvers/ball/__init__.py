"""Smooth losses over a norm ball."""
