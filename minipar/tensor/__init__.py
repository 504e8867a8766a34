"""Inside one layer: matrix multiplications, and the layers made of them, split over the tensor axis.

Is my tensor-parallel loss difference normal?
---------------------------------------------

A split layer adds the same numbers in another order, and floating point rounds each order differently. Measured
here on the demo's GPT (4 blocks, hidden 64, batch 8 × 64 bytes, AdamW, learning rate 1e-3, 2 cores with gloo),
tp = 2 and 4 beside tp = 1, the same weights and batches, without sequence parallelism; relative, the worst of both
(docs/differences.py):

=========  ===============  ==================  ==========================
dtype      loss of step 1   gradient of step 1  loss, worst of 100 steps
=========  ===============  ==================  ==========================
float64    0                1e-15               2e-14
float32    0                4e-7                3e-5
bfloat16   1e-5             3e-2                5e-2
=========  ===============  ==================  ==========================

(A gradient's difference is its largest over the tensor's largest entry. The loss of bfloat16 logits is computed in
float32.) So these are normal: a first step that agrees to the type's last digits, and then a slow drift, as
AdamW divides by small gradients and so makes their rounding grow; in bfloat16 single steps that differ by percents
while the curves lie on each other. These are not, and float64 shows each in the first step, where it should agree to
1e-12:

- the loss is larger by log(tp): the logits were gathered before a loss that expects a part of them;
- a bias or norm gradient is off by a factor: summed tp times, or not at all under sequence parallelism;
- the difference is there in step 1 and grows with tp: weights or dropout masks were drawn per part;
- only some vocabularies or head counts differ: padding that is counted, or heads cut in the middle.
"""

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
