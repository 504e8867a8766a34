"""Every sentence that a learner reads goes through `_`, so that the course can be read in another language.

The catalogues belong to the course, which binds their folder (`course.language`); without one, English comes back.
"""

import gettext

DOMAIN = "course"


def _(text: str) -> str:
    """`text` in the reader's language."""
    return gettext.dgettext(DOMAIN, text)


def plural(one: str, many: str, count: int) -> str:
    """`one` or `many`, as `count` asks for in the reader's language, with ``{count}`` filled in."""
    return gettext.dngettext(DOMAIN, one, many, count).format(count=count)
