"""What the server that forks the ranks imports once, so that no rank has to. It must never touch CUDA.

A process that has used CUDA cannot be forked, so nothing here may ask for a GPU: not even how many there are.
"""

import os

# Should an import look for a GPU all the same, it then asks the driver's library, not CUDA.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

import torch

import minipar.mesh
import minipar.rank  # noqa: F401

# The first optimizer of a process imports PyTorch's compiler, over a second of work.
torch.optim.SGD([torch.zeros(1)])
