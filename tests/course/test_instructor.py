"""The instructor grades from raw answers and sources alone: honest claims are confirmed, others are spotted."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jwk import RSAKey
from typer.testing import CliRunner

from course.bundle import pack, read, unpack
from course.certificate import missing, verify, work_of
from course.certificate.keys import key_uri
from course.certificate.work import quizzes, required
from course.cli import app
from course.instructor.apart import grade_apart
from course.instructor.difficulty import difficulty
from course.instructor.grading import Signer, grade_class
from course.instructor.regrade import Graded, from_json, grade_bundle, grade_try, to_json
from course.instructor.roster import Row, harmless, to_csv
from course.progress import Progress
from course.quiz.attempt import draw, grade_attempt
from course.quiz.exam import EXAM
from course.quiz.sitting import Sitting, source
from tests.course.class_of import LEARNER, attempt, bundle_of, passed, quiz_of, right_answers, solve

OTHER = LEARNER[:-1] + "B"
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def signer() -> Signer:
    return Signer(RSAKey.generate_key(2048), "Prof. Hopper")


@st.composite
def answers_to(draw_from: st.DrawFn, name: str, seed: int) -> dict[str, Any]:
    """Answers as learners give them: right ones, those of a neighbour, numbers, nonsense, or none."""
    right = right_answers(name, seed)
    return {
        question: draw_from(
            st.sampled_from([answer, *right.values()]) | st.integers(0, 4) | st.lists(st.integers(0, 4)) | anything
        )
        for question, answer in right.items()
        if draw_from(st.booleans())
    }


@settings(max_examples=60)
@given(data=st.data(), name=st.sampled_from(["00-start", "exam"]), seed=st.integers(0, 2**53 - 1))
def test_random_answers_have_the_same_score_at_the_learners_and_at_the_instructors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, name: str, seed: int
) -> None:
    progress = Progress(tmp_path_factory.mktemp("learner") / "p.sqlite3")
    recorded = attempt(progress, name, seed, data.draw(answers_to(name, seed)))
    (graded,) = grade_bundle(unpack(pack(progress, LEARNER, "Ada"))).tries
    assert graded.share == recorded == progress.best("attempt", name)
    assert not graded.differs


@settings(max_examples=20)
@given(data=st.data(), name=st.sampled_from(["00-start", "exam"]))
def test_what_a_front_recorded_has_the_same_score_at_the_instructors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, name: str
) -> None:
    """Through the sitting on which both fronts are built, answer by answer."""
    progress = Progress(tmp_path_factory.mktemp("learner") / "p.sqlite3")
    sitting = Sitting(source(name), progress)
    given_answers = data.draw(answers_to(name, sitting.attempt.seed))
    for question in sitting.attempt.questions:
        try:
            sitting.answer(question, given_answers.get(question.id))
        except ValueError:  # no answer at all; then what is right
            sitting.answer(question, right_answers(name, sitting.attempt.seed)[question.id])
    sitting.hand_in()
    graded = grade_bundle(unpack(pack(progress, LEARNER, "Ada")))
    assert graded.tries[-1].share == progress.best("attempt", name) == sitting.result().share
    assert not any(made.differs for made in graded.tries)


def test_in_a_process_of_its_own_the_grades_are_the_same(tmp_path: Path) -> None:
    path = bundle_of(passed(tmp_path / "p.sqlite3"), tmp_path / "b.json")
    apart = grade_apart(read(path), path.read_bytes())
    assert apart == grade_bundle(read(path))
    assert missing(apart.work()) == []
    assert apart.work().solutions == work_of(read(path).events).solutions


def test_graded_bundles_travel_as_json() -> None:
    graded = Graded((), ())
    assert from_json(to_json(graded)) == graded


def rows_of(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((folder / "roster.csv").read_text("utf-8-sig"))))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grading in this process, which is sooner; that a process of its own says the same has a test of its own."""
    monkeypatch.setattr("course.instructor.grading.grade_apart", lambda bundle, _data: grade_bundle(bundle))


