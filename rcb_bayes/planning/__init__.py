"""Plans: whom to explore, how often, with how many samples."""
