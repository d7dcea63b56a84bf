"""Answers in parts, for every command that answers rows."""
