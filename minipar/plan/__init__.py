"""Predict what a layout takes, and find the best: from sizes and constants alone, with no rank and no GPU."""

from minipar.plan.generations import SOFTWARE, software_by_name
from minipar.plan.hardware import HARDWARE, Hardware, Link, hardware_by_name
from minipar.plan.layout import Numbers
from minipar.plan.memory import Memory, memory
from minipar.plan.model import MODELS, Model, model_by_name
from minipar.plan.predict import Prediction, predict
from minipar.plan.search import Found, Refusal, landscape, search
from minipar.plan.software import Software
from minipar.plan.space import Space
from minipar.plan.time import StepTime, step_time
from minipar.plan.work import Bench

__all__ = [
    "HARDWARE",
    "MODELS",
    "SOFTWARE",
    "Bench",
    "Found",
    "Hardware",
    "Link",
    "Memory",
    "Model",
    "Numbers",
    "Prediction",
    "Refusal",
    "Software",
    "Space",
    "StepTime",
    "hardware_by_name",
    "landscape",
    "memory",
    "model_by_name",
    "predict",
    "search",
    "software_by_name",
    "step_time",
]
