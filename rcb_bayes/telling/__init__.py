"""What people are told: figures in words, and how far a long computation has come."""
