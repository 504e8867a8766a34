from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import minipar
from minipar import Mesh
from minipar.manifest import Cut, Entry, Section, gather, load, manifest
from minipar.model import GPT, GPTConfig
from minipar.pipeline import even_cuts
from minipar.tensor import ColumnParallelLinear, RowParallelLinear

parts_and_sections = st.integers(1, 5).flatmap(
    lambda parts: st.tuples(
        st.just(parts), st.lists(st.integers(1, 4).map(lambda n: n * parts), min_size=1, max_size=4)
    )
)


@given(parts_and_sections, st.lists(st.integers(1, 3), max_size=3), st.data())
def test_parts_join_to_the_whole_and_have_an_equal_share_of_each_section(
    cut: tuple[int, list[int]], others: list[int], data: st.DataObject
) -> None:
    parts, sections = cut
    dim = data.draw(st.integers(-len(others) - 1, len(others)))
    shape = list(others)
    shape.insert(dim % (len(others) + 1), sum(sections))
    whole = torch.arange(torch.Size(shape).numel()).reshape(shape)
    taken = [Cut(dim, tuple(map(Section, sections))).take(whole, part, parts) for part in range(parts)]
    assert torch.equal(Cut(dim, tuple(map(Section, sections))).join(taken), whole)
    start = 0
    for length in sections:
        share = length // parts
        for part, piece in enumerate(taken):
            here = piece.narrow(dim, start // parts, share)
            assert torch.equal(here, whole.narrow(dim, start + part * share, share))
        start += length


def test_a_fused_matrix_is_cut_in_each_of_its_sections() -> None:
    cut = Cut(0, (Section(4), Section(4), Section(2)))
    assert cut.take(torch.arange(10), rank=1, ranks=2).tolist() == [2, 3, 6, 7, 9]


def test_a_part_shares_no_memory_with_the_whole() -> None:
    whole = torch.zeros(4, 4)
    Cut(0, (Section(4),)).take(whole, 0, 1).fill_(1)
    assert not whole.any()


@given(st.integers(2, 5), st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_a_section_that_does_not_divide_is_refused_by_its_length(parts: int, sections: list[int]) -> None:
    cut, whole = Cut(0, tuple(map(Section, sections))), torch.zeros(sum(sections))
    odd = [length for length in sections if length % parts]
    if not odd:
        assert len(cut.take(whole, 0, parts)) == sum(sections) // parts
        return
    with pytest.raises(ValueError, match=rf"a dimension of {odd[0]} cannot be cut into {parts} .* \(tp={parts}\)"):
        cut.take(whole, 0, parts)


def test_the_manifest_gives_full_names_unsplit_shapes_and_cuts() -> None:
    axis = Mesh().tp
    column = ColumnParallelLinear(torch.zeros(6, 4), torch.zeros(6), axis, sections=(Section(4), Section(2)))
    row = RowParallelLinear(torch.zeros(4, 6), torch.zeros(4), axis)
    model = nn.ModuleDict({"up": column, "middle": nn.Sequential(nn.LayerNorm(6)), "down": row})
    assert manifest(model) == {
        "up.weight": Entry(torch.Size([6, 4]), Cut(0, (Section(4), Section(2)))),
        "up.bias": Entry(torch.Size([6]), Cut(0, (Section(4), Section(2)))),
        "middle.0.weight": Entry(torch.Size([6]), None),
        "middle.0.bias": Entry(torch.Size([6]), None),
        "down.weight": Entry(torch.Size([4, 6]), Cut(1, (Section(6),))),
        "down.bias": Entry(torch.Size([4]), None),
    }
    assert manifest(column).keys() == {"weight", "bias"}


CONFIG = GPTConfig(vocabulary=11, sequence=5, hidden=8, layers=4, heads=4)
UNSPLIT = {name: tuple(p.shape) for name, p in GPT(CONFIG, Mesh()).named_parameters()}


@pytest.mark.parametrize(("pp", "tp"), [(1, 1), (1, 2), (1, 4), (2, 2), (3, 1), (4, 1)])
def test_all_stages_together_have_the_names_and_shapes_of_the_unsplit_model(pp: int, tp: int) -> None:
    def on_rank() -> tuple[int, dict[str, tuple[int, ...]], dict[str, bool], int]:
        mesh = Mesh(pp=pp, tp=tp)
        model = GPT(CONFIG, mesh, even_cuts(CONFIG.layers, pp)[mesh.pp.rank])
        entries = manifest(model)
        shapes = {name: tuple(entry.shape) for name, entry in entries.items()}
        smaller = {name: tuple(p.shape) != shapes[name] for name, p in model.named_parameters()}
        whole = gather(model.named_parameters(), entries, mesh.tp)
        assert {name: tuple(tensor.shape) for name, tensor in whole.items()} == shapes
        return mesh.tp.rank, shapes, smaller, sum(p.numel() for p in model.parameters())

    results = minipar.run(on_rank, pp * tp, timeout=20, device="cpu")
    for place in range(tp):
        stages = [shapes for rank, shapes, _, _ in results if rank == place]
        assert sum(map(len, stages)) == len(UNSPLIT), "no parameter is on two stages"
        assert {name: shape for shapes in stages for name, shape in shapes.items()} == UNSPLIT
    cut = {name for _, _, smaller, _ in results for name, is_smaller in smaller.items() if is_smaller}
    split = ("qkv.weight", "out.weight", "up.weight", "up.bias", "down.weight", "token.weight", "logits.weight")
    assert cut == {name for name in UNSPLIT if tp > 1 and name.endswith(split)}


def test_what_was_gathered_at_one_degree_loads_at_another_exactly() -> None:
    """NeMo Automodel PR#1324; torchtitan#1750."""
    config = GPTConfig(vocabulary=13, sequence=5, hidden=8, layers=1, heads=4, kv_heads=2)

    def saved() -> dict[str, torch.Tensor]:
        model, axis = GPT(config, axes := Mesh(tp=2), seed=3), axes.tp
        return gather(model.named_parameters(), manifest(model), axis)

    whole = minipar.run(saved, 2, timeout=20, device="cpu")[0]

    def loaded(tp: int) -> dict[str, torch.Tensor]:
        mesh = Mesh(tp=tp)
        model = GPT(config, mesh, seed=4)
        load(model, whole, mesh.tp)
        return gather(model.named_parameters(), manifest(model), mesh.tp)

    for tp in (1, 4):
        for again in minipar.run(loaded, tp, tp, timeout=20, device="cpu"):
            assert all(torch.equal(again[name], whole[name]) for name in whole)
