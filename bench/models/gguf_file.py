# SPDX-License-Identifier: Apache-2.0
"""Writes a tiny model as the GGUF file that llama.cpp's converter makes of its folder: names of tensors from the package
gguf (TensorNameMap), the keys that its llama.cpp reads of the architecture, and the rows in the order of that file."""
import re

import gguf
import gguf_mamba
import numpy as np
import torch
from safetensors.torch import load_file


def paired(x, heads):
    """Llama's converter: the two halves of a head become pairs."""
    shape = x.shape
    return x.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def ungroup(x, heads, kv):
    """Rows of q, then of k, then of v, of a tensor that has them by key-value head."""
    share = heads // kv
    rows = x.reshape(kv, share + 2, -1, *x.shape[1:])
    parts = rows[:, :share], rows[:, share:share + 1], rows[:, share + 1:]
    return np.concatenate([p.reshape(-1, *x.shape[1:]) for p in parts])


def common_keys(w, f, c, arch):
    heads = c.num_attention_heads
    kv = getattr(c, "num_key_value_heads", None) or heads
    if f["config"] == "FalconConfig":
        kv = c.num_kv_heads if c.new_decoder_architecture else 1
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // heads
    ffn = getattr(c, "intermediate_size", None) or getattr(c, "n_inner", None) or getattr(c, "ffn_hidden_size", None)
    ffn = getattr(c, "intermediate_size_mlp", None) or ffn or 4 * c.hidden_size
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(getattr(c, "max_position_embeddings", None) or getattr(c, "max_seq_len", 2048))
    w.add_embedding_length(c.hidden_size)
    w.add_head_count(heads)
    if arch == "lfm2":
        ffn = int(2 * ffn / 3) + -int(2 * ffn / 3) % c.block_multiple_of
    if arch not in ("gemma4", "qwen35moe"):  # own_keys has lists of Gemma 4
        w.add_feed_forward_length(ffn)
    if arch == "lfm2":
        w.add_head_count_kv([kv if t == "full_attention" else 0 for t in c.layer_types])
    elif arch != "gemma4":
        w.add_head_count_kv(kv)
    rope = getattr(c, "rope_parameters", None) or {}
    full = rope.get("full_attention", rope)
    if full.get("rope_theta"):
        theta = full["rope_theta"]
        if full["rope_type"] == "dynamic":
            theta *= full["alpha"]**(head_dim / (head_dim - 2))
        w.add_rope_freq_base(theta)
    if full.get("rope_type") == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(full["factor"])
        w.add_rope_scaling_orig_ctx_len(full["original_max_position_embeddings"])
    if hasattr(c, "rms_norm_eps"):
        w.add_layer_norm_rms_eps(c.rms_norm_eps)
    if arch == "lfm2":
        w.add_layer_norm_rms_eps(c.norm_eps)
        w.add_shortconv_l_cache(c.conv_L_cache)
    for name in ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps") if arch != "lfm2" else ():
        if hasattr(c, name):
            w.add_layer_norm_eps(getattr(c, name))
    if getattr(c, "kv_lora_rank", None):
        latent_keys(w, f, c)
    elif head_dim * heads != c.hidden_size and arch != "gemma4":
        w.add_key_length(head_dim)
        w.add_value_length(head_dim)
    if "sliding_attention" in rope and arch == "gemma4":
        w.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
    elif rope:
        w.add_rope_dimension_count(int(head_dim * full.get("partial_rotary_factor", 1.0)))
    if getattr(c, "sliding_window", None):
        w.add_sliding_window(c.sliding_window)
    if "mrope_section" in full:
        w.add_rope_dimension_sections(full["mrope_section"] + [0])
    return heads, kv


def is_old(f):
    """Older files have attn_kv_b as folders do, and the sizes of heads instead of the latent's."""
    return f["name"] in ("deepseek-v2-groups", "minicpm3")


