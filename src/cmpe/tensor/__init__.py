"""The torch back-end: what `device="cuda"` runs on."""
