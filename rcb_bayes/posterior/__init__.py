"""Posterior engines."""
