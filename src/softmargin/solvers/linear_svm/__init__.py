"""Joint hinge losses on linear scores."""
