"""Formats of models made of tables, one file each."""
