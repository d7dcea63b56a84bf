"""Numbers that are proved: relaxations whose value is never below the optimum."""
