"""A fair comparison of losses: equal settings, margins, epochs and validation rows for all."""
