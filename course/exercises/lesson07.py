"""Lesson 07: 1F1B, written out; and a ladder of seven puzzles, each a bubble to reach within a memory limit."""

from __future__ import annotations

from course.exercises.exercise import Exercise, Play, Refused, Status, Target, Verdict, WrongAnswer
from course.exercises.ladder import Rung, rungs
from course.exercises.lesson06 import between, read_rows, told
from course.exercises.targets import Weighed, live_micro_batches, steps, weigh
from course.judge.ranks import Case
from course.quiz.schedule_answer import DoesNotRun
from minipar.draw import percent
from minipar.pipeline import one_f_one_b, simulate
from minipar.words import _

LESSON = "07-schedules"

# one-f-one-b


def examine_rows(play: Play) -> Verdict:
    """Ask for schedules of some sizes, fewer micro-batches than stages among them; weigh their length and memory."""
    rows: list[Weighed] = []
    for stages, count in ((between(3, 4), between(6, 9)), (between(5, 7), between(2, 4)), (2, 11), (between(2, 6), 1)):
        value = play(Case(((stages, count),))).outcomes[0].value
        where = _("{stages} stages, {count} micro-batches").format(stages=stages, count=count)
        schedule, known = read_rows(value, stages, count, where), one_f_one_b(stages, count)
        least = simulate(known).duration
        rows.append(steps(round(simulate(schedule).duration, 6), least, least))
        worst = max(range(stages), key=lambda rank: schedule.peak_live[rank] - known.peak_live[rank])
        most = known.peak_live[worst]
        rows.append(live_micro_batches(schedule.peak_live[worst], most, most))
    return weigh(
        rows,
        passed=_("As short as GPipe, and no rank holds more than it must. So nearly every large model is trained."),
        outside=_("It runs. But a rank waits longer than it must, or holds more micro-batches than it must."),
    )


def one_f_one_b_rows(stages: int, micro_batches: int) -> list[str]:
    """The solution: a few forwards ahead, fewer on later ranks; then one backward, one forward, in turn."""
    rows = []
    for rank in range(stages):
        ahead = min(stages - rank, micro_batches)
        words = [f"F{i}" for i in range(ahead)]
        for i in range(micro_batches):
            words.append(f"B{i}")
            if i + ahead < micro_batches:
                words.append(f"F{i + ahead}")
        rows.append(" ".join(words))
    return rows


def _gpipe(stages: int, micro_batches: int) -> list[str]:
    forwards = [f"F{i}" for i in range(micro_batches)]
    backwards = [f"B{i}" for i in range(micro_batches)]
    return [" ".join(forwards + backwards) for _rank in range(stages)]


def _alike_on_all_ranks(stages: int, micro_batches: int) -> list[str]:
    words = [f"F{i}" for i in range(min(stages, micro_batches))]
    for i in range(micro_batches):
        words.append(f"B{i}")
        if i + stages < micro_batches:
            words.append(f"F{i + stages}")
    return [" ".join(words)] * stages


def _one_less_ahead(stages: int, micro_batches: int) -> list[str]:
    rows = []
    for rank in range(stages):
        ahead = min(max(1, stages - rank - 1), micro_batches)
        words = [f"F{i}" for i in range(ahead)]
        for i in range(micro_batches):
            words.append(f"B{i}")
            if i + ahead < micro_batches:
                words.append(f"F{i + ahead}")
        rows.append(" ".join(words))
    return rows


def _ranks_the_wrong_way_round(stages: int, micro_batches: int) -> list[str]:
    rows = []
    for rank in range(stages):
        ahead = min(rank + 1, micro_batches)
        words = [f"F{i}" for i in range(ahead)]
        for i in range(micro_batches):
            words.append(f"B{i}")
            if i + ahead < micro_batches:
                words.append(f"F{i + ahead}")
        rows.append(" ".join(words))
    return rows


def _last_backwards_forgotten(stages: int, micro_batches: int) -> list[str]:
    rows = []
    for rank in range(stages):
        ahead = min(stages - rank, micro_batches)
        words = [f"F{i}" for i in range(ahead)]
        for i in range(ahead, micro_batches):
            words += [f"B{i - ahead}", f"F{i}"]
        rows.append(" ".join(words))
    return rows


def _one_text(stages: int, micro_batches: int) -> str:
    return " ".join(f"F{i} B{i}" for i in range(micro_batches)) * stages