@pytest.mark.usefixtures("here")
def test_a_class_is_graded_and_only_who_passed_gets_a_certificate(tmp_path: Path, signer: Signer) -> None:
    honest = bundle_of(passed(tmp_path / "1"), tmp_path / "ada.json")
    cheat = Progress(tmp_path / "2")
    solve(cheat, "00-start/column-linear", "def answer(x, w_columns, tp):\n    return x @ w_columns\n")
    attempt(cheat, "exam", 5, {}, claimed=1.0)
    attempt(cheat, "00-start", 5, right_answers("00-start", 5))
    cheating = bundle_of(cheat, tmp_path / "eve.json", "=cmd()", OTHER)
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    told: list[Row] = []
    to = tmp_path / "graded"
    rows = grade_class([honest, cheating, broken], signer, to, told.append)
    assert told == rows

    first, second, third = rows
    assert first.remarks == ()
    assert first.certificate is not None
    believed = verify(next(to.glob("*.jwt")).read_text(), signer.key)
    assert believed.credential.id == first.certificate
    assert (believed.credential.learner, believed.credential.issuer.name) == ("Ada Lovelace", "Prof. Hopper")
    assert believed.credential.scores == dict.fromkeys(quizzes(), "100.0")
    assert not believed.credential.self_signed
    assert len(list(to.glob("*.svg"))) == len(list(to.glob("*.pdf"))) == len(list(to.glob("*.png"))) == 1

    remarks = "\n".join(second.remarks)
    assert "attempt at exam: 100.0 % claimed, 0.0 % graded" in remarks
    assert "exercise 00-start/column-linear: claimed as passed, but now: Wrong shape" in remarks
    assert "exam: 0 % at best" in remarks
    assert second.certificate is None
    assert third.bundle is None
    assert "no JSON" in third.remarks[0]

    table, every = rows_of(to), len(required())
    assert [row["name"] for row in table] == ["Ada Lovelace", "'=cmd()", ""]
    assert [row["exam, claimed"] for row in table] == ["100.0", "100.0", ""]
    assert [row["exam, graded"] for row in table] == ["100.0", "0.0", ""]
    assert [row["exercises passed"] for row in table] == [f"{every} / {every}", f"0 / {every}", ""]
    assert [row["00-start"] for row in table] == ["100.0", "100.0", ""]
    assert table[0]["certificate"]
    assert not table[1]["certificate"]


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["instructor", *arguments])


def test_the_commands_from_a_key_to_a_certificate_that_the_key_verifies(tmp_path: Path, data_folder: Path) -> None:
    bundle = str(bundle_of(passed(tmp_path / "1"), tmp_path / "ada.json"))
    to, key = tmp_path / "graded", data_folder / "instructor" / "key.json"
    early = invoke("grade", bundle, "--to", str(to))
    assert (early.exit_code, to.exists()) == (1, False)
    assert "course instructor init" in early.stderr

    made = invoke("init", "--name", " Prof.  Hopper ")
    assert made.exit_code == 0, made.output
    assert key.stat().st_mode & 0o077 == 0, "only its owner can read it"
    kept = key.read_bytes()
    again = invoke("init", "--name", "Eve")
    assert (again.exit_code, key.read_bytes()) == (1, kept)

    done = invoke("grade", bundle, "--to", str(to))
    assert done.exit_code == 0, done.output
    assert "runs the learners' code" in done.stdout
    assert "Ada Lovelace: certificate " in done.stdout
    (row,) = rows_of(to)
    assert (row["exam, graded"], row["exercises passed"], row["remarks"]) == (
        "100.0",
        f"{len(required())} / {len(required())}",
        "",
    )
    public = str(data_folder / "instructor" / "public.pem")
    told = CliRunner().invoke(app, ["verify", str(next(to.glob("*.svg"))), "--key", public])
    assert told.exit_code == 0, told.output
    assert "Signed by Prof. Hopper" in told.stdout
    assert "with the key that you gave" in told.stdout

    twice = invoke("grade", bundle, "--to", str(to))
    assert twice.exit_code == 1
    assert "not overwritten" in twice.stderr


