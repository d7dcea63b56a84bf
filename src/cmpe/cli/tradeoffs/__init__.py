"""Commands beyond one answer."""
