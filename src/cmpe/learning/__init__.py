"""Training: losses, networks, the trainer, and trained solvers."""
