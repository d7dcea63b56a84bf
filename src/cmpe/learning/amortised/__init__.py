"""One network for every question about a model: any evidence, any mask, any q."""
