"""Benchmarks: one file per table, over cmpe's public API. `make bench NAME=reading` runs one."""
