"""Every sentence that a learner reads goes through `_`, so that the course can be read in another language.

`gettext` picks the language from the environment (LANGUAGE, LC_ALL, LC_MESSAGES, LANG), as every program does.
Without a catalogue for it, English comes back.
"""

import gettext
from pathlib import Path

DOMAIN = "course"

# The catalogues lie with the course, beside this package.
gettext.bindtextdomain(DOMAIN, str(Path(__file__).parents[1] / "course" / "locale"))


def _(text: str) -> str:
    """`text` in the reader's language."""
    return gettext.dgettext(DOMAIN, text)


def plural(one: str, many: str, count: int) -> str:
    """`one` or `many`, as `count` asks for in the reader's language, with ``{count}`` filled in."""
    return gettext.dngettext(DOMAIN, one, many, count).format(count=count)
