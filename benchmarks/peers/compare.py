"""Compares Heed with its peers on the same arrays in one process; scripts/bench-peers makes what it needs."""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import random
import re
import statistics
import sys
import time

# Before the libraries start their threads: those that wait for work are not to spin on the cores of whoever is measured.
os.environ["OMP_WAIT_POLICY"] = "passive"
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy only prepares and checks

import numpy as np

import participants  # before Heed's library: see there
import algorithm_peers
import algorithm_rows
import heed_library
import module_rows
import report
import rows

PAUSE = 0.005  # seconds before each turn; oneTBB's workers spin for about 1 ms before they sleep
PEAK_SECONDS = 0.1  # long enough for a processor to reach its clock, short beside a row
FEWEST_ROUNDS = 7  # a median of fewer says little

COMMON_NOTES = [
    "cells: best / median of all rounds; GFLOP/s: an addition or multiplication counted as one",
    "ratio: Heed over the best peer, by best / by median time; peak: fused multiply-adds in registers, for GB/s a streaming "
    "read, measured in this process before and after each row",
    "each round all participants take their turn in random order: one call that wakes its threads and fills the caches, then "
    "one that is timed",
    "threads that wait do not spin: OMP_WAIT_POLICY=passive, session.intra_op.allow_spinning=0, and 5 ms of rest before each "
    "turn for oneTBB, which Heed and OpenVINO share",
]

ATTENTION_NOTES = [
    "work: both products over the pairs that are seen, of a module its projections too; where GB/s, K and V read once",
    "layouts: Heed, PyTorch, OpenVINO and ONNX's Attention read the same (batch, heads, len, dim) arrays; MHA and GQA of ONNX "
    "Runtime read (batch, len, heads * dim) copies made beforehand, and the cache of append and decode in place",
    "folded: the heads of a group given as queries of one head, which needs no copy where all of them see the same keys",
    "cache: Heed over a KVCache, filled beforehand from the same arrays",
    "module: self attention without biases by heed::MultiHeadAttention; PyTorch is torch.nn.MultiheadAttention, without biases "
    "and with biases of 0, for which alone it takes its fused operator, and its functions put together: linear, "
    "scaled_dot_product_attention, linear",
    f"every output is within {rows.Judge.LARGEST_DIFFERENCE:.0e} of the definition in double precision; under dropout, where "
    "each library draws its own, its scale and the variance of its deviations are those that dropout gives",
]

ALGORITHM_NOTES = [
    "softmax: x read once and the result written once; Heed reads x twice, since a NaN must be found before anything is "
    "written",
    "k-means: a whole call of ten iterations from given centres, tol 0; work: the products of points and centres. Heed and "
    "scikit-learn end with the labels of the last centres, faiss without them",
    "Adam: a step with all gradients there; parameter, gradient and moments read once, all but the gradient written once; Heed "
    "reads gradients twice, since a NaN must be found before anything changes",
    "every result is checked against double precision; for k-means its sum of squared distances, relative",
]


@dataclasses.dataclass(frozen=True)
class Group:
    """Rows that are measured together, into one table."""

    stem: str  # of the files
    rows: list
    who: object  # module with make_participants, NAMES and versions
    notes: list


GROUPS = {
    "attention": Group("peers", rows.ROWS + module_rows.ROWS, participants, ATTENTION_NOTES),
    "algorithms": Group("algorithm_peers", algorithm_rows.ROWS, algorithm_peers, ALGORITHM_NOTES),
}


def check(row, everyone, judge):
    """Has each compute once; returns {name: difference} and the largest difference between any two."""
    outputs, found = {}, {}
    for each in everyone:
        each.run()
        outputs[each.name] = np.array(each.output())
        found[each.name] = judge.difference(outputs[each.name])
        print(f"  {each.name}: difference {report.text(found[each.name])}", flush=True)
        if not judge.accepts(found[each.name]):
            raise SystemExit(f"bench-peers: {row.name}: {each.name}: wrong, difference {report.text(found[each.name])}")
    if row.dropout:
        return found, None
    return found, float(np.ptp(np.stack(list(outputs.values())), axis=0).max())


