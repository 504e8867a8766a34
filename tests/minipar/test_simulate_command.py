import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from minipar.cli import app
from minipar.commands.simulate import read_costs
from minipar.pipeline import Action, interleaved
from minipar.pipeline.names import NAMES


def said(*options: str, code: int = 0) -> str:
    """What `minipar simulate` prints, however its lines are broken."""
    result = CliRunner().invoke(app, ["simulate", *options])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def simulated(*options: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(said(*options, "--json"))
    return facts


def sized(name: str, ranks: int, micro_batches: int) -> tuple[str, ...]:
    return "--schedule", name, "--stages", str(ranks), "--micro-batches", str(micro_batches)


def drawn(facts: dict[str, Any]) -> list[str]:
    """Each rank's row of whole units of time."""
    rows = [["."] * round(facts["duration"]) for _ in facts["ranks"]]
    for row, spans in zip(rows, facts["ranks"], strict=True):
        for span in spans:
            length = round(span["end"]) - round(span["start"])
            row[round(span["start"]) : round(span["end"])] = [f"{span['kind']}{span['micro_batch']}"] * length
    return [" ".join(f"{word:>2}" for word in row) for row in rows]


def test_gpipe_is_as_drawn_by_hand() -> None:
    facts = simulated(*sized("gpipe", 2, 2), "--costs", "F=1,B=2")
    assert drawn(facts) == [
        "F0 F1  .  .  . B0 B0 B1 B1",
        " . F0 F1 B0 B0 B1 B1  .  .",
    ]
    assert facts["ranks"][1][2] == {"kind": "B", "stage": 1, "micro_batch": 0, "start": 3, "end": 5}
    numbers = {key: value for key, value in facts.items() if key != "ranks"}
    assert numbers == {
        "schedule": "GPipe",
        "cost": 9,
        "ideal": 6,
        "bubble_rate": pytest.approx(1 / 3),
        "bubble_of_total": pytest.approx(1 / 3),
        "bubble_over_ideal": pytest.approx(1 / 2),
        "duration": 9,
        "peak_live": 2,
        "peak_live_per_rank": [2, 2],
        "peak_held": 2,
        "peak_backlog": 0,
        "peak_backlog_per_rank": [0, 0],
    }


def test_a_split_backward_is_as_drawn_by_hand() -> None:
    facts = simulated(*sized("zb-h1", 2, 2))
    assert drawn(facts) == [
        "F0 F1  . I0 W0 I1 W1",
        " . F0 I0 F1 I1 W0 W1",
    ]
    assert (facts["cost"], facts["ideal"], facts["duration"]) == (7, 6, 7)
    assert facts["bubble_of_total"] == pytest.approx(2 / 14)
    assert facts["bubble_over_ideal"] == pytest.approx(2 / 12)
    assert facts["peak_live_per_rank"] == [2, 1]
    assert facts["peak_backlog_per_rank"] == [1, 2]
    assert facts["peak_held"] == 2


def test_the_cost_is_the_longest_span_of_a_rank_and_not_the_whole_duration() -> None:
    facts = simulated(*sized("zb-v", 4, 8))
    assert facts["cost"] == facts["ideal"] == 48
    assert facts["bubble_rate"] == 0
    assert facts["duration"] == 51


def test_a_message_takes_its_time() -> None:
    facts = simulated(*sized("gpipe", 2, 2), "--costs", "F=1, B=1, send=2")
    assert drawn(facts) == [
        "F0 F1  .  .  .  .  .  . B0 B1",
        " .  .  . F0 F1 B0 B1  .  .  .",
    ]


def test_live_micro_batches_are_whole_ones_where_a_rank_has_several_stages() -> None:
    facts = simulated(*sized("interleaved", 4, 8), "--virtual", "3")
    assert facts["peak_live_per_rank"] == [peak / 3 for peak in interleaved(4, 8, 3).peak_live]
    assert facts["peak_live"] == pytest.approx(((3 - 1) * 4 + 2 * 3 + 1) / 3)
    assert simulated(*sized("zb-v", 4, 8))["peak_live"] == 4


@pytest.mark.parametrize("name", NAMES)
def test_every_published_schedule_is_simulated_and_its_spans_fill_its_numbers(name: str) -> None:
    facts = simulated(*sized(name, 4, 8))
    spans = [span for row in facts["ranks"] for span in row]
    busy = [sum(span["end"] - span["start"] for span in row) for row in facts["ranks"]]
    assert len(facts["ranks"]) == 4
    assert max(busy) == facts["ideal"] <= facts["cost"] <= facts["duration"]
    assert max(row[-1]["end"] - row[0]["start"] for row in facts["ranks"]) == facts["cost"]
    assert facts["duration"] == max(span["end"] for span in spans)
    assert facts["bubble_of_total"] == pytest.approx(1 - sum(busy) / 4 / facts["duration"])
    assert facts["bubble_over_ideal"] == pytest.approx(4 * facts["duration"] / sum(busy) - 1)
    assert max(facts["peak_live_per_rank"]) == facts["peak_live"]


def test_a_name_may_be_written_as_in_the_papers() -> None:
    assert simulated(*sized("1F1B", 2, 3)) == simulated(*sized("1f1b", 2, 3))


def test_the_text_shows_the_picture_and_the_numbers() -> None:
    text = said(*sized("zb-h1", 2, 2), "--costs", "send=0")
    assert "ZB-H1: idle 14 % of the time rank 0 F0" in text
    for words in (
        "costs of a micro-batch in a stage F 1, I 1, W 1, send 0",
        "bubble: idle time over all time 14.3 %",
        "bubble: idle time over ideal time 16.7 %",
        "last end 7",
        "ideal: the most work that a rank has 6",
        "bubble rate: idle share of the cost 14.3 %",
        "live micro-batches at most, by rank 2 1",
        "weight gradients that wait at most, by rank 1 2",
    ):
        assert words in text
    assert "whole micro-batches" not in text


def test_the_text_tells_stages_from_whole_micro_batches() -> None:
    text = said(*sized("zb-v", 4, 8))
    assert "live micro-batches at most, stage by stage, by rank 8 8 8 8" in text
    assert "the same in whole micro-batches 4 4 4 4" in text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.txt"
    path.write_text("# one line a rank\n\nF0 F1 B0 B1  # the first\n   \nF0 B0 F1 B1\n")
    return path


def test_a_file_has_a_line_a_rank(file: Path) -> None:
    facts = simulated("--schedule", str(file), "--costs", "F=1,B=2")
    assert facts["schedule"] == "mine.txt"
    assert drawn(facts) == [
        "F0 F1  .  . B0 B0  . B1 B1",
        " . F0 B0 B0 F1 B1 B1  .  .",
    ]
    assert facts == simulated(*sized(str(file), 2, 2), "--virtual", "1", "--costs", "F=1,B=2")


def test_a_file_may_give_a_rank_several_stages(tmp_path: Path) -> None:
    path = tmp_path / "vee"
    path.write_text("F0@0 F0@3 B0@3 B0@0\nF0@1 F0@2 B0@2 B0@1")
    facts = simulated("--schedule", str(path))
    assert facts["peak_live_per_rank"] == [1, 1]
    assert facts["duration"] == 4 + 8
    assert [span["stage"] for span in facts["ranks"][1]] == [1, 2, 2, 1]


@pytest.mark.parametrize(
    ("option", "number", "has"), [("--stages", "3", "2"), ("--micro-batches", "1", "2"), ("--virtual", "2", "1")]
)
def test_an_option_that_contradicts_the_file_is_an_error(file: Path, option: str, number: str, has: str) -> None:
    text = said("--schedule", str(file), option, number, code=1)
    assert f"{option} is {number}, but" in text
    assert f"it is {has}" in text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("F0 B0\nF0 X0", "rank 1: 'X0' is not an action"),
        ("F0 B0\nF0", "B0 of stage 1 is missing"),
        ("B0 F0", "never finishes"),
        ("# nothing", "does nothing"),
        ("", "does nothing"),
        ("F1000000000 B1000000000", "is missing"),
        (b"\xff\xfe", "not text in UTF-8"),
    ],
)
def test_a_file_that_is_no_schedule_is_a_clear_error(tmp_path: Path, content: str | bytes, says: str) -> None:
    path = tmp_path / "wrong"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert says in said("--schedule", str(path), code=1)