ONE_F_ONE_B = Exercise(
    name="one-f-one-b",
    lesson=LESSON,
    examine=examine_rows,
    hints=(
        _("Look at a Gantt chart of 1F1B. How many forwards does each rank do before its first backward?"),
        _("Rank r does `stages - r` forwards first, or all of them where there are fewer. The last rank does one."),
        _("From then on each backward is followed by the next forward, while there is one left."),
        _(
            "Keep `ahead = min(stages - rank, micro_batches)`. Write `ahead` forwards; then for each i write B i, and "
            "F i + ahead if that micro-batch exists."
        ),
    ),
    solution=one_f_one_b_rows,
    wrong=(
        WrongAnswer(_gpipe, Status.OUTSIDE_TARGET),
        WrongAnswer(_alike_on_all_ranks, Status.OUTSIDE_TARGET),
        WrongAnswer(_one_less_ahead, Status.OUTSIDE_TARGET),
        WrongAnswer(_ranks_the_wrong_way_round, Status.WRONG_VALUE),
        WrongAnswer(_last_backwards_forgotten, Status.WRONG_VALUE),
        WrongAnswer(_one_text, Status.WRONG_SHAPE),
    ),
)


# beat-the-bubble


def examine_ladder(play: Play) -> Verdict:
    """Ask for the schedules of the ladder, and climb it until a rung does not hold."""
    got, ladder = play(Case(((),))).outcomes[0].value, rungs()
    if not isinstance(got, (list, tuple)) or not all(isinstance(text, str) for text in got):
        message = _("A list of texts was expected, one a rung; your function returned {kind}.")
        raise Refused(Status.WRONG_SHAPE, message.format(kind=told(got)))
    if len(got) > len(ladder):
        message = _("There are {count} rungs, and you gave {given} texts.")
        raise Refused(Status.WRONG_SHAPE, message.format(count=len(ladder), given=len(got)))
    rows: list[Weighed] = []
    for rung, text in zip(ladder, got, strict=False):
        rows += climbed(rung, text)
        if not all(row.within for row in rows):
            break
    else:
        if len(got) < len(ladder):
            message = _("So far it holds. Rung {number} is next: {ranks} ranks, {micro_batches} micro-batches.")
            number = len(got)
            next_one = message.format(
                number=number + 1, ranks=ladder[number].ranks, micro_batches=ladder[number].micro_batches
            )
            return Verdict(Status.OUTSIDE_TARGET, next_one, tuple(row.row for row in rows))
    return weigh(
        rows,
        passed=_("All seven. You can trade the bubble against memory with your own hands."),
        outside=_("It runs, and the last rung below does not hold yet: its bubble or its room is above the limit."),
    )


def climbed(rung: Rung, text: str) -> list[Weighed]:
    """Bubble and room of a rung's answer beside its limits; `Refused` where it is no schedule that runs."""
    try:
        schedule = rung.read(text)
    except (ValueError, DoesNotRun) as error:
        message = _("Rung {number}: {reason}.").format(number=rung.number, reason=error)
        raise Refused(Status.WRONG_VALUE, message) from None
    bubble, most = rung.timed(schedule).bubble_rate, percent(rung.bubble, 1)
    room = f"{rung.room:g}"
    at_most = _("at most {most}")
    return [
        Weighed(
            Target(
                _("rung {number}: bubble").format(number=rung.number),
                percent(bubble, 1),
                at_most.format(most=most),
                most,
            ),
            rung.beats(schedule),
        ),
        Weighed(
            Target(
                _("rung {number}: micro-batches held").format(number=rung.number),
                f"{schedule.room:g}",
                at_most.format(most=room),
                room,
            ),
            rung.fits(schedule),
        ),
    ]


