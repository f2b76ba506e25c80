# SPDX-License-Identifier: Apache-2.0
"""Tiny models of many families, made by transformers' own classes with random weights and saved as published folders
are. FAMILIES has for each a name, the number in the table of families, the class of the configuration, what differs
from SMALL, and how llama.cpp's converter would write it (gguf_file.py)."""

SMALL = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    "tie_word_embeddings": False
}
VISION = {"depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32,
          "patch_size": 8, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]}
PIXTRAL = {"model_type": "pixtral", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
           "num_attention_heads": 2, "image_size": 16, "patch_size": 8, "head_dim": 8}
LLAMA4_VISION = {"hidden_size": 16, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
                 "image_size": 16, "patch_size": 8, "vision_output_dim": 16, "projector_input_dim": 16,
                 "projector_output_dim": 16}
KIMI_VISION = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 8,
               "pos_emb_height": 4, "pos_emb_width": 4}
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1], "mrope_interleaved": True}
MLA = {"kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 20, "num_key_value_heads": 4}
MLA_YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32,
            "beta_fast": 32.0, "beta_slow": 1.0}
LLAMA4 = {"intermediate_size": 16, "intermediate_size_mlp": 24, "num_local_experts": 6, "num_experts_per_tok": 1,
          "attention_chunk_size": 20, "floor_scale": 16, "attn_scale": 0.3, "rope_parameters": ROPE}
GEMMA_ROPE = {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
              "sliding_attention": ROPE}
GEMMA3_ROPE = {"full_attention": {"rope_type": "default", "rope_theta": 1000000.0}, "sliding_attention": ROPE}
DELTA = ["linear_attention", "full_attention"]
DELTA_SIZES = {"linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_expand": 2}
QWEN_VISION = {k: v for k, v in VISION.items() if k != "deepstack_visual_indexes"}
ALTERNATE = ["sliding_attention", "sliding_attention", "full_attention"]


def family(name, number, config, gguf=None, text=None, **changes):
    """text: the model's text part is in text_config, and changes are of it; the rest is in `text`."""
    return {"name": name, "number": number, "config": config, "gguf": gguf, "text": text, "changes": changes}


