"""Joint and two-class hinge losses on a kernel matrix."""
