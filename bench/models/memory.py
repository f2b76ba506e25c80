# SPDX-License-Identifier: Apache-2.0
"""What a sequence keeps in the cache, as the engine computes it, beside the figures that the cache's groups were
designed for. One command prints a table:

    memory.py BUILD [NAME...]

A model's config.json is that of etc/profiles/models, or is written by transformers' own class with the published
sizes, which are in MODELS; weights are not needed, since llmserve-sim loads none. Blocks have 16 tokens in bf16, a
sequence 32,768 tokens. Column "a token": KiB that each further token adds for good, so those of layers that read all
tokens. "a sequence": MiB that it has however long it is, which are windows and one state; checkpoints of states stay
where no sequence needs the memory, and are not counted. "at 32k": MiB of the sequence.
"all": if every layer kept all tokens. Each is followed by the designed figure. A model that is not served yet has the
server's sentence in place of figures. It needs transformers."""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
TOKENS = 32768
ROOT = Path(__file__).resolve().parents[2]


def config(kind, **sizes):
    """A model by transformers' configuration class."""
    return {"kind": kind, "sizes": sizes}


def mixed(full, other, every, n):
    """Layers by kind: each `every`-th one reads all tokens."""
    return [full if (i + 1) % every == 0 else other for i in range(n)]


QWEN = {"vocab_size": 248320, "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4, "head_dim": 256}
MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128}
GEMMA = {"vocab_size": 262144, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0}

# name: (the model, KiB a token, MiB a sequence, MiB at 32k, MiB if all layers kept all tokens); 0: not designed
MODELS = {
    "Llama-3-8B": ("llama-3-8b", 128, 0, 4096, 4096),
    "Gemma 3 4B": ("gemma-3-4b", 20, 120, 760, 4352),
    "gpt-oss-20b": ("gpt-oss-20b", 24, 3.8, 772, 1536),
    "Qwen3.6-35B-A3B": (config("Qwen3_5MoeTextConfig", **QWEN, hidden_size=2048, num_hidden_layers=40,
                               num_attention_heads=16, num_key_value_heads=2, linear_num_value_heads=32), 20, 61.4, 701, 0),
    "Qwen3.6-27B": (config("Qwen3_5TextConfig", **QWEN, hidden_size=5120, num_hidden_layers=64, num_attention_heads=24,
                           num_key_value_heads=4, linear_num_value_heads=48, intermediate_size=17408), 64, 146.8, 2195, 0),
    "Qwen3-Next-80B": (config("Qwen3NextConfig", num_hidden_layers=48, num_key_value_heads=2, head_dim=256,
                              linear_num_value_heads=32), 24, 73.7, 842, 0),
    "Gemma 4 26B-A4B": (config("Gemma4TextConfig", **GEMMA, hidden_size=2816, num_hidden_layers=30, num_attention_heads=16,
                               num_key_value_heads=8, num_global_key_value_heads=2, head_dim=256, global_head_dim=512,
                               sliding_window=1024, attention_k_eq_v=True, enable_moe_block=True, num_experts=128,
                               top_k_experts=8, moe_intermediate_size=704, intermediate_size=2112,
                               layer_types=mixed("full_attention", "sliding_attention", 6, 30)), 20, 206, 846, 7040),
    "Gemma 4 31B": (config("Gemma4TextConfig", **GEMMA, hidden_size=5376, num_hidden_layers=60, num_attention_heads=32,
                           num_key_value_heads=16, num_global_key_value_heads=4, head_dim=256, global_head_dim=512,
                           sliding_window=1024, attention_k_eq_v=True, intermediate_size=21504,
                           layer_types=mixed("full_attention", "sliding_attention", 6, 60)), 80, 825, 3385, 28160),
    "Gemma 3n E4B": (config("Gemma3nTextConfig", num_hidden_layers=35, num_kv_shared_layers=15, sliding_window=512), 8, 17,
                     273, 1280),
    "DeepSeek-V3": (config("DeepseekV3Config", **MLA, num_hidden_layers=61), 68.6, 0, 2196, 0),
    "GLM-4.7-Flash": (config("Glm4MoeLiteConfig", **MLA, num_hidden_layers=47), 52.9, 0, 1692, 0),
    "Kimi-Linear-48B": (config("KimiLinearConfig"), 7.9, 41.4, 293, 0),
    "Nemotron 3 Nano": (config("NemotronHConfig", num_hidden_layers=52, mamba_num_heads=64, num_key_value_heads=2, head_dim=128,
                               hybrid_override_pattern="MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"), 6, 46.8,
                        239, 0),
    "Granite 4 H small": (config("GraniteMoeHybridConfig", hidden_size=4096, num_hidden_layers=40, num_attention_heads=32,
                                 num_key_value_heads=8, mamba_n_heads=128, mamba_d_head=64, mamba_d_state=128,
                                 mamba_n_groups=1, mamba_expand=2,
                                 layer_types=mixed("attention", "mamba", 10, 40)), 16, 145.7, 658, 0),
    "LFM2-1.2B": (config("Lfm2Config", hidden_size=2048, num_hidden_layers=16, full_attn_idxs=[2, 5, 8, 10, 12, 14]), 12, 0.08, 384, 0),
}

