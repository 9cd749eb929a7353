"""Penalised multinomial logistic regression."""
