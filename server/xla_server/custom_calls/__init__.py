"""Functions outside HLO that programs may call by name."""