DEVICE = """[device]
name = large enough for all
memory = 8192GiB
bandwidth = 3350
matrix = 989
[efficiency]
memory = 0.9
matrix = 0.6
prefill_attention = 0.3
weights = 0.85
cache = 0.7
one_sequence = 1
[overhead]
step = 1.5ms
sequence = 20us
"""


def folder_of(model, folder):
    """The folder with the model's configuration for sequences as long as are asked for here."""
    if isinstance(model, str):
        values = json.loads((ROOT / "etc/profiles/models" / model / "config.json").read_text())
        values["max_position_embeddings"] = max(TOKENS, values["max_position_embeddings"])
        (folder / "config.json").write_text(json.dumps(values))
        return folder
    import transformers
    own = getattr(transformers, model["kind"])(**model["sizes"], max_position_embeddings=TOKENS)
    own.save_pretrained(folder)
    values = json.loads((folder / "config.json").read_text())
    auto = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    values["architectures"] = [auto.get(values["model_type"], values["model_type"])]
    (folder / "config.json").write_text(json.dumps(values))
    return folder


def simulate(build, model, root):
    """The engine's sentence about its cache; (None, why) if it does not serve the model."""
    report = root / "report.json"
    settings = [f"engine.max_context={TOKENS}", "cache.element=bf16", "cache.block_tokens=16",
                "cache.device_memory=64GiB"]
    run = subprocess.run([build / "llmserve-sim", "--quiet", "-c", ROOT / "etc/fcfs.ini", "--model", model, "--profile",
                          root / "device.ini", "--num-prompts", "1", "--dataset-name", "random", "--json", report] +
                         [word for s in settings for word in ("--set", s)], capture_output=True, text=True)
    if run.returncode != 0:
        return None, (run.stderr.strip().splitlines() or ["it ended with %d" % run.returncode])[-1]
    return json.loads(report.read_text())["machine"]["memory"]["cache"], None


def figures(sentence):
    """KiB a token, MiB a sequence, MiB at 32k, MiB if all layers kept all."""
    a_token = sum(float(kib) for kib, rest in re.findall(r"([\d.e+]+) KiB a token in \d+ layers([^,;]*)", sentence)
                  if "that keep" not in rest)
    total = float(re.search(r"([\d.]+) MiB a sequence of", sentence)[1])
    everything = re.search(r"([\d.]+) MiB if every layer kept all", sentence)
    return a_token, total - a_token * TOKENS / 1024, total, float(everything[1]) if everything else total


def measure(build, name):
    """The four figures of a model, and why it is not served, one of which is None."""
    os.environ.setdefault("LLS_PROFILE_PATH", str(ROOT / "etc/profiles"))
    os.environ.setdefault("LLS_PLUGIN_PATH", str(build / ".libs"))
    with tempfile.TemporaryDirectory() as root:
        Path(root, "device.ini").write_text(DEVICE)
        Path(root, "model").mkdir()
        sentence, why = simulate(build, folder_of(MODELS[name][0], Path(root, "model")), Path(root))
    return (None, why.replace(root, "").split(";")[0]) if sentence is None else (figures(sentence), None)


def cells(name, ours):
    """The figures with the designed ones behind them."""
    return "".join(f"{n:>11.1f} {f'({d:g})' if d else '':>8}" for n, d in zip(ours, MODELS[name][1:]))


COLUMNS = "".join(f"{c:>20}" for c in ("a token, KiB", "a sequence, MiB", "at 32k, MiB", "all, MiB"))


def print_models(build, names):
    """Prints the table of the models, or of those in `names`."""
    print(f"{'model':<18}{COLUMNS}")
    for name in MODELS:
        if names and name not in names:
            continue
        ours, why = measure(build, name)
        print(f"{name:<18}" + (f" not served: {why}" if ours is None else cells(name, ours)), flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print_models(Path(sys.argv[1]).resolve(), sys.argv[2:])


if __name__ == "__main__":
    main()
