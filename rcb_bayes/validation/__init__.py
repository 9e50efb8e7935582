"""Validation of an installation: every engine calibrated, twins met, planted errors caught."""

from rcb_bayes.validation.result import Finding, Validation
from rcb_bayes.validation.run import validate

__all__ = ["Finding", "Validation", "validate"]
