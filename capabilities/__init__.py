"""shoal.capabilities: what a machine has, and whether it satisfies a requirement."""
