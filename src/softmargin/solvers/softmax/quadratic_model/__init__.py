"""Quadratic models of the softmax loss, as prox-Newton minimises them."""
