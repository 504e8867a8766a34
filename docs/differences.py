"""Measure how far tensor-parallel training drifts: the table in `minipar.tensor`. Run: python docs/differences.py."""

import torch

import minipar
from minipar import Mesh
from minipar.manifest import gather, manifest
from minipar.model import GPT, GPTConfig, token_loss
from minipar.train import ByteText

CONFIG, STEPS = GPTConfig(), 100


def train(dtype: torch.dtype) -> tuple[list[float], dict[str, torch.Tensor]]:
    """On a rank: the loss of every step, and the unsplit gradients of the first."""
    mesh = Mesh(tp=torch.distributed.get_world_size())
    model, text = GPT(CONFIG, mesh, dtype=dtype), ByteText()
    optimizer, loss_of, losses = torch.optim.AdamW(model.parameters(), lr=1e-3), token_loss(CONFIG, mesh), []
    for step in range(STEPS):
        inputs, targets = text.batch(step * 8, 8, CONFIG.sequence)
        optimizer.zero_grad()
        loss = loss_of(model(inputs), targets)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            named = ((name, p.grad) for name, p in model.named_parameters())
            gradients = gather(named, manifest(model), mesh.tp)
        optimizer.step()
    return losses, gradients


if __name__ == "__main__":
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        losses, gradients = minipar.run(train, 1, dtype, timeout=300)[0]
        for tp in (2, 4):
            ours, whole = minipar.run(train, tp, dtype, timeout=300)[0]
            drift = [abs(a - b) / b for a, b in zip(ours, losses, strict=True)]
            largest = max(((whole[n] - g).abs().max() / g.abs().max()).item() for n, g in gradients.items())
            print(f"{dtype}, tp={tp}: loss of step 1 {drift[0]:.0e}, gradient {largest:.0e}, worst {max(drift):.0e}")
