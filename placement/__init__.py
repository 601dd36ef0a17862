"""shoal.placement: which nodes suit, best first, and why not the others."""
