"""Inside one layer: matrix multiplications, and the layers made of them, split over the tensor axis."""

from minipar.tensor.linear import ColumnParallelLinear, RowParallelLinear
from minipar.tensor.matmul import column_parallel_matmul, row_parallel_matmul
from minipar.tensor.random import Draw

__all__ = ["ColumnParallelLinear", "Draw", "RowParallelLinear", "column_parallel_matmul", "row_parallel_matmul"]
