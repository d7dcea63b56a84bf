"""Messages from tables to their variables."""
