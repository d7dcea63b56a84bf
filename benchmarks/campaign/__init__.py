"""A hostile campaign against the package: wrong answers, leaks, hangs, bombs, lost files.

    make campaign MINUTES=30 SEED=1
    python -m benchmarks.campaign --minutes 30 --seed 1 --out campaign-1

Five parts run in processes of their own, which the campaign watches: one that crashes, hangs or
runs out of memory is a finding, not the end.

    answers     random problems of every kind: every method and bound against brute force
    relations   answers that must not change: permuted, scaled, shifted, split, repeated, batched
    readers     mutated files of every format, under limits of time and memory
    processes   kill -9 and resume, full and read-only disks, dead workers
    rows        scores, likelihoods and limits of rows under rules: methods, fronts, ranks, bounds

Unit number k of a part is decided by (seed, part, k) alone. OUT/summary.json counts what was done
and lists what was found; OUT/reproductions holds a small file for each finding. The same command
continues where the last one stopped, after doing the units again that found something: what they
no longer find is listed as mended.
"""
