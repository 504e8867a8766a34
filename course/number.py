"""Reading a number that a person has typed."""

from __future__ import annotations

import math
import re
from typing import Any

from minipar.words import _


def read_number(answer: Any, unit: str) -> float:
    """The number in an answer such as 60, "60 %" or "2,5"; `ValueError` with a sentence for one that has none.

    "1,024" is a thousand and more to one reader and a little over one to another: it is refused, not guessed.
    """
    text = str(answer).strip().removesuffix(unit).strip()
    if re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{2,3})*,\d{3}(\.\d*)?", text):
        raise ValueError(_("write the number without a comma between its digits, such as 1024 or 1.024"))
    text = text.replace(",", ".")
    if not isinstance(answer, bool) and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.IGNORECASE):
        value = float(text)
        if math.isfinite(value):
            return value
    raise ValueError(_("write a number, such as 12.5"))
