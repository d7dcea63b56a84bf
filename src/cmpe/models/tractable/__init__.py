"""Chow-Liu trees and cutset networks: tractable models learned from data."""
