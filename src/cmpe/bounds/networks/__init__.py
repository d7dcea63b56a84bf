"""Bounds of ReLU networks: ranges of neurons, margins of classes, slopes."""
