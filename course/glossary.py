"""The words of the field, each with what it means, in the order in which the lessons explain them."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from IPython.display import HTML

from course.lessons import find, lessons
from minipar.words import _


class Word(NamedTuple):
    """A word, and what it means; `lesson` is the number of the one that explains it first."""

    lesson: str
    term: str
    meaning: str


def glossary() -> tuple[Word, ...]:
    """All words, lesson by lesson."""
    return (
        # 00
        Word("00", _("rank"), _("A process with a number, from 0. On a server each has a GPU of its own.")),
        Word("00", _("world size"), _("How many ranks there are.")),
        Word("00", _("stage"), _("Some consecutive layers of a model, held by one rank.")),
        Word(
            "00",
            _("forward, backward"),
            _("The two halves of a step: from the input to the loss, and back to the gradients."),
        ),
        Word("00", _("bubble"), _("Time in which ranks wait with nothing to do, as a share of all time.")),
        Word("00", _("micro-batch"), _("A piece of the batch that goes through the stages by itself.")),
        Word(
            "00",
            _("live"),
            _("A micro-batch is live on a stage from its forward to its backward: its activations are kept."),
        ),
        Word("00", _("all-gather"), _("Every rank gets the tensors of all, joined.")),
        Word("00", _("all-reduce"), _("Every rank gets the sum of the tensors of all.")),
        # 01
        Word("01", _("gradient"), _("How the loss changes with a weight; a backward makes one for each.")),
        Word(
            "01",
            _("optimizer states"),
            _("What an optimizer remembers of each weight's gradients, such as AdamW's two moments."),
        ),
        Word(
            "01",
            _("main weights"),
            _("The copy of the weights in float32 that the optimizer updates where a model computes in 16 bits."),
        ),
        Word(
            "01", _("data parallelism"), _("Each rank has a whole model and its own samples; gradients are averaged.")
        ),
        Word("01", _("replica"), _("One whole copy of the model, on one GPU or split over several.")),
        Word(
            "01",
            _("Zero Redundancy Optimizer"),
            _("ZeRO: replicas share out optimizer states (1), gradients too (2), weights too (3)."),
        ),
        Word("01", _("activations"), _("What a forward puts aside because its backward will need it.")),
        Word("01", _("recompute"), _("To forget activations, and compute the forward again for the backward.")),
        # 02
        Word("02", _("collective"), _("A pattern of messages as one call, which every rank of a group makes.")),
        Word("02", _("broadcast"), _("Every rank gets the tensor of one.")),
        Word("02", _("reduce-scatter"), _("Every rank gets its own part of the sum of all.")),
        Word("02", _("ring"), _("Ranks that each talk to the next and the one before, all at the same time.")),
        Word("02", _("ledger"), _("Where `comm` writes down what each rank has sent.")),
        Word("02", _("latency"), _("What a message takes however small it is; α, in seconds.")),
        Word("02", _("bandwidth"), _("How many bytes a second a link carries; 1 / β.")),
        Word("02", _("bucket"), _("Many small tensors in one large one, so that latency counts once.")),
        # 03
        Word("03", _("shard"), _("The part of a cut tensor that one rank has.")),
        Word(
            "03", _("column split"), _("Each rank has some columns of a weight, and makes those columns of the result.")
        ),
        Word("03", _("row split"), _("Each rank has some rows of a weight, and makes a summand of the result.")),
        Word("03", _("summand"), _("A tensor as large as the result, which must be added to those of other ranks.")),
        Word("03", _("SUMMA"), _("A product over a grid of ranks: blocks go along its rows and columns.")),
        # 04
        Word("04", _("head"), _("One of the parts of attention that do not know of each other until the end.")),
        Word("04", _("f"), _("Before a column split: nothing forward, an all-reduce backward.")),
        Word("04", _("g"), _("After a row split: an all-reduce forward, nothing backward.")),
        Word(
            "04",
            _("sequence parallelism"),
            _("Norms and dropout cut by tokens, so that no tensor rank keeps all of them."),
        ),
        # 05
        Word("05", _("assembly line"), _("Stations in a row: each does its part and hands on. A pipeline is one.")),
        Word("05", _("throughput"), _("How much comes out in a second, however long each piece is under way.")),
        Word(
            "05", _("naive pipeline"), _("One micro-batch through all stages and back before the next; one rank works.")
        ),
        Word("05", _("embedding"), _("The first layer of a language model: looks up a row of numbers for each token.")),
        Word("05", _("block"), _("One of a transformer's equal layers, between its embedding and its head.")),
        Word("05", _("output head"), _("The last layer: compares what came out with every token of the vocabulary.")),
        # 06
        Word("06", _("GPipe"), _("The schedule in which all forwards come first, then all backwards.")),
        Word("06", _("idle over ideal time"), _("The bubble as a share of the time of work alone; it can pass 100 %.")),
        Word("06", _("host"), _("The processor beside a GPU, which starts its kernels one after the other.")),
        Word(
            "06", _("gradient accumulation"), _("Each micro-batch's backward adds to the gradients; then one update.")
        ),
        Word("06", _("batch norm"), _("Normalizes each channel by the mean and variance of the samples it sees.")),
        Word(
            "06",
            _("deferred batch norm"),
            _("A batch norm that updates its running statistics once for each batch, not for each micro-batch."),
        ),
        # 07
        Word("07", _("1F1B"), _("The schedule in which each rank does a backward as soon as it can, then a forward.")),
        Word(
            "07",
            _("interleaved 1F1B"),
            _("1F1B with several stages a rank, laid around the ranks as often: a smaller bubble, more messages."),
        ),
        Word(
            "07", _("input gradient"), _("The half of a backward that the stage before waits for; I, or B in papers.")
        ),
        Word("07", _("weight gradient"), _("The half of a backward that only the optimizer needs; W.")),
        Word("07", _("zero bubble"), _("Schedules that do weight gradients where ranks would wait.")),
        Word(
            "07",
            _("V schedules"),
            _("Schedules whose first rank holds the first stage and the last, on a turned path."),
        ),
        # 08
        Word("08", _("mesh"), _("The ranks as a grid of dp × pp × tp.")),
        Word("08", _("axis"), _("One direction of a mesh: dp, pp or tp.")),
        Word("08", _("coordinates"), _("A rank's place on each axis of the mesh.")),
        Word("08", _("group"), _("The ranks that differ on one axis of the mesh and nowhere else.")),
        Word("08", _("innermost"), _("The axis whose ranks have numbers beside each other.")),
        Word("08", _("node"), _("One server, often with eight GPUs; its links are faster than those to other nodes.")),
        # 09
        Word(
            "09",
            _("layout"),
            _("The mesh, the micro-batch, the schedule, and what saves memory: all that one chooses."),
        ),
        Word("09", _("planner"), _("A program that predicts layouts from sizes and constants, and finds the fastest.")),
        Word("09", _("profile"), _("Measured times of a model's layers, steps and links on one machine.")),
        Word("09", _("shortlist"), _("The few layouts that are worth a short run before one of them is chosen.")),
        Word(
            "09", _("MFU"), _("Model FLOPs utilization: the share of the peak that the model's own arithmetic reaches.")
        ),
        Word("09", _("GPU-hours"), _("GPUs times hours: what is paid for.")),
    )


def of_lesson(lesson: str) -> tuple[Word, ...]:
    """The words that a lesson (its number or name) explains; `ValueError` for an unknown one."""
    number = find(lesson).id
    return tuple(word for word in glossary() if word.lesson == number)


def search(text: str) -> tuple[Word, ...]:
    """The words that contain `text`, whatever the case of its letters."""
    return tuple(word for word in glossary() if text.casefold() in word.term.casefold())


def words(lesson: str) -> HTML:
    """The words of a lesson, for its notebook. Raises `ValueError` for an unknown lesson."""
    rows = "".join(f"<dt><b>{escape(w.term)}</b></dt><dd>{escape(w.meaning)}</dd>" for w in of_lesson(lesson))
    return HTML(f"<dl>{rows}</dl>")  # type: ignore[no-untyped-call]


def title_of(word: Word) -> str:
    """The lesson that explains a word, in words."""
    return next(f"{one.id} {one.title}" for one in lessons() if one.id == word.lesson)
