# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny random models under t/data/models and their logits by transformers and torch.

    make_reference_models.py --out t/data/models [NAME...]

A folder holds config.json and safetensors as Hugging Face folders do, and
  reference_logits.bin  little-endian float32, the logits of every position of each prompt, one prompt after the other
  reference.json        prompts: ids, logits_offset (in floats), rows, greedy (64 ids), min_gap (smallest distance of
                        the two best logits along the greedy path)
Everything is computed in float32 with plain ("eager") attention; a model stored in 16 bits is first rounded, then
computed in float32 from the rounded weights. Weights, norm weights and biases are random but scaled so that attention
is not uniform and the logits spread. Of 1,024 random prompts per length the one with the widest min_gap is
kept, so that a correct engine cannot pick another token because of rounding.
"""
import argparse
import json
import math
import os
import re
import shutil
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from safetensors.torch import save_file

PROMPT_LENGTHS = [5, 23, 70]
GREEDY_STEPS = 64
CANDIDATES = 1024
MIN_DISTINCT = 20  # greedy paths that only repeat a few tokens would test little

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256, "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2,
    "hidden_act": "silu", "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "rope_scaling": None, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False, "bos_token_id": 1,
    "eos_token_id": 2, "torch_dtype": "float32"
}
MISTRAL = {
    "architectures": ["MistralForCausalLM"], "model_type": "mistral", "vocab_size": 259, "hidden_size": 64,
    "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1,
    "head_dim": 24, "hidden_act": "silu", "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0, "sliding_window": None, "tie_word_embeddings": False, "bos_token_id": 1,
    "eos_token_id": 2, "torch_dtype": "float32"
}
OPT = {
    "architectures": ["OPTForCausalLM"
                      ], "model_type": "opt", "vocab_size": 272, "hidden_size": 64, "word_embed_proj_dim": 64,
    "ffn_dim": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "activation_function": "relu",
    "max_position_embeddings": 256, "do_layer_norm_before": True, "layer_norm_elementwise_affine": True,
    "enable_bias": True, "_remove_final_layer_norm": False, "tie_word_embeddings": True, "dropout": 0.1,
    "attention_dropout": 0.0, "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1, "torch_dtype": "float32"
}
NEOX = {
    "architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "vocab_size": 256, "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_act": "gelu",
    "max_position_embeddings": 256, "rotary_pct": 0.25, "rotary_emb_base": 10000, "use_parallel_residual": True,
    "attention_bias": True, "layer_norm_eps": 1e-5, "tie_word_embeddings": False, "bos_token_id": 0,
    "eos_token_id": 0, "torch_dtype": "float32"
}
BF16 = {"torch_dtype": "bfloat16"}
QWEN2 = LLAMA | BF16 | {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "num_key_value_heads": 8, "rope_theta": 1000000.0,
    "use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28
}
QWEN3 = LLAMA | BF16 | {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 16, "rope_theta": 1000000.0,
    "num_key_value_heads": 4, "use_sliding_window": False, "sliding_window": None, "tie_word_embeddings": True
}
SMOLLM3 = LLAMA | BF16 | {
    "architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "num_hidden_layers": 3,
    "num_key_value_heads": 8, "rope_theta": 5000000.0, "no_rope_layer_interval": 2, "no_rope_layers": [1, 0, 1],
    "tie_word_embeddings": True, "pad_token_id": 0, "use_sliding_window": False
}
OLMO2 = LLAMA | BF16 | {
    "architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", "num_key_value_heads": 4, "rope_theta": 500000.0,
    "pad_token_id": 0
}
PHI3 = LLAMA | BF16 | {
    "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "num_key_value_heads": 4,
    "partial_rotary_factor": 0.75, "original_max_position_embeddings": 256, "pad_token_id": 0, "sliding_window": 20
}
GEMMA2 = LLAMA | BF16 | {
    "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 24, "sliding_window": 16, "num_hidden_layers": 3,
    "attn_logit_softcapping": 5.0, "final_logit_softcapping": 15.0, "tie_word_embeddings": True, "pad_token_id": 0
}
GEMMA3 = GEMMA2 | {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 3,
    "num_key_value_heads": 1, "sliding_window_pattern": 2, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    "attn_logit_softcapping": None, "final_logit_softcapping": None
}
# Google's folders say this of the text part; the rest of it is as transformers has it.
GEMMA3_TEXT = {
    key: GEMMA3[key]
    for key in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                "num_key_value_heads", "head_dim", "max_position_embeddings", "query_pre_attn_scalar", "sliding_window",
                "sliding_window_pattern", "rope_scaling")
} | {"model_type": "gemma3_text"}
GEMMA3_IMAGES = {
    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": GEMMA3_TEXT,
    "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 32, "image_size": 16,
                      "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 8},
    "mm_tokens_per_image": 4, "image_token_index": 253, "boi_token_index": 254, "eoi_token_index": 255,
    "eos_token_id": [2, 3], "torch_dtype": "bfloat16"
}
MIXTRAL = LLAMA | BF16 | {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "intermediate_size": 48, "num_key_value_heads": 4,
    "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None, "rope_theta": 1000000.0
}
QWEN3_MOE = QWEN3 | {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_hidden_layers": 3, "num_experts": 8,
    "num_experts_per_tok": 3, "moe_intermediate_size": 24, "norm_topk_prob": False, "decoder_sparse_step": 1,
    "mlp_only_layers": [1], "tie_word_embeddings": False
}
GPT_OSS = LLAMA | BF16 | {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "intermediate_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16,
    "layer_types": ["sliding_attention", "full_attention"], "attention_bias": True, "swiglu_limit": 7.0,
    "rope_theta": 150000.0, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                             "truncate": False, "original_max_position_embeddings": 64},
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn",
                                                                             "model.layers.*.mlp.router"]}
}
LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.1, 1.25], "long_factor": [1.2, 2.5, 6.0]}
LLAMA3_ROPE = {
    "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64
}

# name: (seed, config, stored dtype, shards)
MODELS = {
    "llama": (1, LLAMA, torch.float32, 1),
    "llama-bf16": (2, LLAMA | {"torch_dtype": "bfloat16"}, torch.bfloat16, 1),
    "llama-f16": (3, LLAMA | {"torch_dtype": "float16"}, torch.float16, 1),
    "llama-sharded": (4, LLAMA | {"num_hidden_layers": 3, "num_key_value_heads": 8, "tie_word_embeddings": True},
                      torch.float32, 3),
    "llama3-rope": (5, LLAMA | {"num_attention_heads": 4, "rope_theta": 500000.0, "rope_scaling": LLAMA3_ROPE},
                    torch.float32, 1),
    "llama-linear-rope": (6, LLAMA | {"num_attention_heads": 4, "rope_scaling": {"type": "linear", "factor": 4.0}},
                          torch.float32, 1),
    "mistral": (7, MISTRAL, torch.float32, 1),
    "mistral-window": (12, MISTRAL | {"sliding_window": 16}, torch.float32, 1),
    "llama-biases": (13, LLAMA | {"attention_bias": True, "mlp_bias": True}, torch.float32, 1),
    "opt": (8, OPT, torch.float32, 1),
    "opt-plain": (14, OPT | {"enable_bias": False, "layer_norm_elementwise_affine": False, "_remove_final_layer_norm": True}, torch.float32, 1),
    "opt-350m-like": (9, OPT | {"do_layer_norm_before": False, "word_embed_proj_dim": 32}, torch.float32, 1),
    "neox": (10, NEOX, torch.float32, 1),
    "qwen2": (15, QWEN2, torch.bfloat16, 1),
    "qwen2-window": (16, QWEN2 | {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
                     torch.bfloat16, 1),
    "qwen3": (17, QWEN3, torch.bfloat16, 1),
    "qwen3-yarn": (18, QWEN3 | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                                                 "original_max_position_embeddings": 64}}, torch.bfloat16, 1),
    "smollm3": (19, SMOLLM3, torch.bfloat16, 1),
    "olmo2": (20, OLMO2, torch.bfloat16, 1),
    "phi3": (21, PHI3, torch.bfloat16, 1),
    "phi3-long": (22, PHI3 | {"original_max_position_embeddings": 32, "rope_scaling": LONGROPE,
                              "sliding_window": None}, torch.bfloat16, 1),
    "gemma2": (34, GEMMA2, torch.bfloat16, 1),
    "gemma3": (24, GEMMA3, torch.bfloat16, 1),
    "gemma3-images": (29, GEMMA3_IMAGES, torch.bfloat16, 1),
    "mixtral": (25, MIXTRAL, torch.bfloat16, 1),
    "qwen3-moe": (26, QWEN3_MOE, torch.bfloat16, 1),
    "gpt-oss": (27, GPT_OSS, torch.bfloat16, 1),
    "neox-serial": (11, NEOX | {"use_parallel_residual": False, "rotary_pct": 0.5}, torch.float32, 1),
}


def randomise(model, seed):
    """Weights of a size that keeps activations near one and makes logits of about +-4. A tied embedding is kept
    small and the last norm made large instead: else each token would mostly predict itself."""
    generator = torch.Generator().manual_seed(seed)
    tied = model.config.tie_word_embeddings
    last_norm = ("model.norm.weight", "model.decoder.final_layer_norm.weight", "model.language_model.norm.weight")
    small = tied and any(name in last_norm for name, _ in model.named_parameters())
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if name.endswith(("lm_head.weight", "embed_out.weight")):
                p.copy_(4 / math.sqrt(p.shape[1]) * noise)
            elif "embed_positions" in name:
                p.copy_((0.1 if small else 0.4) * noise)
            elif "embed" in name and p.dim() == 2:
                p.copy_((1 / math.sqrt(p.shape[1]) if small else 4 / math.sqrt(p.shape[1]) if tied else 1.0) * noise)
            elif p.dim() == 3:
                inputs = 1 if model.config.model_type == "gpt_oss" else 2
                p.copy_(1.3 / math.sqrt(p.shape[inputs]) * noise)
            elif p.dim() == 2:
                p.copy_((0.5 if "fc2" in name else 1.3) / math.sqrt(p.shape[1]) *
                        noise)  # relu's mean would drown the rest
            elif name.endswith("norm.weight"):
                p.copy_((4.0 if small and name in last_norm else 1.0) * (1.0 + 0.2 * noise))
            else:
                p.copy_((0.05 if small else 0.2) * noise)


def tensors_of(model, dtype):
    """The state as published folders store it: contiguous, the tied output left out."""
    state = {n: p.detach().to(dtype).contiguous().clone() for n, p in model.state_dict().items()}
    output = state.pop("lm_head.weight", None)
    if output is not None and not model.config.tie_word_embeddings:
        state["embed_out.weight" if model.config.model_type == "gpt_neox" else "lm_head.weight"] = output
    if model.config.model_type == "gemma3":  # as Google's folders name them
        state = {re.sub(r"^model\.language_model\.", "language_model.model.", n).removeprefix("model."): p
                 for n, p in state.items()}
    return split_experts(state, model.config)


MXFP4_VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def to_mxfp4(p):
    """(experts, inputs, outputs) to blocks (experts, outputs, inputs / 32, 16), scales, and what they stand for."""
    x = p.transpose(1, 2).reshape(p.shape[0], p.shape[2], -1, 32)
    scale = torch.floor(torch.log2(x.abs().amax(-1, keepdim=True))) - 2
    codes = ((x / 2**scale)[..., None] - MXFP4_VALUES).abs().argmin(-1)
    stored = (MXFP4_VALUES[codes] * 2**scale).reshape(p.shape[0], p.shape[2], -1).transpose(1, 2)
    blocks = (codes[..., ::2] | codes[..., 1::2] << 4).to(torch.uint8)
    return blocks.contiguous(), (scale[..., 0] + 127).to(torch.uint8).contiguous(), stored


@torch.no_grad()
def quantise_experts(model, state):
    """The experts in blocks, in the file as in the model, the rest rounded as it is stored."""
    for name, p in model.named_parameters():
        if name.endswith("_proj") and ".experts." in name:
            blocks, scales, stored = to_mxfp4(p)
            del state[name]
            state[name + "_blocks"], state[name + "_scales"] = blocks, scales
            p.copy_(stored)
        else:
            p.copy_(state[name].float())


def split_experts(state, config):
    """Experts one by one, as Mixtral's and Qwen's folders have them."""
    mixtral = config.model_type == "mixtral"
    if not mixtral and config.model_type != "qwen3_moe":
        return state
    names = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    out = {}
    for name, p in state.items():
        if mixtral:
            name = name.replace(".mlp.", ".block_sparse_moe.")
        if name.endswith("experts.gate_up_proj"):
            for e, both in enumerate(p):
                gate, up = both.chunk(2)
                out[name.replace("gate_up_proj", f"{e}.{names[0]}.weight")] = gate.contiguous()
                out[name.replace("gate_up_proj", f"{e}.{names[1]}.weight")] = up.contiguous()
        elif name.endswith("experts.down_proj"):
            for e, down in enumerate(p):
                out[name.replace("down_proj", f"{e}.{names[2]}.weight")] = down.contiguous()
        else:
            out[name] = p
    return out


def add_old_buffers(state, config):
    """Published Pythia folders also carry buffers that a reader has to pass over."""
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    rotary = int(head_dim * config["rotary_pct"])
    for layer in range(config["num_hidden_layers"]):
        prefix = f"gpt_neox.layers.{layer}.attention."
        state[prefix + "bias"] = torch.ones(1, 1, 8, 8, dtype=torch.bool).tril()
        state[prefix + "masked_bias"] = torch.tensor(-1e9)
        state[prefix + "rotary_emb.inv_freq"] = 10000.0**(-torch.arange(0, rotary, 2) / rotary)


def save_weights(state, folder, shards):
    if shards == 1:
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = list(state)
    share = -(-len(names) // shards)
    where = {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {n: state[n] for n in names[i * share:(i + 1) * share]}
        save_file(part, folder / file, metadata={"format": "pt"})
        where |= {n: file for n in part}
    size = sum(t.numel() * t.element_size() for t in state.values())
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(where.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


@torch.no_grad()
def greedy(model, ids):
    """Greedy continuation of a batch of prompts: (ids, smallest gap on the way) for each."""
    cache, new, path, gap = None, ids, [], torch.full((ids.shape[0], ), math.inf)
    for _ in range(GREEDY_STEPS):
        out = model(new, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        best = out.logits[:, -1].topk(2)
        gap = torch.minimum(gap, best.values[:, 0] - best.values[:, 1])
        new = best.indices[:, :1]
        path.append(new)
    return torch.cat(path, 1), gap


def choose_prompt(model, length, vocab, generator):
    candidates = torch.randint(3, vocab, (CANDIDATES, length), generator=generator)
    path, gap = greedy(model, candidates)
    distinct = torch.tensor([len(set(row.tolist())) for row in path])
    gap[distinct < MIN_DISTINCT] = 0
    return candidates[gap.argmax()]


@torch.no_grad()
def reference(model, vocab, seed):
    generator = torch.Generator().manual_seed(1000 + seed)
    prompts, logits, offset = [], [], 0
    for length in PROMPT_LENGTHS:
        ids = choose_prompt(model, length, vocab, generator)
        path, gap = greedy(model, ids[None])
        whole = model(torch.cat([ids, path[0]])[None], use_cache=False).logits[0]
        assert whole[length - 1:-1].argmax(1).tolist() == path[0].tolist(), "cached and whole runs differ"
        rows = model(ids[None], use_cache=False).logits[0]
        prompts.append({
            "ids": ids.tolist(), "logits_offset": offset, "rows": length, "greedy": path[0].tolist(),
            "min_gap": round(gap.item(), 5)
        })
        logits.append(rows.contiguous())
        offset += rows.numel()
    return prompts, torch.cat(logits)


def write_json(path, value):
    text = json.dumps(value, indent=1)
    path.write_text(re.sub(r"\[\s+([-\d,\s]+?)\s+\]", lambda m: "[" + " ".join(m[1].split()) + "]", text) + "\n")


def always_long(model):
    """The long factors at every length, as a server has them whose longest context needs them: transformers changes
    over in the middle of a text, with the keys before as they are."""
    rope = model.model.rotary_emb
    rope(torch.zeros(1, 1), torch.tensor([[model.config.max_position_embeddings - 1]]))
    rope.original_inv_freq = rope.inv_freq.clone()


def make(name, out):
    seed, config, dtype, shards = MODELS[name]
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    parsed = transformers.AutoConfig.from_pretrained(folder)
    kind = transformers.AutoModelForImageTextToText if "vision_config" in config else transformers.AutoModelForCausalLM
    model = kind.from_config(parsed, dtype=torch.float32, attn_implementation="eager")
    randomise(model, seed)
    state = tensors_of(model, dtype)
    if name == "neox":
        add_old_buffers(state, config)
    if name == "gpt-oss":
        quantise_experts(model, state)
    save_weights(state, folder, shards)
    if name != "gpt-oss":
        model, info = kind.from_pretrained(folder,
                                           dtype=torch.float32,
                                           attn_implementation="eager",
                                           output_loading_info=True)
        assert not info["missing_keys"], info
    model.eval()
    if "long" in name:
        always_long(model)
    vocab = config.get("text_config", config)["vocab_size"]
    prompts, logits = reference(model, vocab, seed)
    logits.numpy().astype("<f4").tofile(folder / "reference_logits.bin")
    write_json(
        folder / "reference.json", {
            "made_by": "tools/make_reference_models.py", "transformers": transformers.__version__,
            "torch": torch.__version__.split("+")[0], "seed": seed, "vocab_size": vocab,
            "prompts": prompts
        })
    print(
        f"{name}: {sum(t.numel() for t in state.values())} weights, logits std {logits.std():.2f}, min_gap "
        f"{min(p['min_gap'] for p in prompts):.4f}, distinct greedy ids {[len(set(p['greedy'])) for p in prompts]}",
        flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in args.names or MODELS:
        make(name, args.out)


if __name__ == "__main__":
    main()
