"""1,000 draws of every generated question: each key by another computation than the library's, from the text alone."""

import math
import re
from collections.abc import Callable
from functools import cache
from itertools import combinations, pairwise

import pytest

from course.quiz.asked import Choose, GiveNumber
from course.quiz.drawing import ask
from course.quiz.generated import GENERATED, Problem, draw
from course.quiz.prose import for_terminal
from course.quiz.schema import Generated

SEEDS = range(1000)


@cache
def plain(text: str) -> str:
    """A text as a terminal shows it."""
    return for_terminal(text).plain


def of(text: str, *patterns: str) -> list[int]:
    """The whole number at each pattern's ``#``."""
    return [int(re.search(pattern.replace("#", r"(\d+)"), text)[1]) for pattern in patterns]  # type: ignore[index]


def gpipe_bubble(text: str) -> float:
    p, m = of(text, "# equal stages", "# micro-batches")
    return 100 * (p - 1) / (m + p - 1)


def gpipe_overhead(text: str) -> float:
    p, m = of(text, "# equal stages", "# micro-batches")
    return 100 * (p - 1) / m


def micro_batches_needed(text: str) -> float:
    p, percent = of(text, "# equal stages", "at most # %")
    return next(m for m in range(1, 10**4) if (p - 1) * 100 <= percent * (m + p - 1))


def gpipe_speedup(text: str) -> float:
    p, m = of(text, "# equal stages", "# micro-batches")
    return p * m / (m + p - 1)


def naive_bubble(text: str) -> float:
    (p,) = of(text, "^# equal stages")
    return 100 * (1 - 1 / p)


def interleaved_overhead(text: str) -> float:
    p, v, m = of(text, "# ranks", "with # equal stages", "# micro-batches")
    return 100 * (p - 1) / (v * m)


def one_f_one_b_live(text: str) -> float:
    p, m, rank = of(text, "# stages", "# micro-batches", "rank #,")
    return min(m, p - rank)


def gpipe_live(text: str) -> float:
    return of(text, "# micro-batches")[0]


def zero_bubble_idle(text: str) -> float:
    return of(text, "# stages")[0] - 1


def step_time(text: str) -> float:
    p, m, f, b = of(text, "# equal stages", "# micro-batches", "forward takes # ms", "backward # ms")
    return (m + p - 1) * (f + b)


def messages(text: str) -> float:
    p, v, m = of(text, "# ranks", "with # stages", "# micro-batches")
    return 2 * m * (p * v - 1)


def weight_bytes(text: str) -> float:
    return of(text, "# billion")[0] * {"bf16": 2, "float32": 4}[re.search(r"bf16|float32", text)[0]]  # type: ignore[index]


def training_states(text: str) -> float:
    return of(text, "# billion")[0] * 18


def zero_states(text: str) -> float:
    n, d = of(text, "# billion", "on # replicas")
    return n * (2 + 4 + 12 / d)


def block_weights(text: str) -> float:
    (h,) = of(text, "hidden size #")
    return (h * 3 * h + h * h + h * 4 * h + 4 * h * h) / 1000


def border_bytes(text: str) -> float:
    b, s, h = of(text, "has # ×", "× # tokens", "size is #")
    return 2 * b * s * h / 2**20


def all_reduce_bytes(text: str) -> float:
    n, size = of(text, "# ranks", "# MB")
    return sum(size / n for _ in range(2 * (n - 1)))


def all_gather_bytes(text: str) -> float:
    n, size = of(text, "# ranks", "has # MB")
    return sum(size / n for _ in range(n - 1))


def all_reduce_time(text: str) -> float:
    n, size, bandwidth, latency = of(text, "# ranks", "# MB", "# GB/s", "# µs")
    return sum(latency + size * 1e6 / n / (bandwidth * 1e9) * 1e6 for _ in range(2 * (n - 1)))


def column_shape(text: str) -> str:
    rows, columns, n = of(text, r"\[#,", r"\d, #\]", "over # ranks")
    return f"[{rows}, {columns // n}]" if "columns" in text else f"[{rows // n}, {columns}]"


