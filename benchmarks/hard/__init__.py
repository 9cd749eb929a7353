"""Data as they come: which ordinary fits end with a proof."""
