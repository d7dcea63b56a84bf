"""Compiled loops of `local`."""
