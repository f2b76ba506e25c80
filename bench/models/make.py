# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny models of families.py with their references, as t/data/models has them:

    make.py --out FOLDER [NAME...]

A folder is written by transformers' save_pretrained, in bf16; the reference is computed in f32 of those numbers. See
tools/make_reference_models.py for the reference's files. A family that llama.cpp's converter knows has a model.gguf
too (with the package gguf), whose tensors have the names of that package."""
import argparse
import importlib.util
import json
import math
import os
import shutil
import sys
import types
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers

sys.path.insert(0, str(Path(__file__).parent))
from families import FAMILIES, configuration
import wide

spec = importlib.util.spec_from_file_location(
    "reference_models", Path(__file__).resolve().parents[2] / "tools/make_reference_models.py")
reference_models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference_models)
reference_models.PROMPT_LENGTHS = [5, 40]
reference_models.CANDIDATES = 256
reference_models.MIN_DISTINCT = 12


@torch.no_grad()
def randomise(model, seed, tied):
    """As make_reference_models does, for any names: products keep the size of what they multiply, the head spreads its
    logits, and a tied embedding is small beside the last norm."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        leaf = name.rsplit(".", 2)[-2] if name.endswith((".weight", ".bias")) else name.rsplit(".", 1)[-1]
        if leaf in ("lm_head", "embed_out"):
            p.copy_(4 / math.sqrt(p.shape[-1]) * noise if p.dim() == 2 else 0.2 * noise)
        elif leaf in ("embed_tokens", "embed_tokens_per_layer", "wte", "word_embeddings"):
            p.copy_((1 / math.sqrt(p.shape[1]) if tied else 1.0) * noise)
        elif leaf in ("modality_router", "prediction_coefs", "correction_coefs"):
            p.copy_((math.sqrt(p.shape[1]) / 4 if leaf == "modality_router" else 0.3) * noise)  # it reads x / hidden
        elif leaf == "wpe":
            p.copy_((0.1 if tied else 0.4) * noise)
        elif leaf in ("gate_up_proj", "down_proj") and type(model).__name__.startswith(("GptOss", "Llama4")):
            p.copy_(1.3 / math.sqrt(p.shape[1]) * noise)  # (experts, inputs, outputs)
        elif p.dim() >= 2 and "layernorm" not in leaf and "norm" not in leaf:
            inputs = p.shape[0] if type(model).__name__.startswith("GPT2") else p.shape[-1]
            p.copy_(1.3 / math.sqrt(inputs) * noise)
        elif name.endswith("bias"):
            p.copy_((0.05 if tied else 0.2) * noise)
        elif leaf in ("q_norm", "k_norm") and type(model).__name__.startswith(("Gemma4", "Gemma3n")):
            p.copy_(0.5 + 0.1 * noise)  # scores have no other scale
        elif "norm" in leaf or leaf.startswith("ln"):
            kind = type(model).__name__
            raised = "Qwen3Next" in kind or "Qwen3_5" in kind  # 1 is added to all of them but that of a delta net
            offset = 0.0 if "1P" in kind or "NemotronFor" in kind or raised and "linear_attn" not in name else 1.0
            last = leaf in ("norm", "ln_f", "final_layernorm", "norm_f", "embedding_norm") and tied
            p.copy_((4.0 if last else 1.0) * (1.0 + 0.2 * noise) - 1.0 + offset)
        else:
            p.copy_(0.5 + 0.2 * noise)


@torch.no_grad()
def correct(model, seed):
    """The biases by which experts are chosen are buffers, or parameters without gradients."""
    generator = torch.Generator().manual_seed(seed + 1)
    for name, p in list(model.named_buffers()) + list(model.named_parameters()):
        if name.endswith("e_score_correction_bias"):
            p.copy_(0.2 * torch.randn(p.shape, generator=generator))
        if name.endswith("layer_scalar"):
            p.copy_(0.7 + 0.2 * torch.randn(p.shape, generator=generator))


def build(f, seed):
    """The model in f32, its numbers rounded to bf16."""
    config = configuration(transformers, f)
    config._attn_implementation = "eager"
    kind = transformers.AutoModelForImageTextToText if f["text"] is not None else transformers.AutoModelForCausalLM
    model = kind.from_config(config, dtype=torch.float32, attn_implementation="eager")
    randomise(model, seed, config.tie_word_embeddings)
    correct(model, seed)
    with torch.no_grad():
        for p in list(model.parameters()) + [b for n, b in model.named_buffers() if n.endswith(("correction_bias", "layer_scalar"))]:
            p.copy_(p.to(torch.bfloat16).float())
    return kind, model.eval()


def drop_images(folder):
    """Leaves out of a folder the tensors that are not of the text, which are passed over anyway."""
    from safetensors.torch import load_file, save_file
    path = folder / "model.safetensors"
    state = {n: p for n, p in load_file(path).items() if not any(part in n for part in ("visual", "vision", "projector"))}
    save_file(state, path, metadata={"format": "pt"})


def turn_experts(folder):
    """The hub's folders of Qwen3-VL-MoE have experts as (inputs, outputs), transformers saves them otherwise."""
    from safetensors.torch import load_file, save_file
    path = folder / "model.safetensors"
    state = {n: p.transpose(1, 2).contiguous() if ".experts." in n else p for n, p in load_file(path).items()}
    save_file(state, path, metadata={"format": "pt"})


def rename_kimi(folder):
    """transformers 5.24 saves the text's layers under the name that the published folders have in the encoder of images;
    the class has another name there, too."""
    from safetensors.torch import load_file, save_file
    path = folder / "config.json"
    path.write_text(path.read_text().replace('"Kimi_K25For', '"KimiK25For'))
    path = folder / "model.safetensors"
    state = {n.replace("language_model.model.blocks.", "language_model.model.layers."): p for n, p in load_file(path).items()}
    save_file(state, path, metadata={"format": "pt"})


