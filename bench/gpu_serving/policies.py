#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/gpu_serving/policies.py OUT [SECONDS]: the papers' policies on a GPU, beside fcfs and sarathi, and each of the
runs in the simulator once more. See experiment.py.

The runs are llmserve-sim --device cuda: every step is computed, the clock passes over times when nothing runs. Arrivals
are the same for all systems. Load is LOADS (1.3) times the knee, which is simulated with OUT/profile-opt-13b.ini, of
measure.py, or with what ships for the card. Requests are as many as SECONDS (170) have room for by the simulator; the
systems come in the order of experiment.py, and what there is no time for is left out. SYSTEMS chooses.
"""
import json
import os
import re
import sys
import time
from pathlib import Path

import common as c
import experiment as e

SEED = int(os.environ.get("SEED", "1"))
LOADS = [float(x) for x in os.environ.get("LOADS", "1.3").split()]
SYSTEMS = os.environ.get("SYSTEMS", ".")
STARTING = 4  # seconds of a run without steps: weights, pools, pinned memory
MOST_REQUESTS = int(os.environ.get("MOST_REQUESTS", "400"))


class Run:
    """A system under one load."""

    def __init__(self, system, mixed, load):
        self.system, self.mixed, self.load = system, mixed, load
        self.name = f"{system}-{'mixed' if mixed else 'plain'}-{load:g}"
        self.real = self.simulated = self.predicted = self.why = None
        self.wall = 0


def choose_runs():
    kinds = [(s, False) for s in e.PLAIN] + [(s, True) for s in e.MIXED]
    return [Run(s, mixed, load) for load in LOADS for s, mixed in kinds if re.search(SYSTEMS, s)]


def arrivals(x, r, n):
    return x.arrivals(n, r.load, SEED, r.mixed)


def simulate_all(x, runs, n):
    """All runs side by side in the simulator; the lengths that alise is told go before."""
    for r in runs:
        if r.system == "alise":
            r.predicted = x.predict(r.name, arrivals(x, r, n), SEED)
    started = [(r, e.start(x.command(f"sim-{r.name}", r.system, arrivals(x, r, n), "sim", r.predicted), x.out / f"sim-{r.name}.log"))
               for r in runs]
    for r, process in started:
        r.simulated = x.report(f"sim-{r.name}") if process.wait() == 0 else None
    return sum(r.simulated["machine"]["busy_s"] for r in runs if r.simulated)


def choose_requests(x, runs, seconds):
    """As many as there is time for, by the simulator; a round number."""
    n = MOST_REQUESTS
    for _ in range(4):
        busy = simulate_all(x, runs, n)
        room = max(20, seconds - STARTING * len(runs))
        if busy <= room:
            break
        n = max(20, int(n * min(0.95, room / busy)) // 10 * 10)
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
    """Errors of the simulator, and what is their mean."""
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
        c.table(["the simulator beside the GPU", "TTFT, ms", "TBT, ms", "tokens/s", *(f"{k}, % off" for k, _ in keys)], rows)


def print_headlines(runs):
    """On the GPU and, in brackets, simulated."""
    def value(system, mixed, load, key):
        r = next((r for r in runs if (r.system, r.mixed, r.load) == (system, mixed, load)), None)
        return [e.figure(report, key) if r and report else None for report in (r and r.real, r and r.simulated)]

    def ratio(a, b):
        return "/".join("-" if u is None or v is None else f"{u / (v or 1):.2f}x" for u, v in zip(a, b))
    rows = []
    for load in LOADS:
        for system, (key, what, more) in e.HEADLINES.items():
            it, *bases = [value(s, system == "bros", load, key) for s in (system, "fcfs", "sarathi")]
            if it[0] is None:
                continue
            known = [b[0] for b in bases if b[0] is not None]
            holds = all(it[0] > b if more else it[0] < b for b in known)
            rows.append([f"{load:g}", system, what, it[0], *(b[0] for b in bases), *(ratio(it, b) for b in bases),
                         "-" if not known else "holds" if holds else "does not"])
    c.table(["of the knee", "policy", "figure", "it", "fcfs", "sarathi", "over fcfs, GPU/simulated", "over sarathi", "sign"], rows)


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
    print_headlines(runs)
    left_out = [f"{r.name} ({r.why})" for r in runs if r.why]
    if left_out:
        c.say("left out or failed: " + ", ".join(left_out))
    return 1 if any(r.why and r.why != "no time left" for r in runs) else 0


sys.exit(main())
