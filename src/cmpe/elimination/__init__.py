"""Elimination orders and the plans that follow them."""