def ladder() -> list[str]:
    """The solution: GPipe, 1F1B, ZB-H1, interleaved 1F1B, ZB-H2, V-min and ZB-V, written out."""
    return [
        """F0 F1 F2 B0 B1 B2
           F0 F1 F2 B0 B1 B2""",
        """F0 F1 F2 B0 F3 B1 B2 B3
           F0 F1 B0 F2 B1 F3 B2 B3
           F0 B0 F1 B1 F2 B2 F3 B3""",
        """F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3
           F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
           F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3""",
        """F0 F1 F0@2 F1@2 F2 B0@2 F3 B1@2 F2@2 B0 F3@2 B1 B2@2 B3@2 B2 B3
           F0 F1 F0@3 B0@3 F1@3 B1@3 F2 B0 F3 B1 F2@3 B2@3 F3@3 B3@3 B2 B3""",
        """F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3
           F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3""",
        """F0 F0@3 I0@3 W0@3 F1 I0 W0 F1@3 I1@3 W1@3 F2 I1 W1 F2@3 I2@3 W2@3 F3 I2 W2 F3@3 I3@3 W3@3 I3 W3
           F0 F0@2 I0@2 I0 F1 F1@2 W0@2 W0 I1@2 I1 F2 F2@2 W1@2 W1 I2@2 I2 F3 F3@2 W2@2 W2 I3@2 I3 W3@2 W3""",
        """F0 F1 F2 F0@3 I0@3 W0@3 F1@3 I1@3 W1@3 F3 I0 W0 F2@3 I2@3 W2@3 I1 W1 F3@3 I3@3 W3@3 I2 W2 I3 W3
           F0 F0@2 F1 F1@2 I0@2 W0@2 F2 I0 W0 F2@2 I1@2 W1@2 F3 I1 W1 F3@2 I2@2 W2@2 I2 I3@2 I3 W2 W3@2 W3""",
    ]


def _three_rungs() -> list[str]:
    return [
        "F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2",
        "F0 F1 F2 B0 F3 B1 B2 B3\nF0 F1 B0 F2 B1 F3 B2 B3\nF0 B0 F1 B1 F2 B2 F3 B3",
        "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3\nF0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3\nF0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3",
    ]


def _no_room() -> list[str]:
    gpipe = "F0 F1 F2 F3 B0 B1 B2 B3"
    return ["F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2", f"{gpipe}\n{gpipe}\n{gpipe}"]


def _late_weights() -> list[str]:
    return [
        "F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2",
        "F0 F1 F2 B0 F3 B1 B2 B3\nF0 F1 B0 F2 B1 F3 B2 B3\nF0 B0 F1 B1 F2 B2 F3 B3",
        "F0 F1 F2 I0 F3 I1 I2 I3 W0 W1 W2 W3\nF0 F1 I0 F2 I1 F3 I2 I3 W0 W1 W2 W3\nF0 I0 F1 I1 F2 I2 F3 I3 W0 W1 W2 W3",
    ]


def _waits_for_ever() -> list[str]:
    return ["B0 F0 F1 F2 B1 B2\nF0 F1 F2 B0 B1 B2"]


def _weights_forgotten() -> list[str]:
    return ["F0 F1 F2 I0 I1 I2\nF0 F1 F2 I0 I1 I2"]


def _nothing_yet() -> list[str]:
    return [""]


def _one_schedule() -> str:
    return "F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2"


BEAT_THE_BUBBLE = Exercise(
    name="beat-the-bubble",
    lesson=LESSON,
    examine=examine_ladder,
    hints=(
        _("Write in the workbench above: it draws what you write. Copy a rung here once it says that it holds."),
        _("Rungs 1 and 2 are GPipe and 1F1B. On rung 3 split each B into I and W, and do a W where a rank would wait."),
        _(
            "Rung 4: rank 0 holds stages 0 and 2, rank 1 holds 1 and 3. Take two micro-batches at a time through both. "
            "Rung 5: the first rank does one more forward before its first backward than in 1F1B."
        ),
        _(
            "Rungs 6 and 7 are a V: rank 0 holds stages 0 and 3, rank 1 holds 1 and 2. The last stage is on rank 0, so "
            "a micro-batch begins its backward where it began. On rung 6 rank 0 nearly finishes one before the next; "
            "on rung 7 it does three forwards of stage 0 first."
        ),
    ),
    solution=ladder,
    wrong=(
        WrongAnswer(_three_rungs, Status.OUTSIDE_TARGET),
        WrongAnswer(_no_room, Status.OUTSIDE_TARGET),
        WrongAnswer(_late_weights, Status.OUTSIDE_TARGET),
        WrongAnswer(_waits_for_ever, Status.WRONG_VALUE),
        WrongAnswer(_weights_forgotten, Status.WRONG_VALUE),
        WrongAnswer(_nothing_yet, Status.WRONG_VALUE),
        WrongAnswer(_one_schedule, Status.WRONG_SHAPE),
    ),
)