def latent_keys(w, f, c):
    if c.q_lora_rank:
        w.add_q_lora_rank(c.q_lora_rank)
    w.add_kv_lora_rank(c.kv_lora_rank)
    if is_old(f):
        w.add_key_length(c.qk_nope_head_dim + c.qk_rope_head_dim)
        if f["gguf"] == "deepseek2":
            w.add_value_length(c.v_head_dim)
        return
    w.add_key_length(c.kv_lora_rank + c.qk_rope_head_dim)
    w.add_value_length(c.kv_lora_rank)
    w.add_key_length_mla(c.qk_nope_head_dim + c.qk_rope_head_dim)
    w.add_value_length_mla(c.v_head_dim)


def split_latents(f, c, state):
    """kv_b_proj as the converter splits it: keys turned around, and values, by head."""
    out = {}
    for name, p in state.items():
        if is_old(f) or not name.endswith("kv_b_proj.weight"):
            out[name] = p
            continue
        by_head = p.reshape(c.num_attention_heads, -1, c.kv_lora_rank)
        out[name.replace("kv_b_proj", "k_b_proj")] = by_head[:, :c.qk_nope_head_dim].transpose(1, 2).contiguous()
        out[name.replace("kv_b_proj", "v_b_proj")] = by_head[:, c.qk_nope_head_dim:].contiguous()
    return out


