"""`minipar predict --layouts`: a file of layouts, predicted row by row."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minipar.plan.layout import Numbers
from minipar.plan.model import model_by_name
from minipar.plan.predict import predict
from minipar.plan.work import Bench

COLUMNS = ("model", "nodes", "dp", "pp", "tp", "zero", "mbs", "grad_acc")
FOUND = ("tok_s_gpu", "gpu_mem_gb", "fits", "reason")


def print_many(path: Path, bench: Bench, as_json: bool) -> None:
    """Print each row of the file with what is predicted for it; raises `ValueError` for a file that cannot be read."""
    rows = list(read_rows(path))
    predicted = [{**row, **predict_row(row, line, path.name, bench)} for line, row in enumerate(rows, start=2)]
    if as_json:
        print(json.dumps(predicted))
        return
    writer = csv.DictWriter(sys.stdout, [*COLUMNS, *FOUND], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(predicted)


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV file with our columns, and perhaps more."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"the layouts {str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"the layouts {str(path)!r} cannot be read: it is not text in UTF-8") from None
    reader = csv.DictReader(text.splitlines())
    if missing := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
        raise ValueError(f"{path.name} has no column {', '.join(missing)}; it needs {','.join(COLUMNS)}")
    yield from reader


def predict_row(row: dict[str, str], line: int, file: str, bench: Bench) -> dict[str, Any]:
    """Tokens a second and GPU, GiB, whether it fits, and if not, why. What cannot exist has no speed and no room."""
    numbers = {}
    for name in COLUMNS[1:]:
        try:
            numbers[name] = int(row[name])
        except (TypeError, ValueError):
            raise ValueError(f"{file}, line {line}: {name}={row[name]!r} is not a whole number") from None
    try:
        model = model_by_name(row["model"])
    except ValueError as error:
        raise ValueError(f"{file}, line {line}: {error}") from None
    dp, pp, tp = numbers["dp"], numbers["pp"], numbers["tp"]
    if dp * pp * tp != numbers["nodes"] * bench.hardware.per_node:
        raise ValueError(
            f"{file}, line {line}: dp={dp} · pp={pp} · tp={tp} is not the "
            f"{numbers['nodes'] * bench.hardware.per_node} GPUs of {numbers['nodes']} nodes"
        )
    layout = Numbers(
        dp,
        pp,
        tp,
        numbers["mbs"],
        numbers["grad_acc"],
        sequence_parallel=tp > 1,
        zero=numbers["zero"],
    )
    if reason := layout.refused(model):
        return {"tok_s_gpu": 0.0, "gpu_mem_gb": float("inf"), "fits": False, "reason": reason}
    found = predict(model, layout, bench)
    needs, room = found.worst.total / 2**30, found.usable / 2**30
    full = f"it needs {needs:.1f} GiB of the {room:.1f} there are" if needs > room else ""
    return {
        "tok_s_gpu": round(found.tokens_per_second, 2),
        "gpu_mem_gb": round(needs, 2),
        "fits": found.fits,
        "reason": found.refused or full,
    }