def test_a_folder_is_no_schedule(tmp_path: Path) -> None:
    assert "cannot be read: Is a directory" in said("--schedule", str(tmp_path), code=1)


@pytest.mark.parametrize(
    ("text", "takes"),
    [
        ("F=1", (1, 2, 1, 1)),
        ("B=2", (1, 2, 1, 1)),
        ("F=1,B=3", (1, 3, 1.5, 1.5)),
        ("I=2,W=0.5", (1, 2.5, 2, 0.5)),
        ("I=2", (1, 3, 2, 1)),
        ("F=2,B=9,I=3,W=4", (2, 9, 3, 4)),
        (" F = 1e-3 , W=0 ", (0.001, 1, 1, 0)),
    ],
)
def test_costs_that_are_left_out_follow_from_the_others(text: str, takes: tuple[float, ...]) -> None:
    costs = read_costs(text)
    actions = Action("F", 0, 0), Action("B", 0, 0), Action("I", 0, 0), Action("W", 0, 0)
    assert tuple(map(costs.of, actions)) == takes
    assert costs.between(0, 1) == 0


@pytest.mark.parametrize(
    ("costs", "says"),
    [
        ("X=1", "'X' is not one of F, B, I, W, send"),
        ("f=1", "'f' is not one of"),
        ("F=1,", "'' is not one of"),
        ("", "write for example F=1,I=1,W=1,send=0"),
        ("F", "'F' has no number; write one, as in F=1.5"),
        ("F=", "'F=' has no number"),
        ("send=fast", "'send=fast' has no number"),
        ("F=-1", "F=-1 is no length of time; a cost is a number of at least 0"),
        ("F=nan", "is no length of time"),
        ("W=inf", "is no length of time"),
        ("F=1,F=2", "says twice what F is"),
    ],
)
def test_wrong_costs_are_a_sentence(costs: str, says: str) -> None:
    assert says in said(*sized("gpipe", 2, 2), "--costs", costs, code=1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--schedule", "gpipe"), "--schedule gpipe needs --stages and --micro-batches"),
        (("--schedule", "gpipe", "--stages", "2"), "needs --stages and --micro-batches"),
        (sized("gpipe", 0, 2), "at least 1"),
        (sized("gpipe", 2, -1), "at least 1"),
        (sized("zb-v", 0, 2), "at least 1"),
        (sized("nosuch", 2, 2), "schedule 'nosuch' is not a file, nor auto, nor one of naive, gpipe, 1f1b"),
        ((*sized("1f1b", 2, 2), "--virtual", "2"), "1f1b has 1 stage a rank, not 2"),
        ((*sized("interleaved", 2, 2), "--virtual", "0"), "at least 1"),
        (sized("auto", 2, 2), "--schedule auto needs --memory-limit"),
        ((*sized("gpipe", 4, 8), "--memory-limit", "4"), "its room is for 4"),
        ((*sized("zb-v", 4, 8), "--memory-limit", "3.5"), "live micro-batches of one of its 2 stages each"),
        ((*sized("gpipe", 4, 8), "--memory-limit", "0"), "--memory-limit 0 leaves no room"),
        ((*sized("gpipe", 4, 8), "--memory-limit", "nan"), "--memory-limit nan leaves no room"),
    ],
)
def test_what_cannot_be_simulated_is_a_sentence(options: tuple[str, ...], says: str) -> None:
    assert says in said(*options, code=1)


