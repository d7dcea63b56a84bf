"""The only room that trains: losses, networks, the trainer, and the solver they make."""
