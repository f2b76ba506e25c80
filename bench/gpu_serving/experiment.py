# SPDX-License-Identifier: Apache-2.0
"""The papers' policies with OPT-13B's shape and the cache of a 40 GB card: the set-up of policies.py, which runs them on
a GPU and in the simulator. As in experiments/papers/real, which uses a small model on a CPU: each system is its preset,
with times scaled from the A100's 30 ms between two tokens to this machine's. Deadlines are 15 times the first token and
20 times the gap of a lone request. The knee is the rate at which fcfs serves a full queue."""
import json
import math
import os
import random
import subprocess
from pathlib import Path

import common as c

MODEL = os.environ.get("POLICIES_MODEL", str(c.ROOT / "bench/opt-13b"))
CACHE = os.environ.get("POLICIES_CACHE", "12746752000")  # bytes that etc/profiles/a100-40g.ini leaves OPT-13B
HOST = os.environ.get("POLICIES_HOST", "8GiB")  # for the systems which use host memory
LENGTHS = os.environ.get("POLICIES_LENGTHS", str(c.ROOT / "experiments/papers/lengths/humaneval.csv"))
ENGINE = (f"engine.max_step_tokens={c.STEP_TOKENS}", f"engine.max_sequences={c.SEQUENCES}", f"cache.device_memory={CACHE}")
TIMES = {"apt": {"max_stall": 5}, "alise": {"first": 0.5, "age": 10, "boost": 0.5}, "aligned": {"starve": 5, "max_wait": 1},
         "accelgen": {"gamma": 0.75}, "worth": {"gap": 0.2, "max_stall": 10}}
USES_HOST = ("bros", "alise", "aligned")
PLAIN = ("fcfs", "sarathi", "accelgen", "apt", "alise", "aligned", "worth")
MIXED = ("fcfs", "sarathi", "bros")
BATCHES = ("--realtime-share", "1", "--batch-size", "16")

# Each paper's figure of merit: its key in figure(), its name, and whether more is better.
HEADLINES = {"apt": ("within", "% within both deadlines", True), "accelgen": ("within", "% within both deadlines", True),
             "worth": ("within", "% within both deadlines", True), "alise": ("latency", "ms a token, mean", False),
             "aligned": ("gap", "ms, P99 of gaps", False), "bros": ("realtime", "ms a token, real-time", False)}


def figure(report, key):
    if key == "within":
        return 100 * report["slo_attainment"]["all"]
    if key == "realtime":
        return report["by_class"]["realtime"]["mean_normalised_latency_ms"]
    return report[{"latency": "mean_normalised_latency_ms", "gap": "p99_itl_ms"}[key]]


class Experiment:
    """What all runs have in common, computed by a few simulations with a profile."""

    def __init__(self, out, profile):
        self.out, self.profile = Path(out), profile
        alone = self.simulate("alone", "fcfs", ["--num-prompts", "40", "--max-concurrency", "1", "--seed", "99",
                                                "--request-rate", "inf"])
        full = self.simulate("full", "fcfs", ["--num-prompts", "1500", "--request-rate", "inf", "--seed", "98"])
        self.ttft, self.gap = alone["median_ttft_ms"], alone["median_itl_ms"]
        steady = full.get("steady_state") or {}
        self.knee = steady.get("request_throughput") or full["request_throughput"]

    def deadlines(self):
        return ["--slo-ttft", f"{15 * self.ttft:.2f}ms", "--slo-tbt", f"{20 * self.gap:.2f}ms"]

    def arrivals(self, n, load, seed, mixed):
        rate = self.knee * load / (2 if mixed else 1)
        words = ["--num-prompts", str(n), "--request-rate", f"{rate:.4f}", "--seed", str(seed)] + self.deadlines()
        return words + [*BATCHES, "--slo-tpot", f"{20 * self.gap:.2f}ms"] if mixed else words

    def preset(self, system, predicted=None):
        words = ["-c", str(c.ROOT / f"etc/{system}.ini"), *c.settings(*ENGINE)]
        if system in USES_HOST:
            words += c.settings(f"cache.host_memory={HOST}")
        if system in TIMES and hasattr(self, "gap"):
            words += c.settings(*(f"scheduler.{system}.{k}={int(1e6 * v * self.gap / 30)}us" for k, v in TIMES[system].items()))
        return words + c.settings(f"predictor.fixed.file={predicted}") if predicted else words

    def command(self, name, system, arrivals, device="sim", predicted=None, more=()):
        return [c.program("llmserve-sim"), "--quiet", "--json", str(self.out / f"{name}.json"), "--device", device, "--model",
                MODEL, "--profile", str(self.profile), "--dataset-path", LENGTHS, *self.preset(system, predicted), *arrivals,
                *more]

    def report(self, name):
        return json.loads((self.out / f"{name}.json").read_text())

    def simulate(self, name, system, arrivals, predicted=None, more=()):
        why = c.run(self.out / f"{name}.log", self.command(name, system, arrivals, "sim", predicted, more), 300)
        if why is not None:
            raise RuntimeError(f"{name}: {why}")
        return self.report(name)

    def predict(self, name, arrivals, seed):
        """Predicted lengths for alise, 20 % off on average: true ones times exp(s z), z normal."""
        lengths, predicted = self.out / f"{name}.lengths", self.out / f"{name}.predicted"
        self.simulate(f"{name}-lengths", "fcfs", arrivals, more=["--write-lengths", str(lengths)])
        dice = random.Random(seed)
        with open(predicted, "w", encoding="utf-8") as file:
            for line in lengths.read_text().splitlines():
                label, comma, length = line.rpartition(",")
                if comma and length.isdigit():
                    file.write(f"{label},{max(1, int(int(length) * math.exp(0.25 * dice.gauss(0, 1))))}\n")
        return predicted


def start(command, log):
    """Starts a command which runs in parallel with others."""
    return subprocess.Popen(command, stdout=open(log, "w", encoding="utf-8"), stderr=subprocess.STDOUT, env=c.environment())
