"""Code that numba compiles: where it is kept, what is said of it, and that no clock counts it."""
