#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/gpu_serving/peer.py OUT [SECONDS]: transformers under the load of serve.py on the same GPU: the same shapes in
bf16 with random weights, the same lengths, SEQUENCES (256) requests at a time, greedy, no end of text.

  continuous  its continuous batching (paged cache, prefills and decodes in one batch). It needs the package flash_attn;
              without that, this script supplies attention by PyTorch's own flash attention, after checking it against
              the plain formula. CUDA graphs and double buffering are on if they work
  static      generate() with SDPA, one batch of 128 requests with answers of similar lengths, as if lengths were
              known, which is the best case for such batches

SECONDS (60) are for all models. A row counts only the time after the load has filled up.
"""
import csv
import gc
import json
import os
import random
import re
import sys
import threading
import time
import traceback
from pathlib import Path

import common as c

os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
from transformers import AttentionInterface, AttentionMaskInterface, AutoConfig, AutoModelForCausalLM  # noqa: E402
from transformers import GenerationConfig  # noqa: E402
from transformers.generation.configuration_utils import ContinuousBatchingConfig  # noqa: E402
from transformers.generation.continuous_batching.requests import RequestState  # noqa: E402

CLIENTS = c.SEQUENCES
STATIC_BATCH = int(os.environ.get("STATIC_BATCH", "128"))
FILLING = 0.35  # the share of a run which fills the load
BLOCK = 32  # tokens
SHORT = 45  # seconds
DEVICE = "cuda" if c.DEVICE == "cuda" else "cpu"
OURS = "paged|flash_torch"  # a name with "flash" in it gets no mask


def requests(seed=1):
    """Endless pairs of lengths."""
    with open(c.LENGTHS, encoding="utf-8") as file:
        rows = [(int(r["prompt_tokens"]), int(r["output_tokens"])) for r in csv.DictReader(file)]
    dice = random.Random(seed)
    while True:
        dice.shuffle(rows)
        yield from rows


# ---- attention ------------------------------------------------------------------------------------------------------

def plain(q, k, v, at_q, at_k, scale):
    """The plain formula for concatenated sequences (tokens, heads, dims); the last query attends to all keys."""
    out = []
    for a, b, e, f in zip(at_q[:-1].tolist(), at_q[1:].tolist(), at_k[:-1].tolist(), at_k[1:].tolist()):
        groups = q.shape[1] // k.shape[1]
        keys, values = (x[e:f].float().repeat_interleave(groups, 1).transpose(0, 1) for x in (k, v))
        scores = q[a:b].float().transpose(0, 1) @ keys.transpose(1, 2) * scale
        hidden = torch.ones(b - a, f - e, device=q.device, dtype=torch.bool).triu(f - e - (b - a) + 1)
        out.append((scores.masked_fill(hidden, -torch.inf).softmax(-1) @ values).transpose(0, 1))
    return torch.cat(out).to(q.dtype)


class Flash:
    """PyTorch's own flash attention over concatenated sequences."""

    repeats = False  # true: repeats keys and values for each query head, where grouped heads are not supported

    @classmethod
    def call(cls, q, k, v, at_q, at_k, most_q, most_k, scale):
        if DEVICE == "cpu":
            return plain(q, k, v, at_q, at_k, scale)
        if cls.repeats:
            k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        return torch.ops.aten._flash_attention_forward(q, k, v, at_q, at_k, most_q, most_k, 0.0, True, False, scale=scale)[0]

    @classmethod
    def check(cls):
        """Checks it against the formula, for prompts, decodes and both, with grouped heads."""
        at_q = torch.tensor([0, 1, 8, 40], dtype=torch.int32, device=DEVICE)
        at_k = torch.tensor([0, 300, 307, 400], dtype=torch.int32, device=DEVICE)
        q, k, v = (torch.randn(n, heads, 128, device=DEVICE, dtype=torch.bfloat16) for n, heads in ((40, 8), (400, 2), (400, 2)))
        wanted, error = plain(q, k, v, at_q, at_k, 0.1), None
        for cls.repeats in (False, True):
            try:
                error = (cls.call(q, k, v, at_q, at_k, 32, 300, 0.1).float() - wanted.float()).abs().max().item()
            except RuntimeError as e:
                c.say(f"flash attention in PyTorch, keys {'repeated' if cls.repeats else 'grouped'}: {str(e).splitlines()[0]}")
                continue
            if error < 0.03:
                return
        raise RuntimeError(f"flash attention in PyTorch is off by {error}")


