"""How long a pass over many machines takes: a formula, a simulation of its tasks, and real passes that hold them up.

python benchmarks/machine/cluster_model.py check     both beside passes of Dask whose partitions take a given time
python benchmarks/machine/cluster_model.py predict   both for 100 million and 10 billion rows on 64 and 1000 workers

    pass = T g + max(c a + a spread sqrt(2 c log(workers)) + workers h, a + p h) + levels (2 latency + 16 R / bandwidth)

p partitions take a seconds each, c = ceil(p / workers) of them one after the other on a worker. T tasks, the partitions
and the sums of 16, each cost the client and the scheduler g seconds before the pass begins; and each partition that is
done costs the scheduler h seconds, while others compute: the first ones are done after a, the last ones of all workers
together. Times of partitions differ by a share ``spread`` (standard
deviation); the slowest of many workers is then about sqrt(2 log(workers)) deviations behind. R bytes travel from a sum.

The simulation has the same as events: workers go through their partitions in order, the scheduler does one thing at a
time, and a sum is computed where its first part lies, once it has the others.
"""

import argparse
import heapq
import json
import math
import sys
import time
from typing import NamedTuple

import numpy as np

ADDED = 16  # sums that a task adds, as softmargin.distributed.blocks has it


class Machines(NamedTuple):
    """What a cluster is like; seconds and bytes."""

    workers: int
    graph: float  # of client and scheduler for every task, before the pass begins
    done: float  # of the scheduler for every task that ends
    latency: float = 1e-3  # of a message
    bandwidth: float = 1e9  # bytes a second, of a worker


def tree(p):
    """Return how many sums every level of the tree has."""
    sizes = []
    while p > 1:
        p = math.ceil(p / ADDED)
        sizes.append(p)
    return sizes


def formula(machines, p, seconds, n_bytes=0.0, spread=0.0):
    """Return the seconds of a pass; a partition takes ``seconds``."""
    sums, each, workers = tree(p), math.ceil(p / machines.workers), min(machines.workers, p)
    slowest = spread * math.sqrt(2.0 * each * math.log(workers))
    level = 2.0 * machines.latency + ADDED * n_bytes / machines.bandwidth
    work = max((each + slowest) * seconds + workers * machines.done, seconds + p * machines.done)
    return (p + sum(sums)) * machines.graph + work + len(sums) * level


def simulated(machines, seconds, n_bytes=0.0):
    """Return the seconds of a pass, event by event; partition i takes ``seconds[i]``."""
    p, sums = len(seconds), tree(len(seconds))
    missing = {(m, i): min(ADDED, n - i * ADDED) for m, n in enumerate([p, *sums[:-1]], 1) for i in range(sums[m - 1])}
    now = [(p + sum(sums)) * machines.graph] * machines.workers
    begun = now[0]
    events = []  # (time at which the scheduler hears of it, name of what is done)
    for i, own in enumerate(seconds):
        worker = i * machines.workers // p if p > machines.workers else i
        now[worker] += own
        events.append((now[worker] + machines.latency, (0, i)))
    heapq.heapify(events)
    free = begun
    while events:
        heard, (m, i) = heapq.heappop(events)
        if m == len(sums):
            return heard
        free = max(free, heard) + machines.done
        above = m + 1, i // ADDED
        missing[above] -= 1
        if not missing[above]:
            travel = ADDED * n_bytes / machines.bandwidth
            heapq.heappush(events, (free + 2.0 * machines.latency + travel, above))
    raise AssertionError("a pass ends with its root")


def drawn(rng, p, seconds, spread):
    """Draw the times of partitions: a gamma distribution, which has no negative ones and a long tail."""
    return rng.gamma(1.0 / spread**2, seconds * spread**2, p) if spread else np.full(p, seconds)


def say(**facts):
    sys.stdout.write(json.dumps(facts, default=lambda value: round(float(value), 6)) + "\n")
    sys.stdout.flush()


def held_up(block, seconds):
    """Do what a partition does that takes so long, with no core."""
    time.sleep(seconds[int(block)])
    return (np.zeros(29),)


def measured(client, seconds, repeats=7):
    """Return the median seconds of passes through Dask."""
    from distributed import wait

    from softmargin.distributed.blocks import DaskBlocks
    from softmargin.distributed.tasks import task

    p = len(seconds)
    parts = client.persist([task(float, i) for i in range(p)])
    wait(parts)
    blocks = DaskBlocks(parts, [1] * p, 1, [8] * p)
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        blocks.total(held_up, seconds)
        times.append(time.perf_counter() - began)
    return float(np.median(times[1:]))


def check(args):
    """Measure g and h with partitions that take no time and with slow ones; then predict other passes."""
    from distributed import Client, LocalCluster

    rng = np.random.default_rng(0)
    for workers in args.workers:
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
        with cluster, Client(cluster) as client:
            p = 64
            tasks = p + sum(tree(p))
            quick = measured(client, np.zeros(p)) / tasks  # g + h
            slow = (measured(client, np.full(p, 0.05)) - math.ceil(p / workers) * 0.05) / tasks
            graph = min(max(slow, 0.0), quick)
            machines = Machines(workers, graph, quick - graph)
            say(workers=workers, graph=graph, done=quick - graph)
            for p, seconds, spread in ((16, 0.1, 0.0), (16, 0.1, 0.5), (128, 0.02, 0.5), (128, 0.002, 0.5)):
                own = drawn(rng, p, seconds, spread)
                facts = {"formula": formula(machines, p, seconds, 232.0, spread)}
                facts |= {"simulated": simulated(machines, own, 232.0), "measured": measured(client, own)}
                say(workers=workers, p=p, seconds=seconds, spread=spread, **facts)


def predict(args):
    """Predict a fit of softmax, two classes, 28 features; a simulation, and one with a worker at half speed, beside."""
    rng = np.random.default_rng(0)
    kinds = list(zip(args.passes, args.nanoseconds, (8 * 29 * 30, 8 * 29), strict=True))  # bytes of a sum
    for rows, workers, size in (
        (1e8, 64, 1e6),
        (1e8, 1000, 1e5),
        (1e10, 64, 1e7),
        (1e10, 1000, 1e6),
        (1e10, 1000, 1e7),
    ):
        machines, p = Machines(workers, args.graph, args.done), int(rows / size)
        for spread in (0.0, 0.3):
            found = np.zeros(3)
            for count, nanoseconds, n_bytes in kinds:
                seconds = 1e-9 * nanoseconds * size
                own = drawn(rng, p, seconds, spread)
                halved = np.where(np.arange(p) < p / workers, 2.0, 1.0) * own
                runs = [simulated(machines, each, n_bytes) for each in (own, halved)]
                found += count * np.array([formula(machines, p, seconds, n_bytes, spread), *runs])
            facts = dict(zip(("formula", "simulated", "one_slow"), found, strict=True))
            say(rows=rows, workers=workers, partition=size, spread=spread, **facts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "predict"])
    parser.add_argument("--workers", nargs="*", type=int, default=(1, 2, 4))
    parser.add_argument("--passes", nargs=2, type=int, default=(2, 5), help="with a Hessian, and without")
    parser.add_argument("--nanoseconds", nargs=2, type=float, default=(372.0, 150.0), help="of a row in them")
    parser.add_argument("--graph", type=float, default=9.5e-4, help="seconds of a task; docs/cluster.md has these")
    parser.add_argument("--done", type=float, default=3e-4)
    args = parser.parse_args()
    globals()[args.what](args)


if __name__ == "__main__":
    main()
