"""Compiling on the command line: the bar while something is compiled, and `cmpe compile`."""
