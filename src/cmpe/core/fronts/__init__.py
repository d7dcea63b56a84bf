"""Fronts and the k best answers by elimination, compiled."""
