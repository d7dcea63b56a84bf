"""Cost function networks of toulbar2: `.wcsp` (whole costs) and `.cfn` (decimal costs)."""
