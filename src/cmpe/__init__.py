"""Constrained most probable explanation in graphical models: fast, batched, certified."""

