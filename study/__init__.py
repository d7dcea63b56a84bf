"""The paper's study, adversarial examples and the report: run in a checkout, not installed."""
