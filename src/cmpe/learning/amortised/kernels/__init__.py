"""Compiled loops: the pass of a message network on a core."""
