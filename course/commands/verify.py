"""`course verify`: whether a certificate is valid, who signed it, and what that proves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from course.certificate.credential import short_id
from course.certificate.files import Carrier, token_in
from course.certificate.issue import folder_of_learner
from course.certificate.keys import fingerprint, read_public
from course.certificate.token import Refused
from course.certificate.verify import Verified, verify
from course.commands.sentences import as_sentences, say
from minipar.words import _

What = Annotated[str, typer.Argument(metavar="FILE|ID", help="A .jwt, .svg, .png or .json file, or the ID of one.")]
Key = Annotated[Path | None, typer.Option("--key", help="Public key (PEM or JWK) of whom you expect to have signed.")]


def verify_command(what: What, key: Key = None) -> None:
    """Say whether a certificate is valid, who signed it, and what that proves."""
    with as_sentences():
        expected = None if key is None else read_public(key)
        path = Path(what)
        if path.exists() or (identifier := as_id(what)) is None:
            token, carrier = token_in(path)
        else:
            path = with_id(identifier, folder_of_learner())
            token, carrier = token_in(path)
            say(_("The certificate with this ID is {path}.").format(path=path))
        verified = verify(token, expected)
    _tell(verified, carrier)


def as_id(text: str) -> str | None:
    """The ID in a text, in capital letters and without dashes; None where it is no ID.

    The digits 0 and 1 are not used in IDs, so they are read as the letters that they look like.
    """
    compact = re.sub(r"[\s-]", "", text).upper().translate(str.maketrans("01", "OI"))
    return compact if re.fullmatch(r"[A-Z2-7]{32}", compact) else None


def with_id(identifier: str, folder: Path) -> Path:
    """The file of the certificate with this ID in `folder`; `ValueError` where there is none."""
    for path in sorted(folder.glob("*.jwt")):
        try:
            found = verify(token_in(path)[0]).credential
        except ValueError:
            if as_id(path.stem) == identifier:
                return path  # it says itself what is wrong with it
            continue
        if as_id(short_id(found.id)) == identifier:
            return path
    words = _(
        "No certificate in {folder} has this ID. An ID alone proves nothing: ask for the .jwt, .svg or .png file."
    )
    raise Refused(words.format(folder=folder))


def _tell(verified: Verified, carrier: Carrier) -> None:
    credential, key = verified.credential, fingerprint(verified.credential.issuer.id)
    say(_("Valid: nothing was changed since it was signed."), "green")
    if carrier is Carrier.PICTURE:
        say(_("What the picture shows is not signed: believe what is written here, not what is drawn."), "yellow")
    say(_("  ID       {id}").format(id=short_id(credential.id)))
    say(_("  Learner  {name}").format(name=credential.learner))
    say(
        _("  Course   {course}, {version}").format(
            course=credential.name, version=credential.credential_subject.achievement.version
        )
    )
    say(_("  Date     {date}").format(date=credential.valid_from[:10]))
    for quiz, score in credential.scores.items():
        say(f"  {quiz:<24} " + (_("not taken") if score is None else _("{score} %").format(score=score)))
    exercises = sum(evidence.genre == "exercise" for evidence in credential.evidence)
    say(_("  Exercises passed: {count}").format(count=exercises))
    say(_("  Signed by {name}, key {key}").format(name=credential.issuer.name, key=key))
    say(_what_it_proves(verified))


def _what_it_proves(verified: Verified) -> str:
    if verified.credential.self_signed:
        return _(
            "It is signed with the learner's own key: this proves that nothing was changed since, but not who did "
            "the work, nor that anyone else has graded it."
        )
    if verified.expected:
        return _(
            "It is signed with the key that you gave: its owner says that the work was graded again from the raw "
            "answers and sources."
        )
    return _(
        "Whoever holds this key says that the work was graded again. Anyone can make a key with any name: get the "
        "instructor's public key from the instructor, and verify again with --key."
    )
