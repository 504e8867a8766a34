"""Published measurements of training steps as models, layouts and seconds, and what their sources leave out."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from minipar.plan import Bench, Model, Numbers, model_by_name, predict
from minipar.plan.fit import Measured
from minipar.plan.work import block
from minipar.recompute import Recompute

DATA = Path(__file__).parents[2] / "data" / "published"
NODE = 8
"""GPUs of every node here."""


class Row(NamedTuple):
    """A step that was measured: the seconds it took."""

    name: str
    model: Model
    layout: Numbers
    seconds: float

    def error(self, bench: Bench) -> float:
        """Predicted over measured, less 1."""
        return predict(self.model, self.layout, bench).step_seconds / self.seconds - 1

    def measured(self, weight: float = 1.0) -> Measured:
        """As `fit` takes it."""
        return Measured(lambda bench: predict(self.model, self.layout, bench).step_seconds, self.seconds, weight)


class Layer(NamedTuple):
    """One block's forward and backward that were measured, in seconds."""

    name: str
    model: Model
    layout: Numbers
    forward: float
    backward: float

    def measured(self, weight: float) -> list[Measured]:
        """Both directions as `fit` takes them."""
        return [
            Measured(lambda bench: block(self.model, self.layout, bench).forward.total, self.forward, weight),
            Measured(lambda bench: block(self.model, self.layout, bench).backward.total, self.backward, weight),
        ]


class Run(NamedTuple):
    """A run of the playbook's grid. tokens: that a GPU got through in a second, and memory: GiB, where it is `ok`."""

    size: str
    nodes: int
    model: Model
    layout: Numbers
    ok: bool
    tokens: float
    memory: float

    @property
    def seconds(self) -> float:
        """Seconds of a step."""
        return self.layout.batch * self.model.sequence / (self.tokens * self.nodes * NODE)

    def measured(self) -> Measured:
        """As `fit` takes it."""
        return Measured(lambda bench: predict(self.model, self.layout, bench).step_seconds, self.seconds)


def table(name: str) -> list[dict[str, Any]]:
    """The rows of a JSON file."""
    return json.loads((DATA / f"{name}.json").read_text())  # type: ignore[no-any-return]


def _gpt(row: dict[str, Any]) -> Model:
    return Model(row["layers"], row["hidden"], row["heads"], row.get("vocab", 51200), row.get("seq_len", 2048))


def operations(model: Model, batch: int) -> float:
    """Operations of a step as Narayanan et al. 2021 count them in their TFLOP/s, with recompute (Eq. 3)."""
    s, n, h, v = model.sequence, model.layers, model.hidden, model.vocabulary
    return 96 * batch * s * n * h**2 * (1 + s / (6 * h) + v / (16 * n * h))


TABLE_1 = {1.7: (16, 1), 7.5: (16, 1), 39.1: (4, 1), 145.6: (2, 2), 529.6: (1, 3)}
"""Samples of a micro-batch and stages a rank, which Table 1 leaves out, by billions of weights.

Source: NVIDIA/Megatron-LM, examples/sc21/run_table_1.sh, which has each model's MBS and layers of a virtual stage.
"""


def table_1() -> list[Row]:
    """Narayanan et al. 2021, Table 1: full recompute; dp is what pp and tp leave."""
    rows = []
    for row in table("megatron2021_table1"):
        micro_batch, virtual = TABLE_1[row["params_b"]]
        layout = _megatron(row["gpus"], row["pp"], row["tp"], row["batch"], micro_batch, virtual)
        model = _gpt(row)
        seconds = operations(model, row["batch"]) / (row["tflops_per_gpu"] * 1e12 * row["gpus"])
        rows.append(Row(f"2021 table 1, {row['params_b']}B", model, layout, seconds))
    return rows


def table_2() -> list[Row]:
    """Narayanan et al. 2021, Table 2, the rows of PTD-P: a model of 175B on 96 ranks and one of 530B on 280.

    How a replica's ranks are split is in §5.2: tp=8. How many stages a rank has is not said; here it is as in Table 1,
    where the 530B has 3 and the 145B, which has the same blocks as the 175B, 2.
    """
    rows = []
    for row in table("megatron2021_table2"):
        if row["scheme"] != "PTD-P":
            continue
        name, virtual = {174.6: ("gpt3-175b", 2), 529.6: ("gpt-530b", 3)}[row["params_b"]]
        model = model_by_name(name)
        pp = row["model_parallel"] // 8
        layout = _megatron(row["gpus"], pp, 8, row["batch"], row["microbatch"], virtual)
        seconds = operations(model, row["batch"]) / (row["tflops_per_gpu"] * 1e12 * row["gpus"])
        rows.append(Row(f"2021 table 2, {name} on {row['gpus']}", model, layout, seconds))
    return rows


