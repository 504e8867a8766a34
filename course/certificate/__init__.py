"""Certificates: earned, issued, and verified. Open Badges 3.0 structure, signed as a JWT."""

from course.certificate.credential import Credential, short_id
from course.certificate.issue import Issued, issue
from course.certificate.token import Refused
from course.certificate.verify import Verified, verify
from course.certificate.work import Work, missing, work_of

__all__ = ["Credential", "Issued", "Refused", "Verified", "Work", "issue", "missing", "short_id", "verify", "work_of"]