def test_the_report_names_every_question_whole(tmp_path: Path) -> None:
    bundle = str(bundle_of(passed(tmp_path / "1"), tmp_path / "ada.json"))
    told = invoke("report", bundle)
    assert told.exit_code == 0, told.output
    assert "1 learner\n" in told.stdout
    assert "…" not in told.stdout
    asked = [question.id for question in draw(quiz_of(EXAM, 7), 7).questions]
    assert all(question in told.stdout for question in asked)
    broken = tmp_path / "broken.json"
    broken.write_text("[")
    refused = invoke("report", bundle, str(broken))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "broken.json: it is no JSON" in refused.stderr


def test_where_every_bundle_is_refused_nothing_is_written(tmp_path: Path, signer: Signer) -> None:
    (tmp_path / "b.json").write_bytes(b"\x80\x04pickle")
    rows = grade_class([tmp_path / "b.json", tmp_path / "none.json"], signer, tmp_path / "graded", lambda row: None)
    assert [row.bundle for row in rows] == [None, None]
    assert not (tmp_path / "graded").exists()


@pytest.mark.usefixtures("here")
def test_a_bundle_twice_and_one_copied_from_another_learner_are_spotted(tmp_path: Path, signer: Signer) -> None:
    progress = Progress(tmp_path / "1")
    attempt(progress, "00-start", 1, right_answers("00-start", 1))
    first = bundle_of(progress, tmp_path / "a.json")
    again = bundle_of(progress, tmp_path / "b.json")
    copied = bundle_of(progress, tmp_path / "c.json", "Eve", OTHER)
    rows = grade_class([first, again, copied], signer, tmp_path / "graded", lambda row: None)
    assert not any("bundle" in remark for remark in rows[0].remarks)
    assert "the same learner as bundle 1" in rows[1].remarks
    assert "1 of its entries are in bundle 1 too, of another learner" in rows[2].remarks


def test_a_bundle_that_names_the_instructors_own_key_gets_no_certificate(tmp_path: Path, signer: Signer) -> None:
    path = bundle_of(passed(tmp_path / "1"), tmp_path / "a.json", "Eve", key_uri(signer.key))
    (row,) = grade_class([path], signer, tmp_path / "graded", lambda row: None)
    assert row.certificate is None
    assert "your own key" in row.remarks[0]


HOSTILE = """
import gc, json, os, pathlib, sys
pathlib.Path({seen!r}).write_text(repr(dict(os.environ)))
print(json.dumps({{"tries": [], "solutions": []}}))
for name, module in list(sys.modules.items()):  # whatever of the course is there
    if name.startswith("course"):
        for patched in ("judge", "compare", "weigh", "to_json"):
            setattr(module, patched, lambda *a, **k: None)
for thing in gc.get_objects():
    if type(thing).__name__ == "Status":
        thing._value_ = "passed"

def answer(x, w_columns, tp):
    return x @ w_columns
"""


