"""Everything between a configuration and trained weights."""
