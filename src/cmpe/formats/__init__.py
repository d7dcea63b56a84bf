"""Bytes <-> values, no mathematics: one module per file format, each a reader and a writer."""