def test_a_learners_code_cannot_say_that_it_passed_and_is_not_told_where_the_key_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs on ranks below the grading process: what it prints, patches or leaves in memory is not believed."""
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "instructors"))
    progress, seen = Progress(tmp_path / "p"), tmp_path / "seen"
    solve(progress, "00-start/column-linear", HOSTILE.format(seen=str(seen)))
    path = bundle_of(progress, tmp_path / "b.json")
    (solution,) = grade_apart(read(path), path.read_bytes()).solutions
    assert (solution.passed, solution.verdict) == (False, "Wrong shape")
    assert "PATH" in seen.read_text(), "it did run"
    assert str(tmp_path / "instructors") not in seen.read_text()


def test_grading_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course.instructor.apart.START", 0.2)
    path = bundle_of(Progress(tmp_path / "p"), tmp_path / "b.json")
    with pytest.raises(ValueError, match=r"took longer than 0\.2 s"):
        grade_apart(read(path), path.read_bytes())


def test_an_attempt_at_a_quiz_that_there_is_not_is_a_remark(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "p")
    progress.record("attempt", "99-none", 1.0, {"seed": 1, "answers": {}, "quiz": "0" * 64, "seconds": 1.0})
    (graded,) = grade_bundle(unpack(pack(progress, LEARNER, "Ada"))).tries
    assert graded.problem == "there is no quiz 99-none"
    assert graded.differs


def test_an_attempt_on_another_version_of_the_quiz_is_said_to_be_one(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "p")
    attempt(progress, "00-start", 1, right_answers("00-start", 1))
    document = json.loads(pack(progress, LEARNER, "Ada"))
    document["progress"]["events"][0]["detail"]["quiz"] = "0" * 64
    (graded,) = grade_bundle(unpack(json.dumps(document).encode())).tries
    assert graded.other_file
    assert graded.file == quiz_of("00-start", 1).sha256


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "|cmd", "%0A", " =1"])
def test_no_cell_is_a_formula(cell: str) -> None:
    assert harmless(cell)[0] == "'"
    assert "\n" not in harmless("a\nb")


def test_the_roster_keeps_names_with_commas_and_quotes(tmp_path: Path) -> None:
    bundle = unpack(pack(Progress(tmp_path / "p"), LEARNER, 'O\'Neil, "Ada" 小明'))
    data = to_csv([Row(Path("a,b.json"), bundle, None, ("one; two", "three"))])
    assert data.startswith(b"\xef\xbb\xbf")
    (row,) = csv.DictReader(io.StringIO(data.decode("utf-8-sig")))
    assert row["name"] == 'O\'Neil, "Ada" 小明'
    assert row["remarks"] == "one; two; three"


def test_difficulty_counts_each_learner_once_and_their_first_answers(tmp_path: Path) -> None:
    def answer(progress: Progress, seed: int, question: str, right: bool) -> None:
        asked = next(q for q in draw(quiz_of("00-start", seed), seed).questions if q.id == question)
        choice = right_answers("00-start", seed)[question]
        given_answer = choice if right else next(i for i in range(len(asked.options)) if i != choice)  # type: ignore[union-attr]
        detail = {"seed": seed, "quiz": quiz_of("00-start", seed).sha256, "question": question, "answer": given_answer}
        progress.record("answer", "00-start", float(right), detail)

    ada, eve = Progress(tmp_path / "1"), Progress(tmp_path / "2")
    answer(ada, 1, "bubble", right=False)
    answer(ada, 1, "bubble", right=True)
    answer(ada, 1, "column-split", right=True)
    answer(eve, 2, "bubble", right=True)
    attempt(eve, "exam", 3, right_answers("exam", 3))
    bundles = [unpack(pack(ada, LEARNER, "Ada")), unpack(pack(eve, OTHER, "Eve"))]
    found = {(q.quiz, q.question): q for q in difficulty([*bundles, bundles[0]])}
    bubble = found["00-start", "bubble"]
    assert (bubble.learners, bubble.first, bubble.best) == (2, 0.5, 1.0)
    split = found["00-start", "column-split"]
    assert (split.learners, split.first, split.best) == (1, 1.0, 1.0)
    assert difficulty(bundles)[0] == bubble, "the most difficult first"
    assert all(q.first == 1.0 for (quiz, _question), q in found.items() if quiz == "exam")


def test_the_graded_share_is_that_of_the_pure_function(tmp_path: Path) -> None:
    answers = dict(list(right_answers("exam", 9).items())[:4])
    progress = Progress(tmp_path / "p")
    attempt(progress, "exam", 9, answers, claimed=1.0)
    (made,) = unpack(pack(progress, LEARNER, "Ada")).tries
    assert grade_try(made).share == grade_attempt(quiz_of("exam", 9), 9, answers).share < 1
    assert grade_try(made).differs
