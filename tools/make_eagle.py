#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes folders of EAGLE-3 layers with random weights for small models of t/data/models, and what they guess behind each
length of the models' greedy answers.

The layer is written here from its definition (Li et al., arXiv 2503.01840; vLLM's llama_eagle3.py, SGLang's llama_eagle3.py
and SpecForge's llama3_eagle.py agree on it): rows that three layers of the model read, side by side, through fc; attention
over [norm of the embedding, norm of the row], added to the row; an MLP; the next guess is made of the sum, the head reads its
norm. d2t says how far a row of the head is behind the token's id.

  tools/make_eagle.py --out t/data/models
"""
import argparse
import json
import math
import shutil
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

# model: the list in config.json (None: the usual layers), the inputs of which layers these are, tokens of the head, and
# whether the folder has an embedding and names the layer as a number
MODELS = {"llama": ([0, 1, 1], [0, 1, 1], 200, False), "command-r7b": (None, [2, 2, 1], 64, True)}
GUESSES = 3
GAP = 0.004  # between the two likeliest tokens, at least
HEADS, KEYS, DIM, FFN, EPSILON, THETA = 4, 2, 16, 96, 1e-5, 10000.0


class Norm(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * self.weight


def rotate(x, positions):
    """Rotary positions of (n, heads, DIM), halves beside each other."""
    angles = positions[:, None].float() * THETA**(-torch.arange(0, DIM, 2).float() / DIM)
    cos, sin = (f(torch.cat([angles, angles], -1))[:, None] for f in (torch.cos, torch.sin))
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Eagle(torch.nn.Module):
    def __init__(self, hidden, rows):
        super().__init__()
        linear = lambda i, o: torch.nn.Linear(i, o, bias=False)
        self.fc = linear(3 * hidden, hidden)
        self.input_layernorm, self.hidden_norm = Norm(hidden), Norm(hidden)
        self.post_attention_layernorm, self.norm = Norm(hidden), Norm(hidden)
        self.q_proj, self.o_proj = linear(2 * hidden, HEADS * DIM), linear(HEADS * DIM, hidden)
        self.k_proj, self.v_proj = linear(2 * hidden, KEYS * DIM), linear(2 * hidden, KEYS * DIM)
        self.gate_proj, self.up_proj, self.down_proj = linear(hidden, FFN), linear(hidden, FFN), linear(FFN, hidden)
        self.lm_head = linear(hidden, rows)

    def forward(self, embedded, x):
        """Rows of which the next guess is made, of embeddings and hidden rows (n, hidden)."""
        n = len(x)
        both = torch.cat([self.input_layernorm(embedded), self.hidden_norm(x)], -1)
        positions = torch.arange(n)
        q = rotate(self.q_proj(both).view(n, HEADS, DIM), positions).transpose(0, 1)
        k = rotate(self.k_proj(both).view(n, KEYS, DIM), positions).transpose(0, 1).repeat_interleave(HEADS // KEYS, 0)
        v = self.v_proj(both).view(n, KEYS, DIM).transpose(0, 1).repeat_interleave(HEADS // KEYS, 0)
        scores = (q @ k.transpose(1, 2) / math.sqrt(DIM)).masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
        x = x + self.o_proj((scores.softmax(-1) @ v).transpose(0, 1).reshape(n, HEADS * DIM))
        h = self.post_attention_layernorm(x)
        return x + self.down_proj(torch.nn.functional.silu(self.gate_proj(h)) * self.up_proj(h))

    def guess(self, table, tokens_of, ids, joined):
        """Guesses behind a text whose last token the model has not computed, and the smallest gap on the way."""
        tokens, rows, gap, out = ids[1:], self.fc(joined[:len(ids) - 1]), math.inf, []
        for _ in range(GUESSES):
            last = self.forward(table[tokens], rows)[-1]
            best = self.lm_head(self.norm(last)).topk(2)
            gap = min(gap, (best.values[0] - best.values[1]).item())
            token = tokens_of[best.indices[:1]]
            out.append(token.item())
            tokens, rows = torch.cat([tokens, token]), torch.cat([rows, last[None]])
        return out, gap


def randomise(module, generator):
    for p in module.parameters():
        noise = torch.randn(p.shape, generator=generator)
        p.copy_(1.3 / math.sqrt(p.shape[-1]) * noise if p.dim() == 2 else 1 + 0.2 * noise)
        p.copy_(p.to(torch.bfloat16).float())
    module.lm_head.weight *= 16  # so that the likeliest token is one by far


def tensors_of(eagle, layer):
    out = {}
    for name, p in eagle.state_dict().items():
        part = name.split(".")[0]
        if part in ("q_proj", "k_proj", "v_proj", "o_proj"):
            name = f"{layer}self_attn.{name}"
        elif part in ("gate_proj", "up_proj", "down_proj"):
            name = f"{layer}mlp.{name}"
        elif part in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
            name = layer + name
        out[name] = p.to(torch.bfloat16).contiguous()
    return out


@torch.no_grad()
def make(name, out):
    listed, layers, rows, own = MODELS[name]
    source, folder = out / name, out / f"{name}-eagle3"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, attn_implementation="eager").eval()
    hidden, vocab = model.config.hidden_size, model.config.vocab_size
    reference = json.loads((source / "reference.json").read_text())
    texts = [torch.tensor(p["ids"] + p["greedy"]) for p in reference["prompts"]]
    states = [model(input_ids=ids[None], output_hidden_states=True, use_cache=False).hidden_states for ids in texts]
    joined = [torch.cat([s[i][0] for i in layers], -1) for s in states]
    for seed in range(1, 400):
        generator = torch.Generator().manual_seed(seed)
        eagle = Eagle(hidden, rows)
        randomise(eagle, generator)
        tokens_of = torch.randperm(vocab, generator=generator)[:rows].sort().values
        table = model.get_input_embeddings().weight
        if own:
            table = torch.randn(table.shape, generator=generator).to(torch.bfloat16).float()
        least, prompts = math.inf, []
        for prompt, ids, inputs in zip(reference["prompts"], texts, joined):
            guesses = []
            for n in range(len(prompt["ids"]) + 1, len(ids)):
                guess, gap = eagle.guess(table, tokens_of, ids[:n], inputs)
                guesses.append(guess)
                least = min(least, gap)
                if least < GAP:
                    break
            prompts.append({"guesses": guesses})
            if least < GAP:
                break
        if least >= GAP:
            break
    else:
        raise SystemExit(f"{name}: no seed has gaps of {GAP}")
    state = tensors_of(eagle, "layers.0." if own else "midlayer.")
    if rows < vocab:
        state["d2t"] = tokens_of - torch.arange(rows)
        state["t2d"] = torch.zeros(vocab, dtype=torch.bool).index_fill(0, tokens_of, True)
    if own:
        state["embed_tokens.weight"] = table.to(torch.bfloat16)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": hidden, "vocab_size": vocab,
        "draft_vocab_size": rows, "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KEYS,
        "head_dim": DIM, "intermediate_size": FFN, "hidden_act": "silu", "rms_norm_eps": EPSILON, "rope_theta": THETA,
        "max_position_embeddings": 2048, "tie_word_embeddings": False, "torch_dtype": "bfloat16"
    }
    if listed:
        config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": listed, "use_aux_hidden_state": True}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    text = json.dumps({
        "made_by": "tools/make_eagle.py", "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
        "seed": seed, "prompts": prompts
    }, indent=1)
    (folder / "heads.json").write_text(text.replace("\n     ", " ").replace("\n    ]", "]") + "\n")
    distinct = {t for p in prompts for g in p["guesses"] for t in g}
    print(f"{name}: seed {seed}, gap {least:.4f}, {len(distinct)} distinct guesses", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.names or MODELS:
        make(name, args.out)


if __name__ == "__main__":
    main()