def _megatron(gpus: int, pp: int, tp: int, batch: int, micro_batch: int, virtual: int) -> Numbers:
    dp = gpus // pp // tp
    schedule = "interleaved" if virtual > 1 else "1f1b"
    return Numbers(dp, pp, tp, micro_batch, batch // dp // micro_batch, schedule, virtual, recompute=Recompute.FULL)


def table_3() -> dict[str, tuple[Model, Numbers]]:
    """Korthikanti et al. 2022, Table 3: the models of their measurements, and their layouts but for what saves memory.

    Each is one replica.
    """
    found = {}
    for row in table("korthikanti2022_table3"):
        virtual = row["interleave_v"]
        micro_batches = row["global_batch"] // row["micro_batch"]
        schedule = "interleaved" if virtual > 1 else "1f1b"
        layout = Numbers(1, row["pp"], row["tp"], row["micro_batch"], micro_batches, schedule, virtual)
        found[row["model"]] = _gpt(row), layout
    return found


def table_4() -> list[Layer]:
    """Korthikanti et al. 2022, Table 4: one block of the 22B model."""
    model, plain = table_3()["22B"]
    how = {
        "Baseline no recompute": plain,
        "Sequence Parallelism": plain._replace(sequence_parallel=True),
        "Baseline with recompute": plain._replace(recompute=Recompute.FULL),
        "Selective Recompute": plain._replace(recompute=Recompute.SELECTIVE),
        "Selective + Sequence": plain._replace(recompute=Recompute.SELECTIVE, sequence_parallel=True),
    }
    return [
        Layer(row["experiment"], model, how[row["experiment"]], row["fwd_ms"] / 1e3, row["bwd_ms"] / 1e3)
        for row in table("korthikanti2022_table4")
    ]


def table_5() -> list[Row]:
    """Korthikanti et al. 2022, Table 5: full recompute, and selective recompute with sequence parallelism."""
    rows, models = [], table_3()
    for row in table("korthikanti2022_table5"):
        model, plain = models[row["model"]]
        full = plain._replace(recompute=Recompute.FULL)
        present = plain._replace(recompute=Recompute.SELECTIVE, sequence_parallel=True)
        rows.append(Row(f"2022 table 5, {row['model']} full", model, full, row["iter_s_full_recompute"]))
        rows.append(Row(f"2022 table 5, {row['model']} selective", model, present, row["iter_s_present_work"]))
    return rows


def core() -> list[Row]:
    """Megatron-Core on H100, its table of models.

    It leaves out the rest of the layout. Here: micro-batches of one sample, the distributed optimizer (ZeRO-1),
    sequence parallelism where tp > 1, 1F1B, no recompute; its TFLOP/s count no recompute and all of attention's scores.
    """
    rows = []
    for row in table("megatron_core_h100"):
        if "layers" not in row:
            continue
        model, dp, tp = _gpt(row), row["dp"], row["tp"]
        layout = Numbers(dp, row["pp"], tp, 1, row["batch"] // dp, sequence_parallel=tp > 1, zero=1)
        done = row["batch"] * model.sequence * model.training_flops
        rows.append(Row(f"core, {row['model']}", model, layout, done / (row["tflops_per_gpu"] * 1e12 * row["gpus"])))
    return rows


@cache
def grid() -> tuple[Run, ...]:
    """The playbook's runs whose batch is what it says: sequence parallelism where tp > 1, 1F1B, no recompute."""
    runs = []
    with (DATA / "ultrascale_grid_1B_8B.csv").open() as file:
        for row in csv.DictReader(file):
            if row["gbs_consistent"] != "True":
                continue
            dp, pp, tp, size, number, zero = (int(row[n]) for n in ("dp", "pp", "tp", "mbs", "grad_acc", "zero"))
            layout = Numbers(dp, pp, tp, size, number, sequence_parallel=tp > 1, zero=zero)
            model = model_by_name(f"playbook-{row['model'].lower()}")
            figures = float(row["tok_s_gpu"] or 0), float(row["gpu_mem_gb"] or 0)
            runs.append(Run(row["model"], int(row["nodes"]), model, layout, row["ok"] == "True", *figures))
    return tuple(runs)
