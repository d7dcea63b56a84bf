"""Beyond one answer: fronts of h against a constraint, the k best, sensitivity."""
