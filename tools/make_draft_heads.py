#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds to copies of small models of t/data/models a layer that guesses (multi-token prediction), with random weights,
and writes what it guesses behind each length of the models' greedy answers.

transformers leaves such layers out of its models. The layer here is the decoder layer of transformers that the model
itself has, behind the two norms and the product that vLLM (qwen3_next_mtp.py, deepseek_mtp.py) and SGLang
(deepseek_nextn.py) put before it: embedding of the next token first, hidden row second. The hidden rows are those
behind the final norm, the layer's own ones too, as in SGLang.

  tools/make_draft_heads.py --out t/data/models
"""
import argparse
import json
import math
import shutil
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

# model: seed, prefix of the layer, prefix of its ends, names of join, of its two norms and of the last norm, a key of
# config.json that says how many such layers there are
QWEN = ("mtp.layers.0.", "mtp.", "fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm", "mtp_num_hidden_layers")
NEXTN = ("model.layers.{n}.", "model.layers.{n}.", "eh_proj", "enorm", "hnorm", "shared_head.norm",
         "num_nextn_predict_layers")
MODELS = {"qwen3.5": (11, QWEN), "qwen3.5-moe": (7, QWEN), "qwen3-next": (3, QWEN), "deepseek-v3": (5, NEXTN),
          "glm-4.5": (2, NEXTN)}
GUESSES = 3
GAP = 0.004  # between the two likeliest tokens, at least


class Heads(torch.nn.Module):
    """The layer that guesses for a text model."""

    def __init__(self, text, head, attends):
        super().__init__()
        config = text.config
        self.text, self.head = [text], [head]  # not parts of this module
        norm = type(text.norm)
        self.join = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.join_embedding = norm(config.hidden_size, eps=config.rms_norm_eps)
        self.join_hidden = norm(config.hidden_size, eps=config.rms_norm_eps)
        self.norm = norm(config.hidden_size, eps=config.rms_norm_eps)
        self.block = type(text.layers[attends])(config, attends)

    def forward(self, tokens, hidden):
        """Rows (n, hidden) behind the last norm, for tokens 1 .. n and the hidden rows 0 .. n - 1."""
        text, n = self.text[0], len(tokens)
        x = torch.cat([self.join_embedding(text.embed_tokens(tokens)), self.join_hidden(hidden)], -1)
        x = self.join(x)[None]
        positions = torch.arange(n)[None]
        grid = positions[None].expand(3, 1, n) if "qwen3_5" in text.config.model_type else positions
        mask = torch.full((n, n), torch.finfo(torch.float32).min).triu(1)[None, None]
        x = self.block(x, position_embeddings=text.rotary_emb(x, grid), attention_mask=mask, position_ids=positions)
        return self.norm(x[0])

    def guess(self, ids, hidden):
        """Guesses behind a text whose last token the model has not computed yet, and the smallest gap on the way."""
        tokens, rows, gap, out = ids[1:], hidden[:len(ids) - 1], math.inf, []
        for _ in range(GUESSES):
            last = self.forward(tokens, rows)[-1]
            best = self.head[0](last).topk(2)
            gap = min(gap, (best.values[0] - best.values[1]).item())
            out.append(best.indices[0].item())
            tokens = torch.cat([tokens, best.indices[:1]])
            rows = torch.cat([rows, last[None]])
        return out, gap


def randomise(module, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in list(module.named_parameters()) + list(module.named_buffers()):
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() >= 2:
                p.copy_(1.3 / math.sqrt(p.shape[-1]) * noise)
            elif name.endswith("correction_bias"):
                p.copy_(0.1 * noise)
            else:
                p.add_(0.2 * noise)
            p.copy_(p.to(torch.bfloat16).float())


def tensors_of(heads, names, n, stacked):
    layer, ends, join, embedding, hidden, norm, _ = names
    layer, ends = layer.format(n=n), ends.format(n=n)
    out = {}
    for name, p in heads.state_dict().items():
        p = p.to(torch.bfloat16).contiguous()
        head, rest = name.split(".", 1)
        if head != "block":
            out[ends + {"join": join, "join_embedding": embedding, "join_hidden": hidden, "norm": norm}[head] + "." +
                rest] = p
        elif rest.endswith("experts.gate_up_proj") and not stacked:
            for e, both in enumerate(p):
                gate, up = both.chunk(2)
                out[layer + rest.replace("gate_up_proj", f"{e}.gate_proj.weight")] = gate.contiguous()
                out[layer + rest.replace("gate_up_proj", f"{e}.up_proj.weight")] = up.contiguous()
        elif rest.endswith("experts.down_proj") and not stacked:
            for e, down in enumerate(p):
                out[layer + rest.replace("down_proj", f"{e}.down_proj.weight")] = down.contiguous()
        else:
            out[layer + rest] = p
    return out


def write(path, value):
    path.write_text(json.dumps(value, indent=1).replace("\n     ", " ").replace("\n    ]", "]") + "\n")


@torch.no_grad()
def make(name, out):
    seed, names = MODELS[name]
    source, folder = out / name, out / f"{name}-mtp"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    config = json.loads((source / "config.json").read_text())
    kind = transformers.AutoModelForImageTextToText if "vision_config" in config else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(source, dtype=torch.float32, attn_implementation="eager").eval()
    text = getattr(model.model, "language_model", model.model)
    text_config = config.get("text_config", config)
    layers = text_config["num_hidden_layers"]
    kinds = text_config.get("layer_types") or ["full_attention"] * layers
    attends = max(i for i in range(layers) if kinds[i] == "full_attention")
    reference = json.loads((source / "reference.json").read_text())
    for seed in range(seed, seed + 200):
        heads = Heads(text, model.lm_head, attends).eval()
        randomise(heads, seed)
        least, prompts = math.inf, []
        for prompt in reference["prompts"]:
            ids = torch.tensor(prompt["ids"] + prompt["greedy"])
            hidden = text(input_ids=ids[None], use_cache=False).last_hidden_state[0]
            both = [heads.guess(ids[:n], hidden) for n in range(len(prompt["ids"]) + 1, len(ids))]
            prompts.append({"guesses": [g for g, _ in both]})
            least = min([least] + [gap for _, gap in both])
            if least < GAP:
                break
        if least >= GAP:
            break
    else:
        raise SystemExit(f"{name}: no seed has gaps of {GAP}")
    state = load_file(source / "model.safetensors") | tensors_of(heads, names, layers, "qwen3.5" in name)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    text_config[names[-1]] = 1
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    write(
        folder / "heads.json", {
            "made_by": "tools/make_draft_heads.py", "transformers": transformers.__version__,
            "torch": torch.__version__.split("+")[0], "seed": seed, "prompts": prompts
        })
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
