# SPDX-License-Identifier: Apache-2.0
"""Metadata and tensors of families with the state space of Mamba-2, as llama.cpp's converter writes them."""
import numpy as np

ARCHITECTURES = ("nemotron_h", "nemotron_h_moe", "granitehybrid", "mamba2", "falcon-h1")


def sizes(c, arch):
    """Heads, a head's columns, groups, states and the convolution's width."""
    if arch.startswith("nemotron"):
        return c.mamba_num_heads, c.mamba_head_dim, c.n_groups, c.ssm_state_size, c.conv_kernel
    if arch == "mamba2":
        return c.num_heads, c.head_dim, c.n_groups, c.state_size, c.conv_kernel
    return c.mamba_n_heads, c.mamba_d_head, c.mamba_n_groups, c.mamba_d_state, c.mamba_d_conv


def lists(c, arch):
    """Key-value heads and the MLP's width, by layer where layers differ."""
    if arch == "falcon-h1":
        return c.num_key_value_heads, c.intermediate_size
    kv = [c.num_key_value_heads if t == "full_attention" else 0 for t in c.layer_types]
    if arch == "granitehybrid":
        return kv, c.intermediate_size if c.num_local_experts else c.shared_intermediate_size
    wide = c.moe_intermediate_size if arch == "nemotron_h_moe" else c.intermediate_size
    return kv, [wide if t in ("mlp", "moe") else 0 for t in c.layer_types]


def add_keys(w, c, arch):
    heads, width, groups, states, conv = sizes(c, arch)
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(256)
    w.add_embedding_length(c.hidden_size)
    w.add_head_count(0 if arch == "mamba2" else c.num_attention_heads)
    kv, ffn = (0, 0) if arch == "mamba2" else lists(c, arch)
    w.add_feed_forward_length(ffn)
    if arch != "mamba2":
        w.add_head_count_kv(kv)
    if arch.startswith("nemotron") or arch == "falcon-h1":
        head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
        w.add_key_length(head_dim)
        w.add_value_length(head_dim)
    epsilon = getattr(c, "layer_norm_epsilon", None) or c.rms_norm_eps
    (w.add_layer_norm_eps if arch.startswith("nemotron") else w.add_layer_norm_rms_eps)(epsilon)
    w.add_ssm_conv_kernel(conv)
    w.add_ssm_inner_size(heads * width)
    w.add_ssm_state_size(states)
    w.add_ssm_time_step_rank(heads)
    w.add_ssm_group_count(groups)
    if arch == "falcon-h1":
        w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    if arch == "granitehybrid":
        w.add_rope_scaling_finetuned(False)
        w.add_attention_scale(c.attention_multiplier)
        w.add_embedding_scale(c.embedding_multiplier)
        w.add_residual_scale(c.residual_multiplier)
        w.add_logit_scale(c.logits_scaling)
        w.add_expert_shared_feed_forward_length(c.shared_intermediate_size)
        w.add_expert_count(c.num_local_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
    if arch == "nemotron_h_moe":
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
        w.add_expert_shared_feed_forward_length(c.moe_shared_expert_intermediate_size)
        w.add_expert_count(c.n_routed_experts)
        w.add_expert_shared_count(c.n_shared_experts)
        w.add_expert_weights_norm(c.norm_topk_prob)
        w.add_expert_weights_scale(c.routed_scaling_factor)
        w.add_expert_group_count(c.n_group)
        w.add_expert_group_used_count(c.topk_group)
        if c.moe_latent_size:
            w.add_moe_latent_size(c.moe_latent_size)


def split(state, c, arch):
    """Rows of gate and up that the folder has in one tensor."""
    if arch != "granitehybrid":
        return state
    out = {}
    for name, p in state.items():
        base, _, part = name.rpartition("input_linear.weight")
        if not base:
            out[name] = p
            continue
        gate, up = p.chunk(2, dim=-2)
        base, end = (base + "{}_proj.weight", "") if "shared" in base else (base.replace("block_sparse_moe.", "mlp.experts.") + "{}_proj.weight", part)
        out[base.format("gate") + end], out[base.format("up") + end] = gate, up
    return {n.replace("block_sparse_moe.output_linear", "mlp.experts.down_proj"): p for n, p in out.items()}


NAMES = {"shared_mlp.gate_proj": "ffn_gate_shexp", "shared_mlp.up_proj": "ffn_up_shexp",
         "shared_mlp.output_linear": "ffn_down_shexp", "mixer.experts.up_proj": "ffn_up_exps",
         "mixer.experts.down_proj": "ffn_down_exps"}


def own_name(name):
    """The name of a tensor that the converter does not look up in its map, or None."""
    for part, file in NAMES.items():
        if f".{part}." in name:
            return f"blk.{name.split('.')[2]}.{file}.weight"
    return None


def falcon(name, x, c):
    """Falcon-H1's factors, which the converter multiplies into the matrices."""
    factors = {"down_proj": c.mlp_multipliers[1], "gate_proj": c.mlp_multipliers[0],
               "k_proj": c.key_multiplier * c.attention_in_multiplier, "q_proj": c.attention_in_multiplier,
               "v_proj": c.attention_in_multiplier, "o_proj": c.attention_out_multiplier, "out_proj": c.ssm_out_multiplier,
               "lm_head": c.lm_head_multiplier, "embed_tokens": c.embedding_multiplier}
    part = name.rsplit(".", 2)[-2]
    if part == "in_proj":
        states = c.mamba_n_groups * c.mamba_d_state
        rows = np.repeat(c.ssm_multipliers, [c.mamba_d_ssm, c.mamba_d_ssm, states, states, c.mamba_n_heads])
        return x * c.ssm_in_multiplier * rows[:, None].astype(np.float32)
    return x * np.float32(factors.get(part, 1.0))


def convert(arch, name, x, c):
    if arch == "falcon-h1":
        x = falcon(name, x, c)
    if name.endswith("A_log"):
        x = -np.exp(x)
    if name.endswith(("A_log", ".D")):
        return x[:, None]
    if ".conv1d.weight" in name:
        return x[:, 0]
    if name.endswith(("mixer.norm.weight", "mamba.norm.weight")):
        return x.reshape(sizes(c, arch)[2], -1)
    return x
