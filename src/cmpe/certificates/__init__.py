"""Proofs of bounds that others can check: how they are made, and a checker that stands alone."""
