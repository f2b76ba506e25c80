# SPDX-License-Identifier: Apache-2.0
"""Makes tiny random LoRA adapters of models under t/data/models and their logits by PEFT.

    make_adapters.py --out t/data/models [NAME...]

A folder NAME-lora holds two adapters as PEFT saves them, `first` and `second`, which differ in rank, scale and modules,
and the logits and greedy continuations of three prompts, in the format of make_reference_models.py. Key "adapters" of
reference.json says which adapter each prompt has: none (the base model alone), first, second.

llama-lora also has first.gguf: the first adapter with the names, and the order of the rows of q and k, that
llama.cpp's convert_lora_to_gguf.py writes.
"""
import argparse
import json
import shutil
from pathlib import Path

import gguf
import make_reference_models as models
import torch
import transformers
from peft import LoraConfig, PeftConfig, PeftModel, get_peft_model, set_peft_model_state_dict
from peft.helpers import rescale_adapter_scale
from safetensors.torch import load_file

models.CANDIDATES = 128

FIRST = {"r": 8, "lora_alpha": 16}
SECOND = {"r": 4, "lora_alpha": 8, "use_rslora": True}
# For each model: the modules of both adapters, and more settings of the second.
ADAPTERS = {
    "llama": (31, ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
              r".*layers\.[01]\.(self_attn\.[qkv]_proj|mlp\.(up|down)_proj)", {
                  "rank_pattern": {"q_proj": 6, "layers.1.mlp.up_proj": 3},
                  "alpha_pattern": {r"layers\.\d\.mlp\.down_proj": 5}
              }),
    "neox": (32, ["query_key_value", "dense"], ["query_key_value", "dense_h_to_4h", "dense_4h_to_h"], {}),
    "phi3": (33, ["qkv_proj", "o_proj"], ["gate_up_proj", "down_proj"], {}),
    "stories260K": (35, ["q_proj", "v_proj", "down_proj"], ["k_proj", "o_proj", "gate_proj"], {}),
    "glm-4": (34, ["q_proj", "k_proj"], ["q_proj", "o_proj", "gate_up_proj"], {}),
    # layers with a state beside attention: only its matrices, and the MLPs of all layers; multi-head latent attention
    "lfm2": (36, r".*(self_attn\.(q_proj|v_proj|out_proj)|feed_forward\.w[12])", ["k_proj", "w3"], {}),
    "qwen3.5": (47, ["k_proj", "o_proj"], ["v_proj", "up_proj"], {}),
    # all experts' parameters; one by one, as transformers 4 had them; parameters that are turned around, with alternate
    # rows; the experts that all rows go through
    "mixtral": (48, {"target_modules": ["q_proj"], "target_parameters": ["experts.gate_up_proj", "experts.down_proj"]},
                {"target_modules": ["v_proj"], "target_parameters": ["experts.gate_up_proj", "experts.down_proj"]}, {
                    "rank_pattern": {"experts.down_proj": 2},
                    "alpha_pattern": {"experts.down_proj": 5}
                }),
    "qwen3-moe": (49, r".*(experts\.\d+\.(gate|up|down)_proj|self_attn\.q_proj)",
                  r".*experts\.[0245]\.(up|down)_proj", {
                      "rank_pattern": {r"experts\.2\.up_proj": 7}
                  }),
    "gpt-oss-16": (50, {"target_modules": [], "target_parameters": ["experts.gate_up_proj", "experts.down_proj"]},
                   {"target_modules": ["k_proj"], "target_parameters": ["experts.gate_up_proj", "experts.down_proj"]},
                   {}),
    "deepseek-v2": (51, ["gate_proj", "up_proj", "down_proj"], ["up_proj", "down_proj"], {}),
    "minicpm3": (38, ["gate_proj", "down_proj"], ["up_proj"], {}),
}


