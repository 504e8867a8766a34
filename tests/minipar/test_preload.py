"""What the server that forks the ranks imports: it must stay fit to be forked."""

from __future__ import annotations

import json
import subprocess
import sys

SPY = """
import json, sys, threading, torch
asked = []
for name in ("is_available", "device_count", "init", "_lazy_init"):
    whole = getattr(torch.cuda, name)
    setattr(torch.cuda, name, lambda name=name, whole=whole: asked.append(name) or whole())
torch.cuda.is_available()
import minipar.preload
print(json.dumps({
    "asked": asked,
    "initialized": torch.cuda.is_initialized(),
    "threads": threading.active_count(),
    "optimizers' imports done": "torch._dynamo" in sys.modules,
}))
"""


def test_the_preload_asks_for_no_gpu_and_starts_no_thread() -> None:
    done = subprocess.run([sys.executable, "-c", SPY], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == {
        "asked": ["is_available"],  # by the spy alone, to show that it hears
        "initialized": False,
        "threads": 1,
        "optimizers' imports done": True,
    }