def measure(everyone, seconds):
    """Seconds of each timed call, by name."""
    times = {each.name: [] for each in everyone}
    order, shuffle = list(everyone), random.Random(1).shuffle
    start = time.perf_counter()
    while len(times[everyone[0].name]) < FEWEST_ROUNDS or time.perf_counter() - start < seconds:
        shuffle(order)  # nobody always comes after the same one
        for each in order:
            time.sleep(PAUSE)
            each.run()
            begin = time.perf_counter()
            each.run()
            times[each.name].append(time.perf_counter() - begin)
    return times


def measure_row(who, row, problem, judge, threads, seconds):
    print(f"{row.name}, {threads} threads", flush=True)
    everyone = who.make_participants(problem, row.fold, threads)
    found, largest_difference = check(row, everyone, judge)

    before = heed_library.peak(threads, PEAK_SECONDS)
    times = measure(everyone, seconds)
    after = heed_library.peak(threads, PEAK_SECONDS)

    measured = {
        "row": row.name,
        "threads": threads,
        "unit": row.unit,
        "work": row.work(),
        "peak": max(before[row.bound_by_reading], after[row.bound_by_reading]),
        "largest_difference": largest_difference,
        "participants": {
            name: {
                "best": min(all_times),
                "median": statistics.median(all_times),
                "difference": found[name],
                "seconds": all_times,
            }
            for name, all_times in times.items()
        },
    }
    for name in times:
        print(f"  {name}: {report.rates(measured, name)} {row.unit}")
    for own in report.own_names(measured):
        print(f"  {own} / best peer: {report.ratios(measured, own)}", flush=True)
    return measured


def parse_arguments():
    processors = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="scripts/bench-peers", description=__doc__)
    parser.add_argument("--group", choices=GROUPS, default="attention", help="which rows (default: attention)")
    parser.add_argument("--quick", action="store_true", help="small shapes, few rounds: does it work, not how fast")
    parser.add_argument(
        "--threads",
        type=lambda text: [int(part) for part in text.split(",")],
        default=sorted({1, processors}),
        help="thread counts, separated by commas (default: 1 and all)",
    )
    parser.add_argument("--rows", default="", help="only rows whose name has this regular expression")
    parser.add_argument("--seconds", type=float, help="of measuring for each row and thread count (default: 10)")
    parser.add_argument("--out", type=pathlib.Path, help="directory (default: benchmarks/results, build/peers with --quick)")
    parser.add_argument("--heed", default="build/release/benchmarks/libheed_c.so", help="the library to measure")
    options = parser.parse_args()
    if options.seconds is None:
        options.seconds = 0 if options.quick else 10
    if options.out is None:
        options.out = pathlib.Path("build/peers" if options.quick else "benchmarks/results")
    if not all(1 <= threads <= processors for threads in options.threads):
        parser.error(f"--threads: {options.threads}: each must be from 1 to {processors}, the processors there are")
    return options


def main():
    options = parse_arguments()
    heed_library.load(options.heed)
    group = GROUPS[options.group]
    chosen = [row.quick() if options.quick else row for row in group.rows if re.search(options.rows, row.name)]
    if not chosen:
        names = "; ".join(row.name for row in group.rows)
        raise SystemExit(f"bench-peers: --rows: no row has {options.rows!r}; there are: {names}")

    header = {
        "processor": heed_library.text("processor"),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join(["scripts/bench-peers", *sys.argv[1:]]),
        "versions": participants.versions() | group.who.versions(),
        "notes": (["quick: small shapes, whatever the names of the rows say"] if options.quick else []) + COMMON_NOTES + group.notes,
    }
    results = []
    for row in chosen:
        problem = row.make_problem()
        judge = problem.make_judge()
        results += [measure_row(group.who, row, problem, judge, threads, options.seconds) for threads in options.threads]

    options.out.mkdir(parents=True, exist_ok=True)
    full = {"header": header, "participants": group.who.NAMES, "results": results}
    (options.out / f"{group.stem}.json").write_text(json.dumps(full, indent=1) + "\n")
    (options.out / f"{group.stem}.md").write_text(report.markdown(full))
    print(f"written: {options.out}/{group.stem}.md and .json")


main()
