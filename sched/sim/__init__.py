"""Ranks and tiles that are not there, for the core that is."""
