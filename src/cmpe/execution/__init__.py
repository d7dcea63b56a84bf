"""Where independent work runs: this process, local processes, or a Ray cluster."""
