"""Compiled loops of `exact`."""
