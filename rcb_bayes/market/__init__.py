"""Who believes what, who the users are, how rewards come about."""

from rcb_bayes.market.market import Market

__all__ = ["Market"]
