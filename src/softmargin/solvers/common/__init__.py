"""What two families of solvers share."""
