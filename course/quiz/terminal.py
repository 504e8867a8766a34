"""The terminal's front of a quiz, for people who are on a machine by SSH: plain lines in, plain lines out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from course.language import localized
from course.quiz import typed
from course.quiz.asked import Asked, Choose, FindPartners, PutInOrder
from course.quiz.grade import Grade
from course.quiz.prose import for_terminal
from course.quiz.sitting import Sitting
from minipar.words import _, plural

Read = Callable[[str], str]


class Terminal:
    """A learner at a quiz in a terminal. `read` shows a prompt and returns a line, as `input` does."""

    def __init__(self, sitting: Sitting, console: Console, read: Read = input) -> None:
        self.sitting, self.console, self._read = sitting, console, read

    def run(self) -> bool:
        """Ask what is not answered yet; returns whether all was answered (or handed in), not left for later."""
        sitting = self.sitting
        self._say(localized(sitting.quiz.title), "bold")
        if sitting.answers:
            self._say(_("You go on where you were: {score}").format(score=sitting.score()))
        if sitting.at_the_end:
            self._say(_("You see what was right when you hand in. Until then you can change your answers."))
        self._say(_("An empty line leaves a question for later. Ctrl-C ends; what you answered is kept."), "dim")
        sitting.begin()
        try:
            self._rounds()
        except (KeyboardInterrupt, EOFError):
            self.console.print()
            self._say(self._kept())
            return False
        self.console.print()
        self._say(sitting.score(), "bold")
        self._notice()
        return True

    def _rounds(self) -> None:
        """Ask until every question has an answer, or the learner hands in without."""
        sitting = self.sitting
        while not sitting.finished:
            for number, question in enumerate(sitting.attempt.questions, 1):
                if question.id not in sitting.answers:
                    self._ask(number, question)
            missing = len(sitting.attempt.questions) - len(sitting.answers)
            if missing:
                self._say(plural("{count} question is left.", "{count} questions are left.", missing))
            if sitting.at_the_end and self._hands_in():
                sitting.hand_in()
                self._show_all()

    def _hands_in(self) -> bool:
        """Whether the learner ends the exam; or else changes an answer, or goes on with what is left."""
        count = len(self.sitting.attempt.questions)
        while True:
            line = self._line(
                _("Type `h` to hand in, a question's number to answer it again, or nothing to see what is left:")
            )
            if line.lower() == "h":
                return True
            if not line and not self.sitting.complete:
                return False
            if line.isascii() and line.isdecimal() and 1 <= int(line[:5]) <= count:
                self._ask(int(line), self.sitting.attempt.questions[int(line) - 1])

    def _ask(self, number: int, question: Asked) -> None:
        """Ask until there is an answer that is right, or the learner goes on."""
        self._show(number, question)
        first = True
        while True:
            lines = self._lines(question, first)
            if not "".join(lines).strip():
                return
            try:
                grade = self.sitting.answer(question, typed.read(question, lines))
            except ValueError as error:
                self._say(self._sentence(str(error)), "yellow")
                continue
            self._notice()
            if grade is None:
                return
            self._comment(question, grade)
            if grade.right or self.sitting.closed(question):
                return
            self._say(_("Answer again, or go on with an empty line."), "dim")
            first = False

    def _lines(self, question: Asked, first: bool) -> list[str]:
        """What is typed; the first line empty is a question left for later, also where there are more to come."""
        if first:
            self._say(typed.how(question), "dim")
        count = typed.lines_of(question)
        if count == 1:
            return [self._line(">")]
        lines: list[str] = []
        while len(lines) < count:
            line = self._line(_("rank {rank}:").format(rank=len(lines)))
            if not line and not lines:
                break
            lines.append(line)
        return lines

    def _line(self, prompt: str) -> str:
        return self._read(for_terminal(prompt).plain + " ").strip()

    def _show(self, number: int, question: Asked) -> None:
        self.console.print()
        self._say(Text(f"{number}. ", "bold") + for_terminal(question.text))
        if isinstance(question, Choose):
            self._list(typed.letters(len(question.options)), (option.text for option in question.options))
        elif isinstance(question, PutInOrder):
            self._list(typed.letters(len(question.items)), (item.text for item in question.items))
        elif isinstance(question, FindPartners):
            self._list(map(str, range(1, len(question.lefts) + 1)), (left.text for left in question.lefts))
            self._list(typed.letters(len(question.rights)), question.rights)

    def _list(self, marks: Iterable[str], texts: Iterable[str]) -> None:
        for mark, text in zip(marks, texts, strict=True):
            self.console.print(Padding(Text(f"{mark}  ") + for_terminal(text), (0, 0, 0, 3), expand=False))

    def _comment(self, question: Asked, grade: Grade) -> None:
        for remark in grade.remarks:
            sign = Text("✓ ", "green") if remark.right else Text("✗ ", "red")
            self.console.print(sign + self._about(question, remark.place) + for_terminal(remark.text))
        if grade.solution is not None:
            self.console.print(Text(_("Worked out:") + " ", "bold") + for_terminal(grade.solution))
        if grade.read_again is not None:
            self._say(_("Read again:") + " " + grade.read_again)

    def _about(self, question: Asked, place: int | None) -> Text:
        """Which of the things a remark is about, by its mark."""
        if place is None or not isinstance(question, Choose | PutInOrder | FindPartners):
            return Text()
        mark = str(place + 1) if isinstance(question, FindPartners) else typed.letters(26)[place]
        return Text(f"{mark}: ", "bold")

    def _show_all(self) -> None:
        """After handing in: each question with what was right."""
        grades = self.sitting.grades()
        for number, question in enumerate(self.sitting.attempt.questions, 1):
            self._show(number, question)
            if question.id in grades:
                self._comment(question, grades[question.id])
            else:
                self._say(_("You gave no answer."), "yellow")

    def _kept(self) -> str:
        count = len(self.sitting.answers)
        if self.sitting.notice:
            return self.sitting.notice
        if not count:
            return _("Nothing was answered, so nothing is kept.")
        return plural(
            "Your answer to {count} question is kept. The same command goes on from here.",
            "Your answers to {count} questions are kept. The same command goes on from here.",
            count,
        )

    def _notice(self) -> None:
        if self.sitting.notice:
            self._say(self.sitting.notice, "yellow")

    def _sentence(self, error: str) -> Text:
        text = for_terminal(error)
        return Text(text.plain[:1].upper()) + text[1:] + Text(".")

    def _say(self, text: str | Text, style: str = "") -> None:
        shown = for_terminal(text) if isinstance(text, str) else text
        if style:
            shown.stylize(style)
        self.console.print(shown)
