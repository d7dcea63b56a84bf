"""The paper's whole study: one description (study.toml), cached stages, local or on a cluster."""
