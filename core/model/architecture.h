/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An architecture is one file: the names it goes by, how its config.json is read, and
 * what its tensors are called. To add one, write the file, list it in architectures[] of
 * model_config.c and give it a reference model in t/data/models.
 */
#ifndef LLS_MODEL_ARCHITECTURE_H
#define LLS_MODEL_ARCHITECTURE_H

#include "core/model/model_config.h"
#include "core/model/json.h"

/*
 * Names without their ".weight" or ".bias". NULL: the architecture has no such tensor.
 * Full names are prefix + name, for tensors of a layer prefix + layers + "N." + name; the
 * head has no prefix.
 */
struct lls_tensor_names {
  const char *prefixes[3]; /* the first under which the embedding is found */
  const char *embedding, *positions, *project_in, *project_out, *final_norm, *head;
  const char *layers; /* "layers." */
  const char *attention_norm, *mlp_norm;
  const char *q, *k, *v;
  const char *fused_qkv;   /* instead: rows are (heads, [q k v], head_dim) */
  const char *stacked_qkv; /* instead: rows are those of q, of k, of v */
  const char *output;
  const char *gate, *up, *down;
  const char *stacked_up; /* instead of gate and up: rows of gate, of up */
  const char *q_norm, *k_norm;
  const char *attention_output_norm, *mlp_output_norm; /* where norm_place has both */
  /* Mixtures of experts: the router, and of expert E experts + "E." + expert_gate ... */
  const char *router, *experts, *expert_gate, *expert_up, *expert_down;
  const char *expert_blocks_up; /* in files without the latter: of all experts, rows of
                                 * gate and up in turns, in MXFP4 blocks, as is
                                 * expert_down */
  const char *sinks;
  const char *types, *embedding_norm; /* encoders: added to the embedding, norm after */
  /* Encoders that classify: tanh(pooler x), then the head. The pooler's name has the
   * prefix, or is pooler_in_head, which has none. */
  const char *pooler, *pooler_in_head;
};

struct lls_architecture {
  const char *title;        /* the models that people know it by */
  const char *const *names; /* as in "architectures", ends with NULL */
  bool mxfp4;               /* its experts may be in such blocks */
  bool encoder;             /* makes vectors of texts, not texts */
  struct lls_tensor_names tensors;
  /* Fills what the keys say; sizes are checked by the caller. */
  int (*configure)(const struct lls_json *, struct lls_model_config *,
                   struct lls_error *);
};

extern const struct lls_architecture lls_llama, lls_qwen2, lls_qwen3, lls_smollm3,
    lls_olmo2, lls_phi3, lls_gemma2, lls_gemma3, lls_mixtral, lls_qwen3_moe, lls_gpt_oss,
    lls_opt, lls_neox, lls_bert, lls_bert_classifier, lls_roberta, lls_roberta_classifier,
    lls_gguf_classifier;

/* The class of GGUF files of cross-encoders; folders have no such. */
#define LLS_GGUF_CLASSIFIER "GgufCrossEncoder"

/* The tensors that Llama's descendants have in common. */
/* Embedders are saved without the head and without the prefix, as Qwen3-Embedding. */
#define LLS_LLAMA_TENSORS .prefixes = {"model.", ""}, LLS_LLAMA_NAMES
#define LLS_LLAMA_NAMES                                                                  \
  .embedding = "embed_tokens", .final_norm = "norm", .head = "lm_head",                  \
  .layers = "layers.", .output = "self_attn.o_proj", .down = "mlp.down_proj"
#define LLS_LLAMA_NORMS                                                                  \
  .attention_norm = "input_layernorm", .mlp_norm = "post_attention_layernorm"
#define LLS_LLAMA_QKV                                                                    \
  .q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj"
#define LLS_LLAMA_MLP .gate = "mlp.gate_proj", .up = "mlp.up_proj"

/* Helpers for configure. */
/* The rope of the layers that slide, where it is another; dims as rope's. */
int lls_config_local_rope(const struct lls_json *, const char *theta_key,
                          struct lls_model_config *, struct lls_error *err);
/* All that Llama's config.json says; windows of layers are the caller's. */
int lls_config_llama(const struct lls_json *, struct lls_model_config *,
                     struct lls_error *err);
/* Qwen's windows: of layers from one on, where switched on; qwen2.c. */
int lls_config_qwen_window(const struct lls_json *, struct lls_model_config *,
                           struct lls_error *err);
/* The same window in every layer. */
void lls_config_window(struct lls_model_config *, uint32_t window);
/* "layer_types", a list of full_attention and sliding_attention: the window of those that
 * slide. False if the file has none. */
int lls_config_layer_types(const struct lls_json *, struct lls_model_config *,
                           uint32_t window, bool *found, struct lls_error *err);
int lls_config_sizes(const struct lls_json *, struct lls_model_config *,
                     const char *ffn_key, struct lls_error *err);
int lls_config_activation(const struct lls_json *, const char *key, const char *fallback,
                          enum lls_activation *out, struct lls_error *err);
/* From rope_parameters (transformers 5), or rope_scaling and theta_key. share: the part
 * of a head that is rotated where the file does not say. */
int lls_config_rope(const struct lls_json *, const char *theta_key, double share,
                    struct lls_model_config *, struct lls_error *err);

#endif
