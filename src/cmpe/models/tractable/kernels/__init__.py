"""Compiled loops over trees and data."""
