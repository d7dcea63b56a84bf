"""Compiled loops of trade-off fronts and ranked answers."""
