#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/gpu_serving/serve.py OUT [SECONDS]: llmserve over HTTP on a GPU, with dummy weights in the shapes of Llama-3-8B
and OPT-13B and SEQUENCES (256) clients in a closed loop. A client sends a prompt of random tokens with the length of a
ShareGPT prompt (experiments/papers/lengths), reads as many tokens as its answer has, and sends the next.

SECONDS (60) are for all models, starts included. Rates, batch size and idle time are differences of the server's
/metrics, the first sample taken when the load has filled up. Latencies are llmserve-bench's, of requests which began
after that. A step's time is printed beside its lower bound: bytes over bandwidth or operations over the peak, for the
mean step. SCHEDULER is sarathi or fcfs.
"""
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import common as c

CLIENTS = c.SEQUENCES
SCHEDULER = os.environ.get("SCHEDULER", "sarathi")
MORE = os.environ.get("MORE_INI", "")  # keys of [cache]: on a CPU the cache needs a limit
FILLING = 0.3  # the share of a model's time before the first sample
POLICY = {"sarathi": f"chunk = {c.STEP_TOKENS}\nmax_seqs = {CLIENTS}", "fcfs": f"max_tokens = {c.STEP_TOKENS}\nmax_seqs = {CLIENTS}"}

INI = """[server]
listen = 127.0.0.1:0
[model]
path = {folder}
load_format = dummy
[engine]
device = {device}
max_step_tokens = {tokens}
max_sequences = {clients}
[cache]
{more}
[plugins]
scheduler = {scheduler}
cache = paged
[scheduler.{scheduler}]
{policy}
"""


class Server:
    """llmserve with one model, and a tokeniser which it never uses."""

    def __init__(self, model, out):
        folder = out / f"model-{model.name}"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_bytes((model / "config.json").read_bytes())
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name).write_bytes((c.ROOT / "share/demo-model" / name).read_bytes())
        ini = out / f"serve-{model.name}.ini"
        ini.write_text(INI.format(folder=folder, device=c.DEVICE, tokens=c.STEP_TOKENS, clients=CLIENTS, more=MORE,
                                  scheduler=SCHEDULER, policy=POLICY[SCHEDULER]))
        self.log = out / f"serve-{model.name}.log"
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([c.program("llmserve"), "-c", ini], stderr=log, env=c.environment())
        self.url = None

    def wait(self, seconds):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and self.process.poll() is None:
            found = re.search(r"listening on (http://\S+)", self.log.read_text())
            if found:
                self.url = found[1]
                return
            time.sleep(0.1)
        raise RuntimeError("llmserve did not start: " + self.log.read_text()[-500:])

    def metrics(self):
        """The metrics, summed over labels, except cached tokens, which are kept by place."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        m = {"at": time.monotonic()}
        for name, labels, value in re.findall(r"^([a-z_:]+)(\{[^}]*\})? (\S+)$", text, re.M):
            m[name] = m.get(name, 0) + float(value)
            if 'tier="device"' in labels:
                m[name + ":device"] = m.get(name + ":device", 0) + float(value)
        return m

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()


def load(server, vocab, seconds, out, name):
    """Starts the clients."""
    log = open(out / f"bench-{name}.log", "w", encoding="utf-8")
    return subprocess.Popen(
        [c.program("llmserve-bench"), "--base-url", server.url, "--vocab-size", str(vocab), "--dataset-path", c.LENGTHS,
         "--num-prompts", "100000", "--ignore-eos", "--temperature", "0", "--extra-body", '{"return_token_ids": true}',
         "--max-concurrency", str(CLIENTS), "--stop-after", f"{seconds:.0f}s", "--warm-up", f"{FILLING * seconds:.0f}s",
         "--save-result", "--result-dir", out, "--result-filename", f"bench-{name}.json", "--disable-tqdm"],
        stdout=log, stderr=subprocess.STDOUT, env=c.environment())


def watch(server, until, looks):
    """Samples the metrics every second."""
    while time.monotonic() < until:
        looks.append(server.metrics())
        time.sleep(min(1, max(0, until - time.monotonic())))
    looks.append(server.metrics())


def smi(out, name):
    if c.DEVICE != "cuda":
        return None
    return subprocess.Popen(["nvidia-smi", "--query-gpu=utilization.gpu,power.draw,clocks.sm,memory.used",
                             "--format=csv,noheader,nounits", "-lms", "500"],
                            stdout=open(out / f"smi-{name}.csv", "w", encoding="utf-8"))


