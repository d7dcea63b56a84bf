"""Wide rows: presolve, then search and bounds in alternation."""