def gemma4_keys(w, c):
    slides = [t == "sliding_attention" for t in c.layer_types]
    layers = [c.per_layer_config[i] for i in range(c.num_hidden_layers)]
    full, shared = layers[-1].head_dim, c.num_hidden_layers - c.num_kv_shared_layers
    wide = [c.intermediate_size * (2 if i >= shared else 1) for i in range(c.num_hidden_layers)]
    w.add_feed_forward_length(wide if c.use_double_wide_mlp else c.intermediate_size)
    kv = [layer.num_key_value_heads for layer in layers]
    w.add_head_count_kv(kv if len(set(kv)) > 1 else kv[0])
    w.add_shared_kv_layers(c.num_kv_shared_layers)
    w.add_embedding_length_per_layer_input(c.hidden_size_per_layer_input)
    w.add_sliding_window_pattern(slides)
    for add, size in ((w.add_key_length, full), (w.add_value_length, full), (w.add_key_length_swa, c.head_dim),
                      (w.add_value_length_swa, c.head_dim), (w.add_rope_dimension_count, full),
                      (w.add_rope_dimension_count_swa, c.head_dim)):
        add(size)
    if c.final_logit_softcapping:
        w.add_final_logit_softcapping(c.final_logit_softcapping)
    if c.enable_moe_block:
        w.add_expert_count(c.num_experts)
        w.add_expert_used_count(c.top_k_experts)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
    turning = int(full * c.rope_parameters["full_attention"]["partial_rotary_factor"] / 2)
    w.add_tensor("rope_freqs.weight", np.array([1.0] * turning + [1e30] * (full // 2 - turning), np.float32))


def gemma3n_keys(w, c):
    w.add_altup_active_idx(c.altup_active_idx)
    w.add_altup_num_inputs(c.altup_num_inputs)
    w.add_embedding_length_per_layer_input(c.hidden_size_per_layer_input)
    w.add_shared_kv_layers(c.num_kv_shared_layers)
    normal = torch.distributions.normal.Normal(0, 1)
    w.add_activation_sparsity_scale([normal.icdf(torch.tensor(s)).item() for s in c.activation_sparsity_pattern])
    w.add_sliding_window_pattern([t == "sliding_attention" for t in c.layer_types])
    w.add_rope_freq_base_swa(c.rope_parameters["sliding_attention"]["rope_theta"])
    w.add_final_logit_softcapping(c.final_logit_softcapping)


def stack_streams(state):
    """The matrices between streams and the embedding as one tensor each, as the converter writes them."""
    out, stacks = {}, {}
    for name, p in state.items():
        m = re.match(r"(.*altup_(?:unembed_)?projections)\.\d+\.weight", name)
        if m:
            stacks.setdefault(m[1] + ".weight", []).append((name, p))
        else:
            out[name] = p
    return out | {name: torch.stack([p for _, p in sorted(parts)]) for name, parts in stacks.items()}


def own_keys(w, c, arch):
    if arch == "gemma3n":
        gemma3n_keys(w, c)
    if arch == "gemma4":
        gemma4_keys(w, c)
    if arch in ("granite", "minicpm"):
        if arch == "granite":
            w.add_attention_scale(c.attention_multiplier)
        w.add_embedding_scale(c.embedding_multiplier)
        w.add_residual_scale(c.residual_multiplier)
        w.add_logit_scale(c.logits_scaling)
    if arch in ("command-r", "cohere2"):
        w.add_logit_scale(c.logit_scale)
        w.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    if arch in ("olmo2", "exaone4"):
        w.add_sliding_window_pattern([t == "sliding_attention" for t in c.layer_types])
    if arch == "mpt":
        w.add_max_alibi_bias(c.attn_config.alibi_bias_max)
    if arch == "apertus":
        w.add_xielu_beta([0.5] * c.num_hidden_layers)
        w.add_xielu_eps([-1e-6] * c.num_hidden_layers)
    if arch == "mistral3":
        w.add_rope_scaling_yarn_log_mul(c.rope_parameters["mscale_all_dim"])
        w.add_attn_temperature_scale(c.rope_parameters["llama_4_scaling_beta"])
    if arch in ("deepseek2", "mistral4") and c.rope_parameters.get("mscale_all_dim"):
        w.add_rope_scaling_yarn_log_mul(0.1 * c.rope_parameters["mscale_all_dim"])
    if arch == "llama4":  # numbers that llama.cpp has in its program, and real files lack
        w.add_sliding_window(c.attention_chunk_size)
        w.add_attn_temperature_length(c.floor_scale)
        w.add_attn_temperature_scale(c.attn_scale)
    if arch == "mistral4":
        w.add_attn_temperature_scale(c.rope_parameters["llama_4_scaling_beta"])
        w.add_attn_temperature_length(c.rope_parameters["original_max_position_embeddings"])
    if arch in ("stablelm", "gptneox"):
        w.add_parallel_residual(c.use_parallel_residual)
    if arch in DELTA:
        w.add_ssm_conv_kernel(c.linear_conv_kernel_dim)
        w.add_ssm_state_size(c.linear_key_head_dim)
        w.add_ssm_group_count(c.linear_num_key_heads)
        w.add_ssm_time_step_rank(c.linear_num_value_heads)
        w.add_ssm_inner_size(c.linear_value_head_dim * c.linear_num_value_heads)
        w.add_full_attention_interval(2)
    if arch in ("qwen3vl", "qwen3vlmoe"):
        w.add_uint32(f"{arch}.n_deepstack_layers", 1)


DELTA = ("qwen3next", "qwen35", "qwen35moe")


def tiled(x, c, axis, dim):
    """Value heads by their number within a key head, of `dim` rows or columns each."""
    share = c.linear_num_value_heads // c.linear_num_key_heads
    x = np.moveaxis(x, axis, 0)
    y = x.reshape(c.linear_num_key_heads, share, dim, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    return np.moveaxis(y, 0, axis)


def delta(arch, name, x, c):
    """A tensor of a gated delta net, as the converter writes it."""
    if name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
        return x + 1
    if "linear_attn" not in name:
        return x
    keys, dim = c.linear_num_key_heads * c.linear_key_head_dim, c.linear_value_head_dim
    part = name.split("linear_attn.")[1]
    if part.startswith("conv1d"):
        x = x[:, 0]
    if part == "A_log":
        x = -np.exp(x)
    if arch == "qwen3next":
        return x
    if part.startswith(("conv1d", "in_proj_qkv")):
        return np.concatenate([x[:2 * keys], tiled(x[2 * keys:], c, 0, dim)])
    if part.startswith("in_proj_z"):
        return tiled(x, c, 0, dim)
    if part.startswith(("in_proj_a", "in_proj_b", "A_log", "dt_bias")):
        return tiled(x, c, 0, 1)
    return tiled(x, c, 1, dim) if part.startswith("out_proj") else x


def split_qkvz(state, c):
    """Qwen3-Next's rows of each key head, as those of q, k and v, and those of z."""
    out = {}
    for name, p in state.items():
        if not name.endswith("in_proj_qkvz.weight"):
            out[name] = p
            continue
        k, v = c.linear_key_head_dim, c.linear_value_head_dim * c.linear_num_value_heads // c.linear_num_key_heads
        parts = p.reshape(c.linear_num_key_heads, -1, p.shape[1]).split([k, k, v, v], dim=1)
        q, k, v, z = (x.reshape(-1, p.shape[1]) for x in parts)
        out[name.replace("qkvz", "qkv")], out[name.replace("qkvz", "z")] = torch.cat([q, k, v]), z
    return out


def split_experts(state):
    """Rows of gate and up of all experts in one tensor, as one tensor of each."""
    out = {}
    for name, p in state.items():
        if name.endswith("experts.gate_up_proj"):
            base = name.removesuffix("gate_up_proj")
            out[base + "gate_proj.weight"], out[base + "up_proj.weight"] = p.chunk(2, dim=1)
        else:
            out[name + ".weight" if name.endswith("experts.down_proj") else name] = p
    return out


def turn_llama4(state):
    """Llama 4's experts, which are (inputs, outputs) in folders."""
    return {n: p.transpose(1, 2).contiguous() if ".experts." in n else p for n, p in state.items()}


def converted(f, arch, name, x, c, heads, kv):
    """The numbers of a tensor of the folder as the converter writes them."""
    part = name.rsplit(".", 2)[-2]
    if arch in gguf_mamba.ARCHITECTURES:
        return gguf_mamba.convert(arch, name, x, c)
    if arch in DELTA:
        return delta(arch, name, x, c)
    if arch == "lfm2" and x.ndim == 3:
        return x[:, 0]
    if arch in ("llama", "granite", "minicpm", "mistral3") and part in ("q_proj", "k_proj"):
        return paired(x, heads if part == "q_proj" else kv)
    if arch == "gpt2" and part in ("c_attn", "c_proj", "c_fc") and x.ndim == 2:
        return x.T
    if part == "query_key_value" and (arch == "gptneox" or arch == "bloom" or f["name"] == "falcon-40b"):
        return ungroup(x, heads, kv)
    return x


def stack_experts(state):
    """The experts' matrices of a layer as one tensor, as the converter writes them."""
    out, stacks = {}, {}
    for name, p in state.items():
        m = re.match(r"(.*\.experts)\.(\d+)\.(.*)", name)
        if m:
            stacks.setdefault(f"{m[1]}.{m[3]}", {})[int(m[2])] = p
        else:
            out[name] = p
    return out | {name: torch.stack([parts[i] for i in sorted(parts)]) for name, parts in stacks.items()}


def mixture_keys(w, c, arch):
    if arch in ("qwen2moe", "qwen3next", "qwen35moe"):
        w.add_expert_count(c.num_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
        w.add_expert_shared_feed_forward_length(c.shared_expert_intermediate_size)
    if arch in ("glm4moe", "deepseek2", "mistral4"):
        logistic = not type(c).__name__.startswith(("DeepseekV2", "Mistral4"))
        w.add_expert_count(c.n_routed_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
        w.add_expert_shared_count(c.n_shared_experts)
        w.add_leading_dense_block_count(getattr(c, "first_k_dense_replace", 1))
        kinds = gguf.ExpertGatingFuncType
        w.add_expert_gating_func(kinds.SIGMOID if logistic else kinds.SOFTMAX)
        w.add_expert_weights_scale(c.routed_scaling_factor)
        w.add_expert_weights_norm(bool(c.norm_topk_prob))
        if c.n_group:
            w.add_expert_group_count(c.n_group)
            w.add_expert_group_used_count(c.topk_group)
    if arch == "minimax-m2":
        w.add_expert_count(c.num_local_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.intermediate_size)
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if arch in ("qwen3vlmoe", "hy_v3"):
        w.add_expert_count(getattr(c, "num_local_experts", c.num_experts))
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
    if arch == "hy_v3":
        w.add_expert_shared_feed_forward_length(c.moe_intermediate_size * c.num_shared_experts)
        w.add_expert_weights_norm(True)
        w.add_expert_weights_scale(c.router_scaling_factor)
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if arch == "ernie4_5-moe":
        w.add_expert_count(c.moe_num_experts)
        w.add_expert_used_count(c.moe_k)
        w.add_interleave_moe_layer_step(c.moe_layer_interval)
        w.add_leading_dense_block_count(c.moe_layer_start_index)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
        w.add_expert_shared_count(c.moe_num_shared_experts)
        w.add_expert_shared_feed_forward_length(c.moe_intermediate_size * c.moe_num_shared_experts)
    if arch == "llama4":
        w.add_expert_count(c.num_local_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.intermediate_size)
        w.add_interleave_moe_layer_step(c.interleave_moe_layer_step)
    if arch == "hunyuan-moe":
        w.add_expert_count(c.num_experts)
        w.add_expert_used_count(c.moe_topk)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
        w.add_expert_shared_feed_forward_length(c.intermediate_size)
        w.add_expert_shared_count(1)


def text_name(name):
    """The name as in a folder of the text model alone."""
    for prefix in ("model.language_model.", "language_model.model."):
        if name.startswith(prefix):
            return "model." + name[len(prefix):]
    return name.removeprefix("language_model.")


# The names of tensors of an architecture that gguf 0.19 lacks are another one's there.
OLDER_PACKAGE = {"hy_v3": "dots1"}


def write(f, c, folder):
    arch = f["gguf"]
    c.allow_global_per_layer_attribute_access = True
    w = gguf.GGUFWriter(str(folder / "model.gguf"), arch)
    heads = kv = 0
    if arch in gguf_mamba.ARCHITECTURES:
        gguf_mamba.add_keys(w, c, arch)
    else:
        heads, kv = common_keys(w, f, c, arch)
        own_keys(w, c, arch)
        mixture_keys(w, c, arch)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    kinds = {n: a for a, n in gguf.MODEL_ARCH_NAMES.items()}
    kind = kinds.get(arch) or kinds[OLDER_PACKAGE[arch]]
    names = gguf.get_tensor_name_map(kind, c.num_hidden_layers)
    lists = {}
    state = load_file(folder / "model.safetensors")
    if getattr(c, "kv_lora_rank", None):
        state = split_latents(f, c, state)
    state = stack_experts(state)
    if arch in DELTA:
        state = split_experts(split_qkvz(state, c))
    if arch in ("llama4", "qwen3vlmoe"):
        state = split_experts(turn_llama4(state))
    if arch == "gemma3n":
        state = stack_streams(state)
    state = gguf_mamba.split(state, c, arch)
    for name, p in state.items():
        name = text_name(name)
        if arch == "bloom":
            name = name.removeprefix("transformer.")
        if ".act_fn." in name:
            lists.setdefault(name.rsplit(".", 1)[1], []).append(p.float().item())
            continue
        if c.tie_word_embeddings and name.startswith("lm_head"):
            continue
        name = name.replace("e_score_correction_bias", "e_score_correction.bias")
        if name.endswith(("layer_scalar", "correct_output_scale")) or (arch in ("gemma4", "mistral4") and name.endswith(("gate_up_proj", "experts.down_proj"))):
            name += ".weight"
        scales = {"router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale"}
        scale = next((n for end, n in scales.items() if name.endswith(end)), None)
        if scale is not None:
            w.add_tensor(f"blk.{name.split('.')[2]}.{scale}", p.float().numpy())
            continue
        own = gguf_mamba.own_name(name) or names.get_name(name.replace(".dt_bias", ".dt_proj.bias"), try_suffixes=(".weight", ".bias"))
        assert own is not None, name
        if arch == "nemotron" and name.endswith("norm.weight"):
            p = p.float() + 1
        x = converted(f, arch, name, p.float().numpy(), c, heads, kv)
        if x.ndim == 1 or own.endswith(("conv1d.weight", "ssm_a", "ssm_d", "ssm_norm.weight")) or arch == "falcon-h1":
            w.add_tensor(own, x.astype(np.float32))
        else:  # every number is a bf16 already
            bits = (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)
            w.add_tensor(own, bits.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    if arch == "apertus":
        w.add_xielu_alpha_p(lists["alpha_p"])
        w.add_xielu_alpha_n(lists["alpha_n"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
