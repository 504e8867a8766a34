"""What lesson 01 asks and shows is what the library plans and what a real model keeps."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.graph import saved_tensors_hooks

from course.exercises.lesson01 import bytes_of_a_block, most_blocks
from course.figures.lesson01 import predict_activations, predict_replicas, predict_states, predicted_bytes
from course.progress import Progress
from minipar import Mesh
from minipar.model import GPT, GPTConfig
from minipar.model.gpt import token_loss
from minipar.recompute import Recompute

GIB = 2**30


def answer(widget: object, text: str = "16") -> list[str]:
    widget._handle_custom_msg({"prediction": text}, [])  # type: ignore[attr-defined]
    sentences: list[str] = widget.outcome["sentences"]  # type: ignore[attr-defined]
    return sentences


def test_eight_billion_parameters_take_eight_times_their_weights() -> None:
    assert answer(predict_states())[0] == "You said 16 GB; it is 128.5 GB."
    (event,) = Progress().events("prediction", "01-memory/states")
    assert event.detail["truth"] == pytest.approx(16 * 8.03, rel=1e-3)


def test_replicas_change_nothing() -> None:
    widget = predict_replicas()
    assert "188 GiB" in widget.question
    assert answer(widget, "3")[0] == "You said 3 GiB; it is 188 GiB."


def test_one_sequence_keeps_more_than_the_weights() -> None:
    said = answer(predict_activations(), "1")
    assert said[0] == "You said 1 GiB; it is 43.5 GiB."
    assert "32 blocks keeps 1,393 MiB" in said[1]
    assert "2.9 times the weights" in said[1]


@pytest.mark.parametrize("again", Recompute)
@given(
    samples=st.integers(1, 3), layers=st.integers(1, 3), hidden=st.sampled_from([8, 24]), vocabulary=st.integers(2, 99)
)
@settings(max_examples=5, deadline=None)
def test_a_model_keeps_what_is_predicted_and_its_loss(
    again: Recompute, samples: int, layers: int, hidden: int, vocabulary: int
) -> None:
    config = GPTConfig(vocabulary=vocabulary, sequence=16, hidden=hidden, layers=layers, heads=2)
    model = GPT(config, Mesh(), recompute=again)
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def put_aside(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    tokens = torch.randint(vocabulary, (samples, 17))
    with saved_tensors_hooks(put_aside, lambda tensor: tensor):
        loss = token_loss(config, Mesh())(model(tokens[:, :-1]), tokens[:, 1:])
    measured = sum(size for place, size in kept.items() if place not in weights)
    assert measured - loss.nbytes == predicted_bytes(config, samples, again)


def test_a_block_without_fused_attention_keeps_what_korthikanti_says() -> None:
    s, b, h, a = 2048, 3, 1024, 16
    assert bytes_of_a_block(s, b, h, a) == 16 * 12 * h**2 + s * b * h * (34 + 5 * a * s / h)
    assert most_blocks(int(7.5 * bytes_of_a_block(s, b, h, a)), s, b, h, a) == 7