def summary(shape, looks, bench, bounds):
    first, last = looks[0], looks[-1]
    d = {k: last[k] - first[k] for k in last if k in first}
    steps, seconds = max(1, d["llmserve_steps_total"]), d["at"]
    cached = sum(m["llmserve_cached_tokens:device"] for m in looks) / len(looks)
    step = d["llmserve_step_seconds_total"] / steps
    floor = shape.floor(d["llmserve_step_tokens_total"] / steps, d["vllm:generation_tokens_total"] / steps, cached,
                        *bounds)
    made = d["vllm:generation_tokens_total"] / seconds
    return {"output tok/s": made, "total tok/s": made + d["vllm:prompt_tokens_total"] / seconds,
            "req/s": d["vllm:request_success_total"] / seconds,
            "TTFT p50, ms": bench["median_ttft_ms"], "p99": bench["p99_ttft_ms"], "TPOT p50, ms": bench["median_tpot_ms"],
            "p99 ": bench["p99_tpot_ms"], "sequences a step": d["llmserve_step_sequences_total"] / steps,
            "tokens a step": d["llmserve_step_tokens_total"] / steps, "cached": cached, "step, ms": 1e3 * step,
            "floor, ms": 1e3 * floor, "x floor": step / floor,
            "GPU idle, %": 100 * (1 - d["llmserve_device_seconds_total"] / seconds),
            "planning, %": 100 * d["llmserve_plan_seconds_sum"] / seconds,
            "preempted": int(d.get("vllm:num_preemptions_total", 0))}


def pool_bytes(server):
    """The cache's bytes by the log, minus the buffers of a step, which a profile's memory holds as well."""
    found = re.search(r"cache for \d+ tokens in (\d+) MiB", server.log.read_text())
    return (int(found[1]) << 20) * 98 // 100 if found else None


def simulated(model, server, bench, out):
    """Simulates the same load for about twice as long, if measure.py has left a profile."""
    profile, path = out / f"profile-{model.name}.ini", out / f"sim-serve-{model.name}.json"
    if not profile.exists():
        return {}
    why = c.run(path.with_suffix(".log"), [
        c.program("llmserve-sim"), "--quiet", "--json", path, "-c", out / f"serve-{model.name}.ini", "--profile", profile,
        "--dataset-path", c.LENGTHS, "--num-prompts", str(2 * bench["completed"] + 2 * CLIENTS), "--request-rate", "inf",
        "--max-concurrency", str(CLIENTS), *c.settings(f"cache.device_memory={pool_bytes(server)}")], 60)
    if why is not None:
        c.say(f"{model.name}, simulated: FAILED: {why}")
        return {}
    r = json.loads(path.read_text())
    return {"simulated: output tok/s": (r.get("steady_state") or r)["output_throughput"], "TTFT p50, ms ": r["median_ttft_ms"],
            "TPOT p50, ms ": r["median_tpot_ms"]}


def one_model(name, seconds, out, bounds):
    """Returns a row of the table; `seconds` include the start."""
    model, clock = c.model_folder(name), c.Deadline(seconds)
    shape, server, meter = c.Shape(model), Server(model, out), None
    try:
        server.wait(clock.left())
        c.say(f"{shape.name}: ready after {seconds - clock.left():.1f} s; "
              + " / ".join(re.findall(r"(?:engine|device): .*", server.log.read_text())))
        run_for = clock.left() - 2
        began, looks = time.monotonic(), []
        meter = smi(out, shape.name)
        clients = load(server, shape.vocab, run_for, out, shape.name)
        time.sleep(FILLING * run_for)
        watcher = threading.Thread(target=watch, args=(server, began + run_for - 0.7, looks))
        watcher.start()
        clients.wait(run_for + 10)
        watcher.join()
        if len(looks) < 2:
            raise RuntimeError(f"no time to look: ready {run_for:.1f} s before the end")
        (out / f"metrics-{shape.name}.json").write_text(json.dumps(looks))
        bench = json.loads((out / f"bench-{shape.name}.json").read_text())
        if bench["failed"]:
            c.say(f"{shape.name}: {bench['failed']} requests FAILED: {bench['failures']}")
        row = summary(shape, looks, bench, bounds)
    finally:
        if meter is not None:
            meter.terminate()
        server.stop()
    return row | simulated(model, server, bench, out)


def main():
    out = Path(sys.argv[1])
    clock = c.Deadline(float(sys.argv[2]) if len(sys.argv) > 2 else 60)
    *bounds, source = c.limits(out)
    c.say(f"limits of {source}: {bounds[0] * 1e-9:.0f} GB/s, {bounds[1] * 1e-12:.0f} TFLOP/s; {CLIENTS} clients, {SCHEDULER}, "
          f"steps of {c.STEP_TOKENS} tokens")
    results, bad = {}, False
    for i, name in enumerate(c.MODELS):
        try:
            results[name] = one_model(name, clock.left() / (len(c.MODELS) - i), out, bounds)
        except (RuntimeError, OSError, KeyError, subprocess.TimeoutExpired) as e:
            bad = True
            c.say(f"{name}: FAILED: {e!r}")
    (out / "serve.json").write_text(json.dumps(results))
    if results:
        names = list(results)
        keys = list(max(results.values(), key=len))
        c.say("")
        c.table(["llmserve"] + names, [[k.strip()] + [results[n].get(k) for n in names] for k in keys])
    return 1 if bad else 0


sys.exit(main())
