"""Inside one layer: matrix multiplications, and the layers made of them, split over the tensor axis."""

from minipar.tensor.attention import Attention, check_heads
from minipar.tensor.linear import ColumnParallelLinear, RowParallelLinear
from minipar.tensor.matmul import column_parallel_matmul, column_row_matmul, row_parallel_matmul, summa_matmul
from minipar.tensor.random import Draw, Moment, dropout
from minipar.tensor.sequence import RegionNorm, gather_from_sequence, reduce_to_sequence, scatter_to_sequence
from minipar.tensor.split import column, gathered_column, join_module, row, split_module, vocabulary
from minipar.tensor.vocab import VocabParallelEmbedding, VocabParallelHead, vocab_parallel_cross_entropy

__all__ = [
    "Attention",
    "ColumnParallelLinear",
    "Draw",
    "Moment",
    "RegionNorm",
    "RowParallelLinear",
    "VocabParallelEmbedding",
    "VocabParallelHead",
    "check_heads",
    "column",
    "column_parallel_matmul",
    "column_row_matmul",
    "dropout",
    "gather_from_sequence",
    "gathered_column",
    "join_module",
    "reduce_to_sequence",
    "row",
    "row_parallel_matmul",
    "scatter_to_sequence",
    "split_module",
    "summa_matmul",
    "vocab_parallel_cross_entropy",
    "vocabulary",
]
