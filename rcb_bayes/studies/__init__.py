"""Studies: the paper's settings, and warfarin."""