def paged_attention(module, q, k, v, attention_mask, cache=None, cu_seq_lens_q=None, cu_seq_lens_k=None, max_seqlen_q=None,
                    max_seqlen_k=None, scaling=None, **more):
    """As transformers' flash_paged.py with flash_attn: writes the new keys and values to the cache, and reads those of
    all sequences back, concatenated."""
    if isinstance(cu_seq_lens_k, dict):
        cu_seq_lens_k, max_seqlen_k = cu_seq_lens_k["full_attention"], max_seqlen_k["full_attention"]
    k, v = cache.update(key_states=k, value_states=v, layer_idx=module.layer_idx, read_index=more["read_index"],
                        write_index=more["write_index"])
    scale = scaling if scaling is not None else module.scaling
    out = Flash.call(q.transpose(1, 2).squeeze(0).contiguous(), k.contiguous(), v.contiguous(), cu_seq_lens_q.to(torch.int32),
                     cu_seq_lens_k.to(torch.int32).clone(), int(max_seqlen_q), int(max_seqlen_k), scale)
    return out, None


AttentionInterface.register(OURS, paged_attention)
AttentionMaskInterface.register(OURS, lambda *a, **k: None)

# ---- continuous batching --------------------------------------------------------------------------------------------


class Counter:
    """Counts generated and prompt tokens where transformers records a new token."""

    def __init__(self):
        self.made = self.read = 0
        self.original = RequestState.update_and_check_completion

        def counted(state, *args, **kwargs):
            self.made += 1
            if state.generated_len() == 0:
                self.read += len(state.initial_tokens)
            return self.original(state, *args, **kwargs)
        RequestState.update_and_check_completion = counted

    def end(self):
        RequestState.update_and_check_completion = self.original


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else None


def closed_loop(manager, vocab, seconds, first, counter):
    """Runs CLIENTS requests at a time. Returns (seconds, tokens, prompt tokens) after the load filled up, and requests which ended then."""
    dice = torch.Generator().manual_seed(1)
    lengths, ended, n, mark = requests(), [], 0, None

    def add():
        n_in, n_out = next(lengths)
        manager.add_request(torch.randint(0, vocab, (n_in,), generator=dice).tolist(), max_new_tokens=n_out,
                            record_timestamps=True, eos_token_id=-1)
    for _ in range(CLIENTS):
        add()
    began = time.perf_counter()
    while (now := time.perf_counter()) < began + seconds:
        if mark is None and now > began + FILLING * seconds:
            mark = (now, counter.made, counter.read)
        result = manager.get_result(timeout=0.05)
        if result is None:
            if not manager.is_running() or manager.background_thread_status.fatal_error is not None:
                raise RuntimeError(f"its thread has ended: {manager.background_thread_status.fatal_error!r}")
            if counter.made == 0 and now > began + first:
                raise RuntimeError(f"no token within {first} s")
            continue
        if result.error is not None:
            raise RuntimeError(result.error)
        if mark is not None:
            n += 1
            ended += [result] if result.created_time > mark[0] else []
        add()
    now = time.perf_counter()
    if mark is None:
        raise RuntimeError("too slow to fill up")
    return now - mark[0], counter.made - mark[1], counter.read - mark[2], ended, n


