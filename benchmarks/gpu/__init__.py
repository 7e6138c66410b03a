"""Run the GPU checklist: does the product run on a GPU, with equal bits, and how fast?

    uv run python -m benchmarks.gpu [PART ...] --pacs DIRECTORY --output DIRECTORY
    uv run python -m benchmarks.gpu report --output DIRECTORY
    uv run python -m benchmarks.gpu --device cpu --quick       (a trial of the logic, no GPU needed)

Warning: use a GPU that nobody else uses now, or the times mean nothing. No setting of the GPU is
changed; the Multi-Process Service (MPS) is started for its own units only, and stopped again.

Parts, in this order (all of them unless some are named):

    chip     name, memory, versions, matrix products a second
    bits     one model hash for 1 and 2 workers; what ``runtime.precision=float32`` computes
    eager    step time of every method over FedAvg's, share of the peak, host synchronizations
    kernels  FedAvg's step by memory layout, and its longest kernels
    graphed  bits, steps and rounds of ``runtime=graphed`` beside eager steps
    rounds   one round by clients in sequence, processes, processes under MPS, and threads
    memory   a real out-of-memory error, and whether the batch that it names fits
    pacs     PACS as published, one seed: both networks, methods, augmentations; four readings
    compiled the step times of ``eager`` with ``runtime.compiled=true``

A part consists of units, which can be named instead of parts (``bits-pacs-1``). Each unit runs in a
process of its own and leaves one JSON record. A unit that has a record is not run again; delete its
file to repeat it. ``pacs`` also resumes inside a unit, after its last full round.

One call stops after at most eight minutes (``--minutes``) and prints what is left; call again to
continue. A unit that does not fit in the rest of a call is stopped and comes first in the next one.

On a machine that is rented by the minute:

1. Before: install everything, copy the folder of PACS (96x96 images are enough) beside the
   repository, and run the quick trial on the CPU.
2. First command: the same trial with ``--device cuda --quick``. It finds within two minutes what
   does not run at all. Then ``chip bits`` and what follows.
3. Next commands: repeat the same call until it prints "nothing is left".
4. Point ``--output`` (or ``UNIVARFL_GPU_OUTPUT``) at a folder that outlives the machine, or pack it
   after each command: ``tar czf gpu.tgz DIRECTORY``. Unpack it at the same path to continue on
   another machine. Point ``UNIVARFL_CACHE`` there as well to keep the decoded images.

PACS is looked for in ``--pacs``, else ``UNIVARFL_GPU_PACS``, else ``../PACS``. Without it, the
units that need it are left out. Records of different devices, and of quick trials, are kept apart
in folders such as ``cuda`` and ``cpu-quick``; the report marks trials.
"""
