"""Quizzes to test with, answers of every kind drawn at random, and a learner who types."""

from collections.abc import Callable, Iterable
from io import StringIO
from typing import Any

from hypothesis import strategies as st
from rich.console import Console

from course.lessons import ROOT
from course.progress import Progress
from course.quiz.asked import Asked, Choose, FindPartners, GiveNumber, PutInOrder, WriteSchedule
from course.quiz.perfect import perfect
from course.quiz.schema import load
from course.quiz.sitting import Sitting, Source
from course.quiz.terminal import Terminal
from course.quiz.typed import letters

SAMPLER = ROOT / "quizzes" / "sampler.yaml"


def at_the_end() -> Source:
    """The sampler as an exam asks it: no grade before all is handed in."""
    quiz = load(SAMPLER).model_copy(update={"feedback": "at the end", "id": "sampler-exam"})
    return Source(quiz.id, lambda _seed: quiz)


def answers_to(question: Asked) -> st.SearchStrategy[Any]:
    """Any answer that is one; the right one often."""
    if isinstance(question, GiveNumber):
        near = [question.key + d for d in (0, question.tolerance, -question.tolerance, 2, -3)]
        any_answer: st.SearchStrategy[Any] = st.sampled_from(
            [*map(repr, near), *(repr(m.value) for m in question.mistakes), f"{question.key:.3f} {question.unit}"]
        ) | st.integers(-(10**6), 10**6).map(str)
    elif isinstance(question, PutInOrder):
        any_answer = st.permutations(range(len(question.items))).map(list)
    elif isinstance(question, FindPartners):
        place = st.integers(0, len(question.rights) - 1)
        any_answer = st.lists(place, min_size=len(question.lefts), max_size=len(question.lefts))
    elif isinstance(question, WriteSchedule):
        any_answer = schedules(question)
    elif question.several:
        any_answer = st.lists(st.integers(0, len(question.options) - 1), min_size=1, max_size=6)
    else:
        assert isinstance(question, Choose)
        any_answer = st.integers(0, len(question.options) - 1)
    return st.just(perfect(question)) | any_answer


def schedules(question: WriteSchedule) -> st.SearchStrategy[list[str]]:
    """Lines that are schedules of the right size, most of which cannot run."""
    words = [f"{kind}{i}" for kind in "FB" for i in range(question.known.micro_batches)]
    gpipe = [" ".join(words)] * question.known.ranks
    mixed = st.lists(st.permutations(words).map(" ".join), min_size=len(gpipe), max_size=len(gpipe))
    return st.sampled_from([gpipe, ["F0 B0"] * len(gpipe), [*gpipe[1:], " ".join(words[1:])]]) | mixed


def as_typed(question: Asked, answer: Any) -> list[str]:
    """The lines that a learner types to give this answer."""
    if isinstance(question, WriteSchedule):
        return list(answer)
    if isinstance(question, GiveNumber):
        return [answer]
    places = [answer] if isinstance(answer, int) else answer
    return [" ".join(letters(26)[i] for i in places)]


class Learner:
    """Types the lines, one after the other, and then what `after` says: by default that it is enough (Ctrl-D)."""

    def __init__(self, lines: Iterable[str], after: type[BaseException] = EOFError) -> None:
        self.lines, self.after, self.prompts = list(lines), after, list[str]()

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if not self.lines:
            raise self.after
        return self.lines.pop(0)


def in_terminal(sitting: Sitting, read: Callable[[str], str]) -> str:
    """Take the quiz in a terminal; returns what was printed."""
    out = StringIO()
    Terminal(sitting, Console(file=out, width=100, highlight=False), read).run()
    return out.getvalue()


def sampler() -> Source:
    """The sampler."""
    quiz = load(SAMPLER)
    return Source(quiz.id, lambda _seed: quiz)


def sit(source: Source | None = None, seed: int | None = None) -> Sitting:
    """A new sitting, with this seed if one is given."""
    sitting = Sitting(source or sampler(), Progress(), new=True)
    if seed is not None:
        sitting._begin(seed)
    return sitting