def cache_blocks(shape):
    """The number of blocks of BLOCK tokens: for all clients, in at most four fifths of the free memory."""
    if DEVICE == "cpu":
        return 512
    free, _ = torch.cuda.mem_get_info()
    return min(CLIENTS * 576 // BLOCK, int(0.8 * free / (BLOCK * shape.token_bytes)))


def continuous(model, shape, seconds, attention, graphs):
    """Graphs are recorded for each padded size at its first use; coarse sizes keep their number small."""
    model.config._attn_implementation_internal = attention
    config = ContinuousBatchingConfig(block_size=BLOCK, num_blocks=cache_blocks(shape), max_batch_tokens=1024,
                                      max_requests_per_batch=CLIENTS, allow_block_sharing=False, use_cuda_graph=graphs,
                                      use_async_batching=graphs,
                                      **({"q_padding_interval_size": 256, "kv_padding_interval_size": 32768} if graphs else {}))
    generation = GenerationConfig(max_new_tokens=2048, do_sample=False, eos_token_id=-1, pad_token_id=0)
    counter, manager = Counter(), None
    try:
        manager = model.init_continuous_batching(generation_config=generation, continuous_batching_config=config)
        began = time.perf_counter()
        manager.warmup()
        manager.start()
        warm = time.perf_counter() - began
        took, made, read, ended, n = closed_loop(manager, shape.vocab, seconds - warm, 8, counter)
        ttft = [1e3 * (r.timestamps[0] - r.created_time) for r in ended]
        tpot = [1e3 * (r.timestamps[-1] - r.timestamps[0]) / (len(r.timestamps) - 1) for r in ended if len(r.timestamps) > 1]
        processor = manager.batch_processor
        return {"output tok/s": made / took, "total tok/s": (made + read) / took, "req/s": n / took,
                "TTFT p50, ms": percentile(ttft, 0.5), "p99": percentile(ttft, 0.99), "TPOT p50, ms": percentile(tpot, 0.5),
                "p99 ": percentile(tpot, 0.99), "warm-up, s": warm, "cache, tokens": processor.cache.num_blocks * BLOCK,
                "tokens a step, most": processor.max_batch_tokens, "measured, s": took}
    finally:
        counter.end()
        if manager is not None:
            manager.stop(block=True, timeout=5, hard_stop=True)
            manager.destroy()


# ---- static batches -------------------------------------------------------------------------------------------------

def static(model, shape, seconds):
    """Runs one batch within a time limit; it takes as many steps as its longest answer."""
    model.config._attn_implementation_internal = "sdpa"
    pool = [r for r, _ in zip(requests(), range(8 * STATIC_BATCH))]
    pool.sort(key=lambda r: r[1])
    middle = len(pool) // 2
    batch = pool[middle - STATIC_BATCH // 2:middle + STATIC_BATCH // 2]
    longest, most = max(r[0] for r in batch), max(r[1] for r in batch)
    ids, mask = torch.zeros(len(batch), longest, dtype=torch.long), torch.zeros(len(batch), longest, dtype=torch.long)
    for i, (n_in, _) in enumerate(batch):
        ids[i, longest - n_in:], mask[i, longest - n_in:] = torch.randint(0, shape.vocab, (n_in,)), 1
    ids, mask = ids.to(DEVICE), mask.to(DEVICE)

    def generate(n, share):
        began = time.perf_counter()
        answer = model.generate(input_ids=ids, attention_mask=mask, generation_config=GenerationConfig(
            max_new_tokens=n, min_new_tokens=n, do_sample=False, pad_token_id=0, max_time=seconds * share))
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began, answer.shape[1] - longest
    generate(2, 0.2)
    one, _ = generate(1, 0.1)
    took, most = generate(most, 0.65)
    made, read = sum(min(most, r[1]) for r in batch), sum(r[0] for r in batch)
    return {"output tok/s": made / took, "total tok/s": (made + read) / took, "req/s": sum(r[1] <= most for r in batch) / took, "TTFT p50, ms": 1e3 * one,
            "p99": None, "TPOT p50, ms": 1e3 * (took - one) / max(1, most - 1), "p99 ": None, "warm-up, s": None,
            "cache, tokens": None, "tokens a step, most": None, "measured, s": took}


# ---- all ------------------------------------------------------------------------------------------------------------

def attempt(what, results, f, *args):
    """Prints a row, or the reason why there is none."""
    began = time.perf_counter()
    try:
        with torch.no_grad():
            results[what] = f(*args)
        c.say(f"{what}: {results[what]['output tok/s']:.0f} output tok/s, {time.perf_counter() - began:.1f} s")
        return True
    except Exception as e:  # errors of transformers, of CUDA and ours
        c.say(f"{what}: FAILED after {time.perf_counter() - began:.1f} s: {type(e).__name__}: {str(e).strip().splitlines()[:1]}")
        traceback.print_exc()
        return False
    finally:
        gc.collect()
        if DEVICE == "cuda":
            torch.cuda.empty_cache()


def one_model(name, clock, graphs, keep):
    """Runs in its own process, since CUDA is unusable after a failed graph; `keep` stores the rows so far."""
    config = AutoConfig.from_pretrained(c.model_folder(name))
    shape, results, began = c.Shape(c.model_folder(name)), {}, time.perf_counter()
    Flash.check()
    with torch.device(DEVICE):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
    model.generation_config.eos_token_id = None
    c.say(f"{shape.name}: made in {time.perf_counter() - began:.1f} s")
    room = clock.left()
    if not graphs:  # first the variant which always works
        attempt(f"{shape.name}, static, lengths known", results, static, model, shape, 0.4 * room)
        keep(results)
        room = clock.left()
    for attention in (OURS,) if graphs else (OURS, "paged|sdpa"):
        what = f"{shape.name}, continuous, {attention.split('|')[1]}{', graphs' if graphs else ''}"
        if attempt(what, results, continuous, model, shape, min((0.65 if graphs else 0.9) * room, clock.left()), attention, graphs):
            break
        if graphs:
            return
    keep(results)
    if graphs and clock.left() > 3:
        attempt(f"{shape.name}, static, lengths known", results, static, model, shape, clock.left() - 2)
    keep(results)


def child(name, path, ends, graphs):
    threading.excepthook = lambda a: traceback.print_exception(a.exc_type, a.exc_value, a.exc_traceback)
    one_model(name, c.Deadline(ends - time.time()), graphs, lambda results: path.write_text(json.dumps(results)))
    sys.stdout.flush()
    os._exit(0 if path.exists() else 3)  # its threads may still run


def main():
    out, seconds = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 60
    if len(sys.argv) > 3:
        child(sys.argv[3], Path(sys.argv[5]), seconds, sys.argv[4] == "graphs")
    clock, results = c.Deadline(seconds), {}
    for i, name in enumerate(c.MODELS):
        if i > 0 and clock.left() < 12:
            c.say(f"{name}: no time left")
            continue
        both = clock.left() > SHORT  # else the first model gets all the time, without graphs
        ends = c.Deadline(clock.left() / (len(c.MODELS) - i if both else 1))
        path = out / f"peer-{Path(name).name}.json"
        path.unlink(missing_ok=True)
        for graphs in ("graphs", "none") if DEVICE == "cuda" and both else ("none",):
            log, left = out / f"peer-{Path(name).name}-{graphs}.log", ends.left()
            if left < 12:
                c.say(f"{name}: no time left for {graphs}")
                break
            why = c.run(log, [sys.executable, __file__, out, f"{time.time() + left:.1f}", name, graphs, path], left + 5,
                        dict(os.environ))
            said = re.findall(r"^.*(?: made in |tok/s, |FAILED|^flash|Error: ).*$", log.read_text(errors="replace"), re.M)
            c.say("\n".join(line[:300] for line in said[-8:]) + (f"\n{name}, {graphs}: {why}" if why else ""))
            if path.exists():
                results |= json.loads(path.read_text())
                break
    (out / "peer.json").write_text(json.dumps(results))
    if results:
        keys = list(next(iter(results.values())))
        c.say("")
        c.table(["transformers"] + list(results), [[k.strip()] + [r[k] for r in results.values()] for k in keys])
    sys.exit(0 if results else 1)


main()
