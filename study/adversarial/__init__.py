"""The study of adversarial examples: a classifier, attacks on it, one table (paper §5.4)."""
