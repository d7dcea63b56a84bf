"""Rows in blocks: of evidence that need not fit into memory, of answers that are kept in parts."""
