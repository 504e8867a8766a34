"""`course certificate` and `course verify`, as they are typed."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from course.certificate.token import sign
from course.certificate.work import required
from course.cli import app
from course.progress import Progress
from tests.course.certificate.conftest import Made
from tests.course.class_of import attempt, passed, right_answers, solve


def typed(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    assert code == 0 or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def earned(data_folder: Path) -> Progress:
    return passed(data_folder / "progress.sqlite3")


def test_while_something_is_missing_it_says_what_and_how_and_makes_no_key(data_folder: Path) -> None:
    said = typed("certificate", "--name", "Ada", code=1).stdout
    assert said.startswith(f"{len(required()) + 1} things are missing for the certificate:\n")
    assert "exercise 00-start/column-linear: not passed yet (course check 00)" in said
    assert "the final exam: not taken yet (course quiz exam)" in said
    assert not (data_folder / "keys").exists()
    assert not (data_folder / "certificates").exists()


def test_an_exam_below_the_mark_is_told_with_its_score(data_folder: Path) -> None:
    progress = Progress()
    for item in required():
        solve(progress, item)
    answers = list(right_answers("exam", 7).items())
    right = int(0.7 * len(answers))
    attempt(progress, "exam", 7, dict(answers[:right]))
    said = typed("certificate", "--name", "Ada", code=1).stdout
    assert said == (
        "One thing is missing for the certificate:\n"
        f"  - the final exam: {100 * right / len(answers):.0f} % at best, 80 % are needed (course quiz exam)\n"
    )


@pytest.mark.usefixtures("earned")
def test_an_earned_certificate_is_four_files_of_one_id_each_time_the_same(data_folder: Path) -> None:
    first = typed("certificate", "--name", "Ada Lovelace").stdout
    folder = data_folder / "certificates"
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    (stem,) = {Path(name).stem for name in files}
    assert {Path(name).suffix for name in files} == {".jwt", ".svg", ".png", ".pdf"}
    assert f"has the ID {stem}." in first
    assert "signed with your own key" in first
    assert typed("certificate", "--name", "Ada Lovelace").stdout == first
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".pdf"} == {
        name: data for name, data in files.items() if not name.endswith(".pdf")
    }

    for suffix in (".jwt", ".svg", ".png"):
        said = typed("verify", str(folder / (stem + suffix))).stdout
        assert said.startswith("Valid")
        assert "not who did the work" in " ".join(said.split())
        assert ("not what is drawn" in said) == (suffix != ".jwt")
    assert "carries no signature" in typed("verify", str(folder / f"{stem}.pdf"), code=1).stderr

    typed_by_hand = stem.lower().replace("-", " ").replace("o", "0").replace("i", "1")
    assert f"  ID       {stem}\n" in typed("verify", typed_by_hand).stdout
    (folder / f"{stem}.jwt").write_text(files[f"{stem}.jwt"].decode()[:-8] + "AAAAAAAA")
    assert "altered" in typed("verify", stem, code=1).stderr


@pytest.mark.usefixtures("earned")
def test_a_name_that_is_none_makes_nothing(data_folder: Path, tmp_path: Path) -> None:
    for name in ("", " ", "\x1b[31m", "\u202eadA", "123", "x" * 101):
        assert "name" in typed("certificate", "--name", name, "--to", str(tmp_path / "to"), code=1).stderr
    assert not (tmp_path / "to").exists()
    assert not (data_folder / "keys").exists()


@pytest.mark.usefixtures("earned")
def test_where_the_folder_cannot_be_written_it_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = typed("certificate", "--name", "Ada", "--to", str(tmp_path / "file"), code=1).stderr
    assert str(tmp_path / "file") in said


def test_an_id_of_nobodys_certificate_proves_nothing() -> None:
    said = typed("verify", "AAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAAA", code=1).stderr
    assert "An ID alone proves nothing" in said


def test_what_a_signature_proves_is_said_for_each_signer(made: Made, instructor: Any, tmp_path: Path) -> None:
    token, public = tmp_path / "c.jwt", tmp_path / "public.pem"
    token.write_text(sign(made(issuer=instructor), instructor))
    public.write_bytes(instructor.as_pem(private=False))
    assert "Anyone can make a key with any name" in typed("verify", str(token)).stdout
    assert "with the key that you gave" in typed("verify", str(token), "--key", str(public)).stdout
