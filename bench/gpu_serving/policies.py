#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/gpu_serving/policies.py OUT [SECONDS]: the papers' policies, fcfs and sarathi on a GPU, and the same runs in the
simulator. See experiment.py.

The runs are llmserve-sim --device cuda: every step is computed, and the clock skips idle time. All systems get the same
arrivals. The load is LOADS (3) times the knee, since below that no queue builds up in runs of some ten seconds. The
knee is simulated with measure.py's OUT/profile-opt-13b.ini, or with the card's shipped profile. There are as many
requests as the simulator predicts for SECONDS (170). Systems run in the order of experiment.py until the time is over;
SYSTEMS selects some.
"""
import json
import os
import re
import statistics
import sys
import time
from pathlib import Path

import common as c
import experiment as e

SEEDS = int(os.environ.get("SEEDS", "5"))  # seeds to simulate
SEED = int(os.environ.get("SEED", "1"))
LOADS = [float(x) for x in os.environ.get("LOADS", "3").split()]
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # the 97.5 % quantile of Student's t, by number of seeds
SYSTEMS = os.environ.get("SYSTEMS", ".")
STARTING = 2  # seconds of a run outside of its steps: 1.1 on an H200
MOST_REQUESTS = int(os.environ.get("MOST_REQUESTS", "400"))


class Run:
    """Runs a system under one load."""

    def __init__(self, system, mixed, load):
        self.system, self.mixed, self.load = system, mixed, load
        self.name = f"{system}-{'mixed' if mixed else 'plain'}-{load:g}"
        self.real = self.simulated = self.predicted = self.why = None
        self.wall = 0


def choose_runs():
    kinds = [(s, False) for s in e.PLAIN[:-1]] + [(s, True) for s in e.MIXED] + [(e.PLAIN[-1], False)]
    return [Run(s, mixed, load) for load in LOADS for s, mixed in kinds if re.search(SYSTEMS, s)]


def arrivals(x, r, n, seed=SEED):
    return x.arrivals(n, r.load, seed, r.mixed)


def simulate_all(x, runs, n, seed=SEED):
    """Simulates all runs in parallel, after making the lengths which alise gets. Returns reports by the runs' names."""
    started = []
    for r in runs:
        name = f"sim-{r.name}-{seed}"
        if r.system == "alise":
            r.predicted = x.predict(name, arrivals(x, r, n, seed), seed)
        process = e.start(x.command(name, r.system, arrivals(x, r, n, seed), "sim", r.predicted), x.out / f"{name}.log")
        started.append((r.name, name, process))
    return {run: x.report(name) if process.wait() == 0 else None for run, name, process in started}


