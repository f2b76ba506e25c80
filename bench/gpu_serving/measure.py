#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/gpu_serving/measure.py OUT [SECONDS]: runs llmserve-profile on a GPU for each model, within SECONDS (60) in all.
Writes OUT/profile-MODEL.ini and the measured steps as CSV. Prints the fit's errors on held-out steps, and fcfs's rate
on a full queue by this profile and by the card's shipped one."""
import json
import re
import sys
from pathlib import Path

import common as c

STARTING = 3  # seconds for weights, pools and copies in addition to --time
ENGINE = (f"engine.max_step_tokens={c.STEP_TOKENS}", f"engine.max_sequences={c.SEQUENCES}")
SETTINGS = (f"engine.device={c.DEVICE}", "model.load_format=dummy", "cache.host_memory=1GiB", *ENGINE)


def profile(name, seconds, out):
    """Returns the profile's path and its fit's errors as llmserve-profile prints them: median, p95, max."""
    model = c.model_folder(name)
    path, log = out / f"profile-{model.name}.ini", out / f"profile-{model.name}.log"
    why = c.run(log, [c.program("llmserve-profile"), "--time", f"{max(1, seconds - STARTING):.0f}s", "--output", path,
                      *(("--like", c.shipped()) if c.DEVICE == "cuda" else ()), "--steps", out / f"steps-{model.name}.csv",
                      *c.settings(f"model.path={model}", *SETTINGS)], seconds + 30)
    if why is not None:
        raise RuntimeError(why)
    return path, re.findall(r"^(of the fit|held out|  [a-z ]+?) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)$", log.read_text(), re.M)


def full_queue(name, profile_name, out):
    """Returns requests/s and tokens/s of fcfs."""
    path = out / f"full-{c.model_folder(name).name}-{Path(profile_name).stem}.json"
    why = c.run(path.with_suffix(".log"), [
        c.program("llmserve-sim"), "--quiet", "--json", path, "-c", c.ROOT / "etc/fcfs.ini", "--model", c.model_folder(name),
        "--profile", profile_name, "--dataset-path", c.LENGTHS, "--num-prompts", "1000", "--request-rate", "inf",
        "--max-concurrency", "256", *c.settings(*ENGINE)], 60)
    if why is not None:
        return None
    report = json.loads(path.read_text())
    return (report.get("steady_state") or report)["output_throughput"]


def main():
    out = Path(sys.argv[1])
    clock = c.Deadline(float(sys.argv[2]) if len(sys.argv) > 2 else 60)
    fits, queues, bad = [], [], False
    for i, name in enumerate(c.MODELS):
        try:
            path, errors = profile(name, clock.left() / (len(c.MODELS) - i), out)
        except RuntimeError as e:
            bad = True
            c.say(f"{name}: FAILED: {e}")
            continue
        fits += [[Path(name).name, *e] for e in errors]
        queues.append([Path(name).name, full_queue(name, path, out), full_queue(name, c.shipped(), out)])
        c.say(f"profile of {name}: " + ", ".join(re.findall(r"^(?:bandwidth|matrix|prefill_attention|weights|cache|step|sequence|token) = .*",
                                                               path.read_text(), re.M)))
    c.table(["steps of", "", "n", "median, %", "p95", "max"], fits)
    c.say("")
    c.table(["256 clients, fcfs, simulated", "measured profile, output tok/s", f"etc/profiles/{c.shipped()}.ini"], queues)
    return 1 if bad else 0


sys.exit(main())
