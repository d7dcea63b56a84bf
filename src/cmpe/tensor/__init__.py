"""The torch back-end, used with `device="cuda"`."""
