"""shoal.gossip: SWIM membership as a sans-IO core."""
