"""Large-neighbourhood search, compiled: passes over subgraphs for blocks of rows."""