def rename_minicpm(folder):
    """MiniCPM's own class is not in transformers: a Granite with those factors computes the same."""
    path = folder / "config.json"
    c = json.loads(path.read_text())
    c |= {"architectures": ["MiniCPMForCausalLM"], "model_type": "minicpm",
          "scale_emb": c.pop("embedding_multiplier"),
          "scale_depth": c.pop("residual_multiplier") * math.sqrt(c["num_hidden_layers"]),
          "dim_model_base": c["hidden_size"] / c.pop("logits_scaling")}
    c.pop("attention_multiplier")
    path.write_text(json.dumps(c, indent=2) + "\n")


def rename_mimo(folder):
    """MiMo's own class is not in transformers either: it is Qwen2's beside layers for further tokens, which the model
    does not run by itself."""
    from safetensors.torch import load_file, save_file
    path = folder / "config.json"
    c = json.loads(path.read_text())
    c |= {"architectures": ["MiMoForCausalLM"], "model_type": "mimo", "attention_bias": True, "use_mtp": True,
          "num_nextn_predict_layers": 1}
    path.write_text(json.dumps(c, indent=2) + "\n")
    state = load_file(folder / "model.safetensors")
    extra = {n.replace("model.layers.0.", "model.mtp_layers.0."): p for n, p in state.items() if ".layers.0." in n}
    norm = next(p for n, p in extra.items() if n.endswith("input_layernorm.weight"))
    extra |= {f"model.mtp_layers.0.{n}_layernorm.weight": norm for n in ("token", "hidden", "final")}
    extra["model.mtp_layers.0.input_proj.weight"] = torch.zeros(norm.numel(), 2 * norm.numel(), dtype=norm.dtype)
    save_file({n: p.clone() for n, p in (state | extra).items()}, folder / "model.safetensors", metadata={"format": "pt"})


def rename_mimo_v2(folder):
    """MiMo-V2-Flash's published folder has other keys than transformers writes."""
    path = folder / "config.json"
    c = json.loads(path.read_text())
    rope = c.pop("rope_parameters")
    c |= {"hybrid_layer_pattern": [int(t == "sliding_attention") for t in c.pop("layer_types")],
          "moe_layer_freq": [int(t == "sparse") for t in c.pop("mlp_layer_types")],
          "layernorm_epsilon": c.pop("rms_norm_eps"), "rope_theta": rope["full_attention"]["rope_theta"],
          "swa_rope_theta": rope["sliding_attention"]["rope_theta"], "partial_rotary_factor": 0.334,
          "swa_num_attention_heads": c["num_attention_heads"], "swa_num_key_value_heads": 2 * c["num_key_value_heads"],
          "swa_head_dim": c["head_dim"], "swa_v_head_dim": c["v_head_dim"], "sliding_window_size": c["sliding_window"] - 1,
          "sliding_window": c["sliding_window"] - 1, "add_swa_attention_sink_bias": True, "add_full_attention_sink_bias": False,
          "n_shared_experts": None, "routed_scaling_factor": None}
    path.write_text(json.dumps(c, indent=2) + "\n")


def with_cache(model):
    """The model, called as those are that attend: Mamba2ForCausalLM's cache has another name."""
    if type(model).__name__ != "Mamba2ForCausalLM":
        return model

    def run(ids, past_key_values=None, use_cache=False):
        out = model(ids, cache=past_key_values, use_cache=use_cache)
        return types.SimpleNamespace(logits=out.logits, past_key_values=out.cache)

    return run


def make(f, out, quiet=False):
    """Returns the reference's logits, and the same in f64."""
    folder = out / f["name"]
    seed = 100 + sum(map(ord, f["name"]))
    shutil.rmtree(folder, ignore_errors=True)
    kind, model = build(f, seed)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    if f["config"] == "Llama4Config":
        model = model.language_model  # transformers 5.24 fails in the model around it
    text = model.config.get_text_config()
    prompts, logits = reference_models.reference(with_cache(model), text.vocab_size, seed)
    logits.numpy().astype("<f4").tofile(folder / "reference_logits.bin")
    exact = wide.logits(kind, folder, prompts, f["config"] == "Llama4Config") if quiet else None
    if f["text"] is not None:
        drop_images(folder)
    if f["name"] == "qwen3-vl-moe":
        turn_experts(folder)
    if f["name"] == "kimi-k2.5":
        rename_kimi(folder)
    if f["name"] == "minicpm":
        rename_minicpm(folder)
    if f["name"] == "mimo-v2-flash":
        rename_mimo_v2(folder)
    if f["name"] == "mimo":
        rename_mimo(folder)
    if f["gguf"] is not None:
        import gguf_file
        gguf_file.write(f, text, folder)
    reference_models.write_json(
        folder / "reference.json", {
            "made_by": "bench/models/make.py", "transformers": transformers.__version__,
            "torch": torch.__version__.split("+")[0], "seed": seed, "vocab_size": text.vocab_size, "prompts": prompts})
    size = sum(path.stat().st_size for path in folder.iterdir())
    if quiet:
        return logits.flatten(), exact
    print(f"{f['name']}: {size} bytes, logits std {logits.std():.2f}, min_gap "
          f"{min(p['min_gap'] for p in prompts):.4f}, distinct {[len(set(p['greedy'])) for p in prompts]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for f in FAMILIES:
        if not args.names or f["name"] in args.names:
            make(f, args.out)


if __name__ == "__main__":
    main()
