"""Networks that map evidence to answers: bodies, heads, coordinates."""
