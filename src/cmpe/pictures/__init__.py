"""Fronts, traces and training runs as pictures: the only place for matplotlib (extra `report`)."""