def choose_requests(x, runs, seconds):
    """Returns how many requests fit into the time by the simulator, rounded."""
    n, room = MOST_REQUESTS, max(20, seconds - STARTING * len(runs))
    while True:
        reports = simulate_all(x, runs, n)
        busy = sum(report["machine"]["busy_s"] for report in reports.values() if report)
        if busy <= room or n <= 20:
            break
        n = max(20, int(n * min(0.95, room / busy)) // 10 * 10)
    for r in runs:
        r.simulated = reports[r.name]
    return n


def run_all(x, runs, n, clock):
    for r in runs:
        limit = clock.left()
        expected = STARTING + (r.simulated["machine"]["busy_s"] if r.simulated else 0)
        if limit < 0.6 * expected:
            r.why = "no time left"
            continue
        began = time.monotonic()
        r.why = c.run(x.out / f"{r.name}.log", x.command(r.name, r.system, arrivals(x, r, n), c.DEVICE, r.predicted), limit)
        r.wall = time.monotonic() - began
        if r.why is None:
            r.real = x.report(r.name)
            c.say(f"{r.name}: {r.wall:.1f} s, of which steps {r.real['machine']['busy_s']:.1f}")
        else:
            c.say(f"{r.name}: FAILED: {r.why}")


def off(real, simulated, key):
    return 100 * (simulated[key] / real[key] - 1) if real.get(key) and simulated.get(key) else None


def print_fidelity(runs):
    """Prints the simulator's errors and their mean."""
    keys = [("TTFT", "mean_ttft_ms"), ("TBT", "mean_itl_ms"), ("tokens/s", "output_throughput"), ("P99 TBT", "p99_itl_ms"),
            ("ms a token", "mean_normalised_latency_ms")]
    rows, sizes = [], {k: [] for k, _ in keys}
    for r in runs:
        if r.real and r.simulated:
            errors = {k: off(r.real, r.simulated, key) for k, key in keys}
            for k, v in errors.items():
                sizes[k] += [abs(v)] if v is not None else []
            rows.append([r.name, r.real["mean_ttft_ms"], r.real["mean_itl_ms"], r.real["output_throughput"],
                         *(None if v is None else f"{v:+.1f}" for v in errors.values())])
    if rows:
        rows.append(["mean size of the errors", None, None, None, *(sum(v) / len(v) if v else None for v in sizes.values())])
        rows.append(["within 10 % (the goal)", None, None, None,
                     *(f"{sum(x <= 10 for x in v)} of {len(v)}" for v in sizes.values())])
        c.table(["the simulator beside the GPU", "TTFT, ms", "TBT, ms", "tokens/s", *(f"{k}, % off" for k, _ in keys)], rows)


def ratio_of(values, base):
    """The ratio of two figures, if both exist."""
    return None if values is None or base is None else values / (base or 1)


class Ratios:
    """Prints the systems' headline figures over a baseline's, on the GPU and in the simulator."""

    def __init__(self, x, runs, n):
        self.real = {r.name: r.real for r in runs}
        self.simulated = {SEED: {r.name: r.simulated for r in runs}}
        done = [r for r in runs if r.real]
        for seed in range(1, SEEDS + 1):
            if seed != SEED:
                self.simulated[seed] = simulate_all(x, done, n, seed)

    def value(self, reports, system, kind, load, key):
        report = reports.get(f"{system}-{kind}-{load:g}")
        return None if report is None else e.figure(report, key)

    def text(self, system, base, kind, load, key):
        """Columns: GPU; simulated with the same arrivals; simulated with all seeds, mean and half a 95 % interval."""
        def ratio(reports):
            return ratio_of(self.value(reports, system, kind, load, key), self.value(reports, base, kind, load, key))
        all_seeds = [r for r in map(ratio, self.simulated.values()) if r is not None]
        words = ["-" if r is None else f"{r:.2f}" for r in (ratio(self.real), ratio(self.simulated[SEED]))]
        if len(all_seeds) > 1:
            half = STUDENT.get(len(all_seeds), 2.2) * statistics.stdev(all_seeds) / len(all_seeds)**0.5
            words.append(f"{statistics.mean(all_seeds):.2f}+-{half:.2f}")
        return ", ".join(words)


def print_headlines(x, runs, n):
    ratios, rows = Ratios(x, runs, n), []
    for load in LOADS:
        for system, (key, what, more) in e.HEADLINES.items():
            kind = "mixed" if system == "bros" else "plain"
            it, *bases = [ratios.value(ratios.real, s, kind, load, key) for s in (system, "fcfs", "sarathi")]
            if it is None:
                continue
            known = [b for b in bases if b is not None]
            holds = all(it > b if more else it < b for b in known)
            rows.append([f"{load:g}", system, what, it, *bases,
                         *(ratios.text(system, base, kind, load, key) for base in ("fcfs", "sarathi")),
                         "-" if not known else "holds" if holds else "does not"])
    c.table(["of the knee", "policy", "figure", "it", "fcfs", "sarathi", "over fcfs: GPU, simulated, of all seeds", "over sarathi",
             "sign"], rows)


def main():
    out = Path(sys.argv[1])
    clock = c.Deadline(float(sys.argv[2]) if len(sys.argv) > 2 else 170)
    measured = out / f"profile-{Path(e.MODEL).name}.ini"
    profile = measured if measured.exists() else os.environ.get("PROFILE") or c.shipped()
    x = e.Experiment(out, profile)
    runs = choose_runs()
    n = choose_requests(x, runs, clock.left())
    c.say(f"profile {profile}; {n} requests, fcfs serves {x.knee:.2f} a second of a full queue; alone: TTFT {x.ttft:.2f} ms, gap "
          f"{x.gap:.2f} ms; deadlines {15 * x.ttft:.0f} and {20 * x.gap:.0f} ms; cache {int(e.CACHE) / 1e9:.2f} GB")
    run_all(x, runs, n, clock)
    (out / "policies.json").write_text(json.dumps({"n": n, "knee": x.knee, "walls": {r.name: r.wall for r in runs}}))
    c.say("")
    print_fidelity(runs)
    c.say("")
    print_headlines(x, runs, n)
    left_out = [f"{r.name} ({r.why})" for r in runs if r.why]
    if left_out:
        c.say("left out or failed: " + ", ".join(left_out))
    return 1 if any(r.why and r.why != "no time left" for r in runs) else 0


sys.exit(main())