def vocabulary_rows(text: str) -> float:
    v, n = of(text, "of # tokens", "over # ranks")
    return -(-v // n)


def slowest_stage(text: str) -> float:
    costs = [int(found) for found in re.search(r"take ([\d, ]+) ms", text)[1].split(", ")]  # type: ignore[index]
    (stages,) = of(text, "into # stages")

    def worst(cuts: tuple[int, ...]) -> int:
        ends = [0, *cuts, len(costs)]
        return max(sum(costs[a:b]) for a, b in pairwise(ends))

    return min(worst(cuts) for cuts in combinations(range(1, len(costs)), stages - 1))


def unequal_line(text: str) -> float:
    times = [int(found) for found in re.search(r"take ([\d, ]+) ms", text)[1].split(", ")]  # type: ignore[index]
    (m,) = of(text, "# micro-batches")
    ends = [0.0] * len(times)
    for _micro_batch in range(m):  # each starts in a stage when both that and the stage before are done with it
        before = 0.0
        for stage, seconds in enumerate(times):
            ends[stage] = before = max(before, ends[stage]) + seconds
    return ends[-1]


def mean_of_means(text: str) -> float:
    few, many = of(text, "of # tokens with", "and one of # tokens")
    small, large = (int(found) for found in re.findall(r"mean loss of (\d+)", text))
    return sum([small] * few + [large] * many) / (few + many)


def recompute_memory(text: str) -> float:
    edge, inside, samples, m = of(text, "# MiB each", "takes # MiB", "# samples", "in # micro-batches")
    return sum([edge] * samples) + sum([inside] * (samples // m))


def grid(text: str) -> dict[tuple[int, int, int], int]:
    """Global ranks by their coordinates (pp, dp, tp), counted out one by one."""
    pp, dp, tp = of(text, "of pp=#", "dp=#", "tp=#")
    places = [(p, d, t) for p in range(pp) for d in range(dp) for t in range(tp)]
    return {place: rank for rank, place in enumerate(places)}


def rank_at(text: str) -> float:
    asked = text.index("rank is at")
    return grid(text)[tuple(of(text[asked:], "pp=#", "dp=#", "tp=#"))]  # type: ignore[index]


def place_of(text: str) -> str:
    (rank,) = of(text, "global rank #")
    p, d, t = next(place for place, number in grid(text).items() if number == rank)
    return f"pp={p}, dp={d}, tp={t}"


def tensor_group(text: str) -> str:
    ranks = grid(text)
    (rank,) = of(text, "of rank #")
    p, d, _ = next(place for place, number in ranks.items() if number == rank)
    return ", ".join(str(number) for (pp, dd, _), number in ranks.items() if (pp, dd) == (p, d))


def nodes_of_group(text: str) -> float:
    ranks = grid(text)
    (rank,) = of(text, "group of rank #")
    (axis,) = re.findall(r"the (dp|pp) group", text)
    p, d, t = next(place for place, number in ranks.items() if number == rank)
    kept = [at for at in ranks if at[2] == t and (at[0] == p if axis == "dp" else at[1] == d)]
    return len({ranks[at] // 8 for at in kept})


def layout_bubble(text: str) -> float:
    batch, dp, pp, size = of(text, "has # samples", "dp=#", "pp=#", "micro-batches of #")
    return 100 * (pp - 1) * dp * size / batch


def gpu_hours(text: str) -> float:
    speed, billions = of(text.replace(",", ""), "; # tokens a second", "do # billion")
    return billions * 10**9 / (3600 * speed)


def mfu(text: str) -> float:
    operations, peak, speed = of(text.replace(",", ""), "take # GFLOP", "peak of # TFLOP", "through # tokens")
    return operations * speed / (10 * peak)


def split_product_bytes(text: str) -> float:
    """Every part of the summed tensor travels round the ring twice, one link less than there are ranks."""
    batch, wide, out, ranks = of(text, r"x is \[#, ", r"w is \[#, ", r", #\], cut by", "over # ranks")
    columns = out if "its rows" in text.replace("*", "") else wide
    part = 4 * batch * columns / ranks / 1024
    return sum(part for _step in range(2) for _rank in range(ranks - 1))


def sums_of_a_model(text: str) -> float:
    (layers,) = of(text, "has # blocks")
    directions = ["forward", "backward"] if "together" in text else ["forward"]
    return sum(1 for _layer in range(layers) for _pair in ("attention", "feed-forward") for _direction in directions)


def heads_of_a_rank(text: str) -> float:
    heads, size, ranks = of(text, "with # heads", "of # features", "over # ranks")
    here = [head for head in range(heads) if head * ranks // heads == 0]
    return sum(size for _head in here for _what in "qkv")


INDEPENDENT: dict[str, Callable[[str], float | str]] = {
    fn.__name__.replace("_", "-"): fn
    for fn in (gpipe_bubble, gpipe_overhead, micro_batches_needed, gpipe_speedup, naive_bubble, interleaved_overhead,
               one_f_one_b_live, gpipe_live, zero_bubble_idle, step_time, messages, weight_bytes, training_states,
               zero_states, block_weights, border_bytes, all_reduce_bytes, all_gather_bytes, all_reduce_time,
               column_shape, vocabulary_rows, slowest_stage, unequal_line, mean_of_means, recompute_memory,
               rank_at, place_of, tensor_group, nodes_of_group,
               layout_bubble, gpu_hours, mfu,
               split_product_bytes, sums_of_a_model, heads_of_a_rank)
}  # fmt: skip


def test_every_generated_question_has_its_independent_computation() -> None:
    assert set(INDEPENDENT) == set(GENERATED)
    assert len(GENERATED) >= 12


@pytest.mark.parametrize("name", GENERATED)
def test_a_thousand_draws_have_the_right_key_and_choices_that_differ(name: str) -> None:
    texts = set()
    for seed in SEEDS:
        problem = draw(GENERATED[name], seed, name)
        text = plain(problem.text)
        key, wanted = problem.key, INDEPENDENT[name](text)
        if isinstance(key, str):
            assert plain(key) == wanted, text
        else:
            assert key == pytest.approx(wanted, rel=1e-9), text  # type: ignore[arg-type]
        shown = [problem.shown(value) for value in (key, *(d.value for d in problem.distractors))]
        assert 3 <= len(shown) == len(set(shown)) <= 4, text
        assert len({d.feedback for d in problem.distractors}) == len(problem.distractors), text
        parts = (problem.text, problem.solution, *(d.feedback for d in problem.distractors))
        for part in parts if seed < 100 else ():  # they differ in their numbers alone
            assert plain(part).strip()
            assert "{" not in plain(part), part
        texts.add(text)
    assert len(texts) >= 20, "draws differ"


@pytest.mark.parametrize("name", GENERATED)
def test_as_it_is_asked_exactly_one_answer_is_right(name: str) -> None:
    for seed in range(60):
        question = ask(Generated(id="q", kind="generated", function=name), seed)
        assert isinstance(question, Choose)
        assert sum(option.right for option in question.options) == 1
        assert len({option.text for option in question.options}) == len(question.options)
        (right,) = (option.text for option in question.options if option.right)
        assert question.solution is not None
        assert plain(right) in plain(question.solution)


@pytest.mark.parametrize(
    "name", [name for name in GENERATED if not isinstance(draw(GENERATED[name], 0, name).key, str)]
)
def test_asked_for_the_number_a_mistake_is_never_taken_for_the_key(name: str) -> None:
    for seed in range(200):
        question = ask(Generated(id="q", kind="generated", function=name, ask="number"), seed)
        assert isinstance(question, GiveNumber)
        assert question.tolerance <= max(0.1, 0.05 * abs(question.key))
        for mistake in question.mistakes:
            assert abs(mistake.value - question.key) > 2 * question.tolerance
        rounded = round(question.key, 1)
        assert abs(rounded - question.key) <= max(question.tolerance, 1e-9), "what is rounded to one digit counts"


def test_a_function_whose_mistakes_never_differ_is_found_out() -> None:
    with pytest.raises(RuntimeError, match="no two wrong choices"):
        draw(lambda dice: Problem("?", 1.0, (), "!"), 0, "none")


def test_the_tolerance_is_a_unit_of_the_last_place_or_nothing() -> None:
    assert Problem("?", 4.0, (), "").tolerance == 0
    assert Problem("?", 4.25, (), "", decimals=1).tolerance == pytest.approx(0.1)
    assert math.isclose(Problem("?", 4.2, (), "").tolerance, 1)
