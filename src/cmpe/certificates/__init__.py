"""Proofs of bounds that others can check, and an independent checker."""
