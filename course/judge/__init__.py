"""The judge: who runs a learner's code, and who says whether its results are right.

Three kinds of process, and only text and numbers between them:

- The **kernel** is the learner's. It sends the *source* of an answer, and is told the verdict.
- The **judge** (`server.py`) is a process of its own, started from the files on disk. It draws the inputs, computes
  what is right, compares, weighs, and keeps the event. It never runs the learner's code, and never rebuilds an object
  that came from where it ran: it reads numbers and texts (`plain.py`).
- The **ranks** (`inside.py`) are fresh processes, made by the judge for one case. Only here does the learner's code
  run. A rank has its own inputs and nobody else's, and the course is not there to be imported.

So nothing that the learner's code changes in its kernel or in its ranks is in the process that judges. Whatever leaves
a rank counts as its result and is compared; so it must be right, however it came about.

What was *sent* is counted twice: by the ledger, inside the rank, whose code is compared before and after; and by the
operating system's counters of the rank's sockets, read from outside (`wires.py`; Linux only).

What a determined cheat can still do: his code runs with his own user's rights. In his ranks he can pass tensors by a
file or by shared memory, which no socket counts, and read the file in which a solution stands. In his kernel he can
show a verdict of his own making, or write to the progress file. Nothing on a learner's own machine can keep him from
that. The record holds the source, so that an instructor's machine can judge it again, and a
person can read it.
"""
