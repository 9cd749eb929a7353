"""Problems whose rows lie in blocks: every step is some passes over them, each one sum over all blocks."""