def randomise(model, seed):
    """Matrices of a trained adapter's size, but of all modules alike."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        if ".lora_A." in name or ".lora_B." in name:
            p.data = torch.randn(p.shape, generator=generator) * (0.3 if ".lora_A." in name else 0.05)


class Experts(torch.nn.ModuleList):
    """The experts of a layer as modules, for adapters of each of them."""

    def __init__(self, experts):
        super().__init__()
        for gate_up, down in zip(experts.gate_up_proj, experts.down_proj):
            expert = torch.nn.Module()
            gate, up = gate_up.chunk(2)
            for name, weight in ("gate_proj", gate), ("up_proj", up), ("down_proj", down):
                linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
                linear.weight.data = weight.data.clone()
                expert.add_module(name, linear)
            self.append(expert)

    def forward(self, x, chosen, weights):
        out = torch.zeros_like(x)
        for row, experts in enumerate(chosen):
            for place, number in enumerate(experts):
                e = self[number]
                inner = torch.nn.functional.silu(e.gate_proj(x[row])) * e.up_proj(x[row])
                out[row] += weights[row, place] * e.down_proj(inner)
        return out


def divide_experts(model):
    for layer in model.model.layers:
        if hasattr(layer.mlp, "experts"):
            layer.mlp.experts = Experts(layer.mlp.experts)


def save_adapter(base, folder, seed, settings):
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **settings))
    randomise(model, seed)
    model.save_pretrained(folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = None
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    (folder / "README.md").unlink(missing_ok=True)
    return model.unload()


def pairs(weight, heads):
    """Rows of each head as convert_lora_to_gguf.py stores them: halves become neighbours."""
    rows, rank = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, rank).swapaxes(1, 2).reshape(rows, rank)


def write_gguf(folder, config, path):
    """Without rslora and patterns, which the format lacks: its scale is alpha over the rank of each pair."""
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down"}
    of_experts = {}
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    if config.model_type != "llama":
        heads = {}
    settings = json.loads((folder / "adapter_config.json").read_text())
    writer = gguf.GGUFWriter(path, "llama" if config.model_type == "llama" else "qwen3moe")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(settings["lora_alpha"]))
    for name, tensor in sorted(load_file(folder / "adapter_model.safetensors").items()):
        module, part = name.removeprefix("base_model.model.model.layers.").removesuffix(".weight").rsplit(".", 1)
        layer, module = module.split(".", 1)
        if ".experts." in module:
            _, _, expert, which = module.split(".")
            own = f"blk.{layer}.{names['mlp.' + which]}_exps.weight.{part.lower()}"
            of_experts.setdefault(own, {})[int(expert)] = tensor
            continue
        own = names[module]
        if part == "lora_B" and own in heads:
            tensor = pairs(tensor, heads[own])
        writer.add_tensor(f"blk.{layer}.{own}.weight.{part.lower()}", tensor.contiguous().numpy())
    for name, tensors in of_experts.items():
        writer.add_tensor(name, torch.stack([tensors[e] for e in sorted(tensors)]).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def choose(model, which, scale):
    """The model with one adapter, or without any, as make_reference_models.greedy calls it."""

    def call(*args, **kwargs):
        if scale != 1:
            model.set_adapter(which)
            with rescale_adapter_scale(model, scale):
                return model(*args, **kwargs)
        if which is None:
            with model.disable_adapter():
                return model(*args, **kwargs)
        model.set_adapter(which)
        return model(*args, **kwargs)

    return call


def reference(model, vocab, seed, adapters, scales):
    prompts, logits, offset = [], [], 0
    lengths = models.PROMPT_LENGTHS
    for i, which in enumerate(adapters):
        models.PROMPT_LENGTHS = [lengths[i]]
        some, rows = models.reference(choose(model, which, scales[i]), vocab, seed + i)
        some[0]["logits_offset"] = offset
        offset += rows.numel()
        prompts += some
        logits.append(rows)
    models.PROMPT_LENGTHS = lengths
    return prompts, torch.cat(logits)


def load_adapters(base, folder):
    """As PeftModel.from_pretrained, which fuses matrices of experts if a model's class has them fused."""
    model = None
    for name in "first", "second":
        config = PeftConfig.from_pretrained(folder / name)
        if model is None:
            model = PeftModel(base, config, adapter_name=name)
        else:
            model.add_adapter(name, config)
        result = set_peft_model_state_dict(model, load_file(folder / name / "adapter_model.safetensors"), name)
        assert not result.unexpected_keys
    return model


def make(name, out):
    seed, first, second, more = ADAPTERS[name]
    folder = out / f"{name}-lora"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if not isinstance(first, dict):
        first, second = {"target_modules": first}, {"target_modules": second}
    base = transformers.AutoModelForCausalLM.from_pretrained(out / name, dtype=torch.float32,
                                                             attn_implementation="eager")
    if name == "qwen3-moe":
        divide_experts(base)
    if name in ("qwen3-moe", "deepseek-v2"):
        base.config.model_type = "of modules"  # else PEFT takes their names for those of fused experts
    base = save_adapter(base, folder / "first", seed, FIRST | first)
    base = save_adapter(base, folder / "second", seed + 100, SECOND | second | more)
    if name in ("llama", "qwen3-moe"):
        write_gguf(folder / "first", base.config, folder / "first.gguf")
    model = load_adapters(base, folder)
    model.eval()
    write_reference(model, folder, name, seed, {"adapters": [None, "first", "second"]})
    if name in ("mixtral", "stories260K"):
        folder = out / f"{name}-lora-scaled"
        folder.mkdir(exist_ok=True)
        write_reference(model, folder, name, seed + 200,
                        {"adapters": ["first", "first", "second"], "scales": [0.5, 1, -1.5]})


def write_reference(model, folder, name, seed, given):
    vocab = model.config.vocab_size
    prompts, logits = reference(model, vocab, seed, given["adapters"], given.get("scales", [1, 1, 1]))
    if folder.name != "stories260K-lora-scaled":  # whose tokens are compared
        logits.numpy().astype("<f4").tofile(folder / "reference_logits.bin")
    models.write_json(
        folder / "reference.json", {
            "made_by": "tools/make_adapters.py", "transformers": transformers.__version__, "seed": seed,
            "vocab_size": vocab
        } | given | {"prompts": prompts})
    print(f"{name}: min_gap {min(p['min_gap'] for p in prompts):.4f}, distinct greedy ids "
          f"{[len(set(p['greedy'])) for p in prompts]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.names or ADAPTERS:
        make(name, args.out)


if __name__ == "__main__":
    main()
