"""Rules and wire forms of reductions, windows, scans and normalisation."""
