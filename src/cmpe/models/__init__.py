"""Functions of an assignment: log-linear models and multilinear polynomials."""
