"""Losses, their per-example factors, and the functions they evaluate."""
