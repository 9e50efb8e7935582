"""Plans and policies as they run, live or simulated."""