FAMILIES = [
    family("qwen3-vl", 3, "Qwen3VLConfig", "qwen3vl", {"vision_config": VISION}, head_dim=8, rope_parameters=MROPE,
           tie_word_embeddings=True),
    family("qwen2.5-vl", 18, "Qwen2_5_VLConfig", "qwen2vl",
           {"vision_config": VISION | {"fullatt_block_indexes": [0]}}, rope_parameters=MROPE),
    family("mistral-small-3", 19, "Mistral3Config", "llama", {"vision_config": PIXTRAL, "spatial_merge_size": 1},
           model_type="mistral", head_dim=12, sliding_window=None),
    family("granite-3", 41, "GraniteConfig", "granite", embedding_multiplier=1.5, residual_multiplier=0.7,
           attention_multiplier=0.2, logits_scaling=1.5, tie_word_embeddings=True),
    family("ernie-4.5", 35, "Ernie4_5Config", "ernie4_5", num_hidden_layers=1, head_dim=12, use_bias=True),
    family("command-r", 37, "CohereConfig", "command-r", num_hidden_layers=1, logit_scale=0.5, tie_word_embeddings=True,
           attention_bias=True),
    family("command-r7b", 37, "Cohere2Config", "cohere2", logit_scale=0.5, num_hidden_layers=4,
           layer_types=ALTERNATE[:1] + ALTERNATE, sliding_window=16, tie_word_embeddings=True),
    family("exaone-4", 36, "Exaone4Config", "exaone4", num_hidden_layers=3, layer_types=ALTERNATE, sliding_window=16,
           sliding_window_pattern=3),
    family("olmo-3", 30, "Olmo3Config", "olmo2", num_hidden_layers=3, layer_types=ALTERNATE, sliding_window=16,
           rope_parameters={"full_attention": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                               "original_max_position_embeddings": 64, "beta_fast": 32.0,
                                               "beta_slow": 1.0, "attention_factor": 1.1386294361119891},
                            "sliding_attention": ROPE}),
    family("seed-oss", 34, "SeedOssConfig", "seed_oss", num_hidden_layers=1, head_dim=12),
    family("hunyuan", 42, "HunYuanDenseV1Config", "hunyuan-dense", num_hidden_layers=1, head_dim=12,
           rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 1.0, "alpha": 10.0}),
    family("starcoder2", 44, "Starcoder2Config", "starcoder2", num_hidden_layers=1, sliding_window=16, tie_word_embeddings=True),
    family("gpt-2", 45, "GPT2Config", "gpt2", num_hidden_layers=1, tie_word_embeddings=True),
    family("gpt-j", 49, "GPTJConfig", None, num_hidden_layers=1, rotary_dim=4),
    family("phi-2", 48, "PhiConfig", "phi2", num_hidden_layers=1, num_key_value_heads=4),
    family("stablelm", 51, "StableLmConfig", "stablelm", num_hidden_layers=1, use_qkv_bias=True,
           rope_parameters=ROPE | {"partial_rotary_factor": 0.5}),
    family("falcon", None, "FalconConfig", "falcon", num_hidden_layers=1, multi_query=True, tie_word_embeddings=True),
    family("falcon-40b", None, "FalconConfig", "falcon", num_hidden_layers=1, new_decoder_architecture=True, num_kv_heads=2, bias=True,
           tie_word_embeddings=False),
    family("glm-4", None, "Glm4Config", "glm4", head_dim=8, rope_parameters=ROPE | {"partial_rotary_factor": 0.5}),
    family("apertus", 40, "ApertusConfig", "apertus", rope_parameters=ROPE),
    family("bloom", 49, "BloomConfig", "bloom", num_hidden_layers=1),
    family("mpt", 50, "MptConfig", "mpt", num_hidden_layers=1, tie_word_embeddings=True),
    family("nemotron", None, "NemotronConfig", "nemotron", num_hidden_layers=1, head_dim=8,
           rope_parameters=ROPE | {"partial_rotary_factor": 0.5}),
    family("minicpm", 48, "GraniteConfig", "minicpm", num_hidden_layers=1, embedding_multiplier=1.5, residual_multiplier=0.7,
           attention_multiplier=8**-0.5, logits_scaling=0.8, tie_word_embeddings=True),
    family("mimo", 23, "Qwen2Config", None, num_hidden_layers=1, rope_parameters=ROPE | {"rope_theta": 640000.0}),
    family("mimo-v2-flash", 23, "MiMoV2FlashConfig", None, num_hidden_layers=3, head_dim=12, v_head_dim=8, num_key_value_heads=1,
           layer_types=["full_attention", "sliding_attention", "full_attention"], sliding_window=16,
           mlp_layer_types=["dense", "sparse", "sparse"], n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=16,
           rope_parameters={"full_attention": ROPE | {"rope_theta": 5000000.0, "partial_rotary_factor": 0.334},
                            "sliding_attention": ROPE | {"partial_rotary_factor": 0.334}}),
    family("pythia", 47, "GPTNeoXConfig", "gptneox", num_hidden_layers=1, rope_parameters=ROPE | {"partial_rotary_factor": 0.5}),
    family("ministral-3", 20, "Ministral3Config", "mistral3", head_dim=8,
           rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0,
                            "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0,
                            "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}),
    family("lfm2", 26, "Lfm2Config", "lfm2", num_hidden_layers=3, conv_L_cache=3, block_multiple_of=16,
           layer_types=["conv", "full_attention", "conv"], tie_word_embeddings=True,
           rope_parameters=ROPE | {"rope_theta": 1000000.0}),
    family("qwen3-next", 17, "Qwen3NextConfig", "qwen3next", num_hidden_layers=2, layer_types=DELTA, head_dim=16,
           num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24,
           rope_parameters=ROPE | {"partial_rotary_factor": 0.25}, **DELTA_SIZES),
    family("qwen3.5", 2, "Qwen3_5Config", "qwen35", {"vision_config": QWEN_VISION}, num_hidden_layers=3,
           layer_types=DELTA + DELTA[:1], head_dim=16, rope_parameters=MROPE | {"partial_rotary_factor": 0.5}, **DELTA_SIZES),
    family("qwen3.5-moe", 1, "Qwen3_5MoeConfig", "qwen35moe", {"vision_config": QWEN_VISION}, num_hidden_layers=2,
           layer_types=DELTA, head_dim=16, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16,
           shared_expert_intermediate_size=24, rope_parameters=MROPE | {"partial_rotary_factor": 0.5}, **DELTA_SIZES),
    family("granite-4-h", 27, "GraniteMoeHybridConfig", "granitehybrid", num_hidden_layers=3, **MAMBA,
           layer_types=["linear_attention", "full_attention", "linear_attention"], num_local_experts=6,
           num_experts_per_tok=2, intermediate_size=16, shared_intermediate_size=24, embedding_multiplier=1.5,
           residual_multiplier=0.7, attention_multiplier=0.2, logits_scaling=1.5, tie_word_embeddings=True),
    family("granite-4-micro", 27, "GraniteMoeHybridConfig", None, num_hidden_layers=2, **MAMBA,
           layer_types=["full_attention", "linear_attention"], num_local_experts=0, num_experts_per_tok=0,
           shared_intermediate_size=24, position_embedding_type="rope", rope_parameters=ROPE),
    family("nemotron-h", None, "NemotronHConfig", "nemotron_h", num_hidden_layers=4, head_dim=8, mamba_num_heads=8, mamba_head_dim=8,
           n_groups=2, ssm_state_size=16, layers_block_type=["linear_attention", "mlp", "full_attention", "linear_attention"]),
    family("nemotron-3", 21, "NemotronHConfig", "nemotron_h_moe", num_hidden_layers=4, head_dim=8, mamba_num_heads=8, mamba_head_dim=8,
           n_groups=2, ssm_state_size=16, layers_block_type=["linear_attention", "moe", "full_attention", "moe"],
           moe_intermediate_size=16, moe_shared_expert_intermediate_size=24, routed_scaling_factor=1.5, n_group=2, topk_group=1),
    family("nemotron-3-super", 21, "NemotronHConfig", "nemotron_h_moe", num_hidden_layers=3, head_dim=8, mamba_num_heads=8, mamba_head_dim=8,
           n_groups=2, ssm_state_size=16, layers_block_type=["linear_attention", "moe", "full_attention"], moe_latent_size=12,
           moe_intermediate_size=16, moe_shared_expert_intermediate_size=24),
    family("falcon-h1", 38, "FalconH1Config", "falcon-h1", num_hidden_layers=1, **MAMBA | {"mamba_d_ssm": 64}, mamba_chunk_size=16,
           rope_parameters=ROPE, embedding_multiplier=1.5, lm_head_multiplier=0.8, mlp_multipliers=[0.7, 1.3],
           key_multiplier=0.6, attention_in_multiplier=1.2, attention_out_multiplier=0.9,
           ssm_multipliers=[0.8, 1.3, 0.6, 1.4, 0.9], ssm_in_multiplier=1.25, ssm_out_multiplier=0.7),
    family("falcon-h1-normed", 38, "FalconH1Config", None, key_multiplier=0.6, ssm_out_multiplier=0.7, **MAMBA | {"mamba_d_ssm": 64},
           mamba_chunk_size=16, rope_parameters=ROPE, mamba_rms_norm=True),
    family("mamba-2", 51, "Mamba2Config", "mamba2", chunk_size=16, num_heads=8, head_dim=8, n_groups=2, state_size=16),
    family("qwen2-moe", None, "Qwen2MoeConfig", "qwen2moe", num_hidden_layers=1, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16,
           shared_expert_intermediate_size=24, decoder_sparse_step=1),
    family("glm-4.5", 11, "Glm4MoeConfig", "glm4moe", head_dim=8, n_routed_experts=6, num_experts_per_tok=2,
           moe_intermediate_size=16, n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=1.5, n_group=2,
           topk_group=1, use_qk_norm=True, attention_bias=True,
           rope_parameters=ROPE | {"partial_rotary_factor": 0.5}),
    family("minimax-m2", 12, "MiniMaxM2Config", "minimax-m2", num_hidden_layers=1, head_dim=8, num_local_experts=6, num_experts_per_tok=2,
           intermediate_size=16, rope_parameters=ROPE | {"partial_rotary_factor": 0.5}),
    family("hunyuan-a13b", None, "HunYuanMoEV1Config", "hunyuan-moe", head_dim=8, num_experts=4, moe_topk=2,
           num_hidden_layers=1, moe_intermediate_size=32),
    family("hy3", 24, "HYV3Config", "hy_v3", head_dim=8, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16),
    family("gemma-4-e4b", 5, "Gemma4Config", "gemma4", {"vision_config": None, "audio_config": None}, num_hidden_layers=4,
           head_dim=8, hidden_size_per_layer_input=8, vocab_size_per_layer_input=64, num_kv_shared_layers=2,
           use_double_wide_mlp=True, sliding_window=16, layer_types=ALTERNATE[1:] + ALTERNATE[1:],
           tie_word_embeddings=True, final_logit_softcapping=30.0, rope_parameters=GEMMA_ROPE, global_head_dim=16),
    family("gemma-4-31b", 5, "Gemma4TextConfig", "gemma4", num_hidden_layers=3, head_dim=8, global_head_dim=16,
           num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0, sliding_window=16,
           layer_types=ALTERNATE, tie_word_embeddings=True, rope_parameters=GEMMA_ROPE),
    family("gemma-4-26b", 5, "Gemma4TextConfig", "gemma4", num_hidden_layers=2, head_dim=8, global_head_dim=16,
           num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0, sliding_window=16,
           layer_types=ALTERNATE[1:], tie_word_embeddings=True, rope_parameters=GEMMA_ROPE, enable_moe_block=True,
           num_experts=6, top_k_experts=2, moe_intermediate_size=16),
    family("gemma-3n", 31, "Gemma3nTextConfig", "gemma3n", num_hidden_layers=4, head_dim=8, hidden_size_per_layer_input=8,
           vocab_size_per_layer_input=64, num_kv_shared_layers=2, sliding_window=16, layer_types=ALTERNATE[1:] + ALTERNATE[1:],
           tie_word_embeddings=True, rope_parameters=GEMMA3_ROPE, laurel_rank=8, intermediate_size=[96, 64, 96, 96],
           activation_sparsity_pattern=[0.7, 0.3, 0.0, 0.0]),
    family("qwen3-vl-moe", None, "Qwen3VLMoeConfig", "qwen3vlmoe", {"vision_config": VISION}, head_dim=8, rope_parameters=MROPE,
           num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, decoder_sparse_step=1),
    family("gpt-oss-16", 7, "GptOssConfig", None, head_dim=8, num_local_experts=6, num_experts_per_tok=2,
           intermediate_size=16, sliding_window=16, layer_types=ALTERNATE[1:], rope_parameters=ROPE),
    family("ernie-4.5-moe", 35, "Ernie4_5_MoeConfig", "ernie4_5-moe", moe_num_experts=6, moe_k=2, moe_intermediate_size=16,
           moe_num_shared_experts=2, moe_layer_start_index=1),
    family("deepseek-v2", None, "DeepseekV2Config", "deepseek2", **MLA, q_lora_rank=None, n_routed_experts=6,
           num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=2, first_k_dense_replace=1,
           rope_parameters=MLA_YARN | {"mscale": 0.707, "mscale_all_dim": 0.707}),
    family("deepseek-v2-groups", None, "DeepseekV2Config", "deepseek2", **MLA, q_lora_rank=24, n_routed_experts=8,
           num_experts_per_tok=3, moe_intermediate_size=16, n_shared_experts=1, first_k_dense_replace=1, n_group=4,
           topk_group=2, topk_method="group_limited_greedy", routed_scaling_factor=1.5),
    family("deepseek-v3", 10, "DeepseekV3Config", "deepseek2", **MLA, q_lora_rank=24, n_routed_experts=8,
           num_experts_per_tok=3, moe_intermediate_size=16, n_shared_experts=1, first_k_dense_replace=1, n_group=4,
           topk_group=2, routed_scaling_factor=1.5, num_mtp_layers=0,
           rope_parameters=MLA_YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}),
    family("kimi-k2.5", 15, "Kimi_K25Config", None, {"vision_config": KIMI_VISION, "projection_hidden_size": 16},
           model_type="deepseek_v3", **MLA, q_lora_rank=24, n_routed_experts=8, num_experts_per_tok=3,
           moe_intermediate_size=16, n_shared_experts=1, first_k_dense_replace=1, n_group=1, topk_group=1,
           routed_scaling_factor=2.8, num_mtp_layers=0, rope_parameters=MLA_YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}),
    family("deepseek-v3.2", 10, "DeepseekV32Config", None, **MLA, q_lora_rank=24, n_routed_experts=8,
           num_experts_per_tok=3, moe_intermediate_size=16, n_shared_experts=1, first_k_dense_replace=1, n_group=4,
           topk_group=2, routed_scaling_factor=1.5, index_topk=8, index_head_dim=16, index_n_heads=8,
           rope_parameters=MLA_YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}),
    family("glm-5", 14, "GlmMoeDsaConfig", None, **MLA, q_lora_rank=24, n_routed_experts=6, num_experts_per_tok=2,
           moe_intermediate_size=16, n_shared_experts=1, routed_scaling_factor=2.5, first_k_dense_replace=1, index_topk=8,
           index_head_dim=16, index_n_heads=8, indexer_types=["full", "shared"], rope_parameters=ROPE),
    family("glm-4.7-flash", 11, "Glm4MoeLiteConfig", "deepseek2", **MLA, q_lora_rank=24, n_routed_experts=6,
           num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1, routed_scaling_factor=1.8,
           rope_parameters=ROPE),
    family("minicpm3", 48, "MiniCPM3Config", "minicpm3", **MLA | {"v_head_dim": 64}, q_lora_rank=24, scale_emb=12,
           scale_depth=1.4, dim_model_base=256, hidden_size=256, num_hidden_layers=1, rope_parameters=ROPE),
    family("llama-4", 25, "Llama4Config", "llama4", {"vision_config": LLAMA4_VISION}, **LLAMA4, head_dim=8,
           num_hidden_layers=4, interleave_moe_layer_step=2),
    family("llama-4-top2", None, "Llama4TextConfig", None, **LLAMA4 | {"num_experts_per_tok": 2}, head_dim=8,
           use_qk_norm=False, no_rope_layers=[0, 1], attn_temperature_tuning=False),
    family("mistral-4", 20, "Mistral3Config", "mistral4", {"vision_config": PIXTRAL, "spatial_merge_size": 1},
           model_type="mistral4", **MLA, q_lora_rank=24, n_routed_experts=6, num_experts_per_tok=2,
           moe_intermediate_size=16, n_shared_experts=1, first_k_dense_replace=1,
           rope_parameters=MLA_YARN | {"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}),
]

# Configurations that name sizes otherwise.
ALIASES = {
    "GPT2Config": {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
                   "max_position_embeddings": "n_positions", "intermediate_size": "n_inner"},
    "GPTJConfig": {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
                   "max_position_embeddings": "n_positions", "intermediate_size": "n_inner"},
    "FalconConfig": {"intermediate_size": "ffn_hidden_size"},
    "BloomConfig": {"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"},
    "MptConfig": {"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
                  "max_position_embeddings": "max_seq_len"},
}
WITHOUT_KV_HEADS = {"GPT2Config", "GPTJConfig", "FalconConfig", "BloomConfig", "MptConfig", "GPTNeoXConfig"}


def configuration(transformers, f):
    """The configuration of a family, an object of transformers' class."""
    kind = getattr(transformers, f["config"])
    values = SMALL | f["changes"]
    if f["config"] in WITHOUT_KV_HEADS:
        values.pop("num_key_value_heads", None)
    for own, other in ALIASES.get(f["config"], {}).items():
        if own in values:
            values[other] = values.pop(own)
    if f["config"] in ("BloomConfig", "MptConfig"):
        values.pop("intermediate_size")
    if f["text"] is None:
        return kind(**values)
    top = {key: values[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings")}
    return kind(text_config=values, **top, **f["text"])
