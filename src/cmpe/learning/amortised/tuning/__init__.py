"""A few numbers of message passing, tuned by what the repaired answers are worth."""
