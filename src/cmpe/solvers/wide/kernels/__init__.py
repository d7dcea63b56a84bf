"""Compiled loops of `solvers.wide`."""
