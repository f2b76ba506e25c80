#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# The Python module, with the programs in PATH; prints TAP. python_module.py MODEL
import os
import sys
import tempfile

import llmserve

n = 0


def ok(good, name, seen=None):
    global n
    n += 1
    print(f"{'ok' if good else 'not ok'} {n} - {name}")
    if not good:
        print(f"# {seen!r}")


def refused(function, kind):
    try:
        function()
    except kind as error:
        return str(error)
    return ""


model = sys.argv[1]
with llmserve.Server(model, scheduler="sarathi", settings={"scheduler.sarathi.chunk": 64, "engine.pin": False}) as server:
    texts = [server.complete("Once upon a time", max_tokens=8, temperature=0) for _ in range(2)]
    ok(len(texts[0]) > 4 and texts[0] == texts[1], "a server completes", texts)
    scheduler = server.status()["plugins"]["scheduler"]
    ok((scheduler["name"], scheduler["parameters"]["chunk"]) == ("sarathi", "64"), "  with the settings", scheduler)
    ok(server.reload("fcfs")["generation"] == 2, "  exchanges its scheduler")
    ok(server.status()["plugins"]["scheduler"]["name"] == "fcfs", "    for the other")
    answers = sum(v for k, v in server.metrics().items() if k.startswith("vllm:request_success_total"))
    ok(answers == 2, "  has metrics", answers)
    why = refused(lambda: server.complete(7), llmserve.ServerError)
    ok("400" in why and "prompt" in why, "  and says why it refuses", why)
    url = server.url
ok(server.url is None and "does not run" in refused(lambda: server.get("/health"), llmserve.ServerError), "it has ended")

why = refused(llmserve.Server("/nowhere", start_timeout=20).start, llmserve.ServerError)
ok("ended with status" in why and "/nowhere" in why, "a server that does not start says why", why)

device = dict(model="opt-13b", profile="a100-80g", num_prompts=40)
rows = llmserve.simulate(["fcfs", "sarathi:chunk=256"], request_rate=2, **device)
ok([row["policies"] for row in rows] == ["fcfs", "sarathi:chunk=256"], "a row for each of the policies")
ok(rows[0]["completed"] == 40 and rows[0]["p99_itl_ms"] > rows[1]["p99_itl_ms"] > 0, "  chunks bound gaps",
   [row["p99_itl_ms"] for row in rows])
again = llmserve.simulate("sarathi", settings={"scheduler.sarathi.chunk": 256}, request_rate=2, **device)
ok(again[0]["p99_itl_ms"] == rows[1]["p99_itl_ms"], "  settings are the same")

requests = [llmserve.Request(100 + i, 10, arrival_s=i / 4, realtime=i % 2 == 0 or None, ttft_ms=500.0) for i in range(8)]
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "trace.csv")
    llmserve.write_trace(path, requests)
    ok(llmserve.read_trace(path) == requests, "a trace is read as it was written", llmserve.read_trace(path))
traced = llmserve.simulate("worth", trace=requests, model="opt-13b")[0]
ok((traced["completed"], traced["total_input_tokens"]) == (8, sum(r.prompt_tokens for r in requests)), "  and simulated", traced["total_input_tokens"])
why = refused(lambda: llmserve.simulate("nosuch", model="opt-13b"), llmserve.SimulationError)
ok("nosuch" in why, "an unknown policy is an error", why)
for text in "", "a++b", "fcfs:chunk", "fcfs:cache.x=1":
    ok(refused(lambda: llmserve.simulate(text), ValueError) != "", f"  and {text!r} is")

try:
    import matplotlib

    matplotlib.use("Agg")
    axes = llmserve.plot(rows, x="seed")
    ok([t.get_text() for t in axes.get_legend().get_texts()] == ["fcfs", "sarathi:chunk=256"], "a plot")
except ImportError:
    ok(True, "a plot # SKIP matplotlib is not installed")
print(f"1..{n}")
