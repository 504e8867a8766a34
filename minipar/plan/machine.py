"""A machine as `minipar profile` measured it: hardware and constants to predict with, and the times behind them."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from minipar.plan.hardware import Hardware
from minipar.plan.layout import Numbers
from minipar.plan.model import Model
from minipar.plan.own import MINIPAR
from minipar.plan.software import Range, Software
from minipar.plan.work import Bench

THIS_MACHINE = "this-machine"
LARGEST = 1 << 22  # bytes of a file that is read


class Layer(NamedTuple):
    """What one micro-batch cost in a layer of a model: seconds, and bytes kept for the backward.

    name: ``"block"``, or ``"ends"``: the embedding, the head and the loss together. backward: in one piece. inputs and
    weights: in two, the gradient of what went in, and that of the weights (Qi et al. 2024, §2).
    """

    name: str
    model: Model
    tp: int
    micro_batch: int
    forward: float
    backward: float
    inputs: float
    weights: float
    kept: float


class Steps(NamedTuple):
    """What whole steps of a layout took: seconds of the median one."""

    model: Model
    layout: Numbers
    seconds: float


@dataclass(frozen=True)
class Machine:
    """What a machine can do, measured with so many `ranks` at work at once, which share it.

    ahead: the host runs ahead of the device (a GPU). constants: those of `minipar.plan.software.Software` that were
    fitted to the times, by name. calibrated: on what.
    """

    hardware: Hardware
    ahead: bool
    constants: dict[str, float]
    calibrated: Range
    layers: tuple[Layer, ...]
    steps: tuple[Steps, ...]

    def __post_init__(self) -> None:
        """Refuse constants that none fitted: they are above 0."""
        for name, value in self.constants.items():
            if not 0 < value < math.inf:
                raise ValueError(f"{name}={value}; a constant is a finite number above 0")

    @property
    def software(self) -> Software:
        """`minipar train` on this machine."""
        constants: dict[str, Any] = {**self.constants, "ahead": self.ahead, "calibrated": self.calibrated}
        return replace(MINIPAR, source=self.hardware.source, **constants)

    @property
    def bench(self) -> Bench:
        """What to predict with."""
        return Bench(self.hardware, self.software)


def usual_path() -> Path:
    """Where `minipar profile` leaves what it finds, in the user's data folder."""
    import platformdirs

    return Path(platformdirs.user_data_dir("minipar", appauthor=False)) / f"{THIS_MACHINE}.json"


def save(machine: Machine, path: Path) -> None:
    """Write it as JSON, whole or not at all. Raises `ValueError` where it cannot be written."""
    from pydantic import TypeAdapter

    text = TypeAdapter(Machine).dump_json(machine, indent=1) + b"\n"
    begun = path.with_name(path.name + ".writing")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        begun.write_bytes(text)
        os.replace(begun, path)
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be written: {error.strerror}") from None


def load(path: Path) -> Machine:
    """Read what `save` wrote; raises `ValueError` that says what is wrong with any other file."""
    from pydantic import TypeAdapter, ValidationError  # they take a while to import, and most plans need none

    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"{str(path)!r} is larger than anything that `minipar profile` writes")
        text = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"there is no {str(path)!r}: run `minipar profile` first") from None
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    try:
        machine: Machine = TypeAdapter(Machine).validate_json(text)
        _ = machine.software  # it raises for a constant that there is not
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ValueError(f"{str(path)!r} is not what `minipar profile` writes: {where}: {first['msg']}") from None
    except TypeError as error:
        raise ValueError(f"{str(path)!r} is not what `minipar profile` writes: {error}") from None
    return machine