def test_a_memory_limit_that_is_kept_changes_nothing() -> None:
    assert simulated(*sized("1f1b", 4, 8), "--memory-limit", "4") == simulated(*sized("1f1b", 4, 8))
    assert simulated(*sized("zb-v", 4, 8), "--memory-limit", "4")["peak_live"] == 4


def test_auto_keeps_the_memory_limit_and_is_no_worse_than_what_is_published() -> None:
    pytest.importorskip("minipar.pipeline.auto")
    costs = ("--costs", "F=2,I=3,W=1,send=0.5")
    found = simulated(*sized("auto", 4, 8), *costs, "--memory-limit", "4")
    assert found["peak_live"] <= 4
    assert len(found["ranks"]) == 4
    assert found["cost"] <= min(simulated(*sized(name, 4, 8), *costs)["cost"] for name in ("1f1b", "zb-h1"))
    assert "--virtual is 2, but in auto it is 1" in said(
        *sized("auto", 2, 2), "--memory-limit", "4", "--virtual", "2", code=1
    )
    assert "room for 1 live" in said(*sized("auto", 2, 2), "--memory-limit", "0.5", code=1)


def test_the_picture_is_written_and_brings_its_colours(tmp_path: Path) -> None:
    path = tmp_path / "zb.svg"
    said(*sized("zb-v", 2, 4), "--svg", str(path))
    words = [text.text for text in ElementTree.parse(path).getroot().iter("{http://www.w3.org/2000/svg}text")]
    assert "ZB-V: 2 ranks, 4 micro-batches" in words
    assert "weight gradient" in words
    assert "prefers-color-scheme:dark" in path.read_text(encoding="utf-8")


def test_the_trace_is_written_a_unit_a_second(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    facts = simulated(*sized("1f1b", 2, 2), "--trace", str(path))
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    assert len(events) == 8
    assert max(event["ts"] + event["dur"] for event in events) == pytest.approx(facts["duration"] * 1e6)
    first = next(event for event in events if event["tid"] == 1)
    assert (first["name"], first["ts"], first["dur"]) == ("F0", 1e6, 1e6)


@pytest.mark.parametrize("option", ["--svg", "--trace"])
def test_a_path_that_cannot_be_written_is_an_error_and_nothing_else_is_printed(tmp_path: Path, option: str) -> None:
    arguments = ["simulate", *sized("gpipe", 2, 2), "--json", option, str(tmp_path / "no" / "folder")]
    finished = subprocess.run([sys.executable, "-m", "minipar.cli", *arguments], capture_output=True, text=True)
    assert finished.returncode == 1
    assert "cannot be written: No such file or directory" in " ".join(finished.stderr.split())
    assert "Traceback" not in finished.stderr
    assert finished.stdout == ""


def test_a_large_case_is_fast() -> None:
    began = time.process_time()  # this process's own time, however busy the machine is
    facts = simulated(*sized("1f1b", 32, 1000))
    assert time.process_time() - began < 6
    assert facts["bubble_of_total"] == pytest.approx(31 / 1031)
    assert sum(map(len, facts["ranks"])) == 64_000
