"""Audits: would users who know the mechanism follow it, for whom, and how sure is that?"""

from rcb_bayes.auditing.following import LogCheck, check_log
from rcb_bayes.auditing.logs import audit_log
from rcb_bayes.auditing.mixed import MixedAudit, UserType, audit_types
from rcb_bayes.auditing.result import Audit
from rcb_bayes.auditing.run import audit
from rcb_bayes.auditing.shape import check_shape

__all__ = [
    "Audit",
    "LogCheck",
    "MixedAudit",
    "UserType",
    "audit",
    "audit_log",
    "audit_types",
    "check_log",
    "check_shape",
]
