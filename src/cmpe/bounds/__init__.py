"""Numbers that are proved: relaxations whose value is never below the optimum.

One file per bound, each with a `Bounder`; `cmpe.bounding` lists them and is the way in.
"""

from cmpe.bounds.base import Bounder, Bounds, Work

__all__ = ["Bounder", "Bounds", "Work"]
