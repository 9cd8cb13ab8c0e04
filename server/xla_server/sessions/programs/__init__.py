"""Programs by their content: sessions with equal programs share one compilation and its code."""
