"""Figures and tables: the only place for matplotlib (extra `report`)."""
