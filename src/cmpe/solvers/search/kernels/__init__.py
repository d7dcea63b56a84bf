"""Compiled loops of `search`."""
