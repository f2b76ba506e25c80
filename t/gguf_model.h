/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the models of t/data/models as GGUF files, as llama.cpp's converter does. */
#ifndef LLS_T_GGUF_MODEL_H
#define LLS_T_GGUF_MODEL_H

#include "t/gguf_mixture.h"

static inline void gguf_describe(struct gguf_builder *b, const char *a,
                                 const struct lls_model_config *c)
{
  gguf_text(b, "general.architecture", a);
  gguf_number(b, gguf_own(a, "block_count"), c->layers);
  gguf_number(b, gguf_own(a, "embedding_length"), c->hidden);
  gguf_number(b, gguf_own(a, "feed_forward_length"), c->ffn);
  gguf_number(b, gguf_own(a, "attention.head_count"), c->heads);
  gguf_number(b, gguf_own(a, "attention.head_count_kv"), c->kv_heads);
  gguf_number(b, gguf_own(a, "attention.key_length"), c->head_dim);
  gguf_number(b, gguf_own(a, "context_length"), c->max_context);
  gguf_real(b, gguf_own(a, "attention.layer_norm_rms_epsilon"), c->norm_epsilon);
  gguf_real(b, gguf_own(a, "rope.freq_base"), (float)c->rope.theta);
  gguf_number(b, gguf_own(a, "rope.dimension_count"), c->rope.dims);
  if (c->layer[0].window > 0)
    gguf_number(b, gguf_own(a, "attention.sliding_window"), c->layer[0].window);
  gguf_number(b, "tokenizer.ggml.bos_token_id", (uint32_t)c->bos);
  gguf_number(b, "tokenizer.ggml.eos_token_id", (uint32_t)c->eos[0]);
}

/* Copies the layer's tensors that the model has. */
static inline void gguf_copy_layer(struct gguf_builder *b, struct lls_checkpoint *from,
                                   const struct lls_model_config *c, bool paired,
                                   unsigned layer)
{
  size_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
  bool whole = c->qk_norm == LLS_QK_NORM_WHOLE,
       outputs = c->norm_place == LLS_NORM_OUTPUT || c->attention_sinks;
  const struct {
    const char *old, *name;
    size_t rows, columns, heads;
  } parts[] = {
      {"input_layernorm", "attn_norm", 0, c->hidden, 0},
      {"post_attention_layernorm", outputs ? "post_attention_norm" : "ffn_norm", 0,
       c->hidden, 0},
      {"post_feedforward_layernorm", "post_ffw_norm", 0, c->hidden, 0},
      {"self_attn.q_norm", "attn_q_norm", 0, whole ? q : c->head_dim, 0},
      {"self_attn.k_norm", "attn_k_norm", 0, whole ? kv : c->head_dim, 0},
      {"self_attn.q_proj", "attn_q", q, c->hidden, paired ? c->heads : 0},
      {"self_attn.k_proj", "attn_k", kv, c->hidden, paired ? c->kv_heads : 0},
      {"self_attn.v_proj", "attn_v", kv, c->hidden, 0},
      {"self_attn.qkv_proj", "attn_qkv", q + 2 * kv, c->hidden, 0},
      {"self_attn.o_proj", "attn_output", c->hidden, q, 0},
      {"mlp.gate_proj", "ffn_gate", c->ffn, c->hidden, 0},
      {"mlp.up_proj", "ffn_up", c->ffn, c->hidden, 0},
      {"mlp.gate_up_proj", "ffn_up", 2 * c->ffn, c->hidden, 0},
      {"mlp.down_proj", "ffn_down", c->hidden, c->ffn, 0},
  };
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    char old[96], name[96];
    snprintf(old, sizeof old, "model.layers.%u.%s.weight", layer, parts[i].old);
    snprintf(name, sizeof name, "blk.%u.%s.weight", layer, parts[i].name);
    if (lls_checkpoint_has(from, old))
      gguf_copy_tensor(b, from, old, name, parts[i].rows, parts[i].columns,
                       parts[i].heads);
    snprintf(old, sizeof old, "model.layers.%u.%s.bias", layer, parts[i].old);
    snprintf(name, sizeof name, "blk.%u.%s.bias", layer, parts[i].name);
    if (lls_checkpoint_has(from, old))
      gguf_copy_tensor(b, from, old, name, 0, parts[i].rows, parts[i].heads);
  }
}

static inline void gguf_copy_factors(struct gguf_builder *b, const char *name,
                                     const float *factors, size_t n)
{
  gguf_tensor(b, name, 0, 0, n, factors, n * sizeof *factors);
}

/* Llama 3's rope scaling is stored in GGUF files as a factor for each pair of
 * dimensions. */
static inline void gguf_copy_rope(struct gguf_builder *b, const char *a,
                                  const struct lls_model_config *c)
{
  float plain[LLS_MAX_ROPE_PAIRS], scaled[LLS_MAX_ROPE_PAIRS];
  struct lls_rope_config unscaled = c->rope;
  size_t n = c->rope.dims / 2;
  unscaled.scaling = LLS_ROPE_PLAIN;
  lls_rope_frequencies(&unscaled, c->max_context, plain);
  lls_rope_frequencies(&c->rope, c->max_context, scaled);
  for (size_t i = 0; i < n; i++)
    plain[i] /= scaled[i];
  if (c->rope.scaling == LLS_ROPE_LLAMA3)
    gguf_copy_factors(b, "rope_freqs.weight", plain, n);
  if (c->rope.scaling == LLS_ROPE_YARN) {
    gguf_text(b, gguf_own(a, "rope.scaling.type"), "yarn");
    gguf_real(b, gguf_own(a, "rope.scaling.factor"), (float)c->rope.factor);
    gguf_number(b, gguf_own(a, "rope.scaling.original_context_length"),
                c->rope.original_context);
  }
  if (c->rope.scaling != LLS_ROPE_LONG)
    return;
  gguf_copy_factors(b, "rope_factors_short.weight", c->rope.short_factors, n);
  gguf_copy_factors(b, "rope_factors_long.weight", c->rope.long_factors, n);
  gguf_number(b, gguf_own(a, "rope.scaling.original_context_length"),
              c->rope.original_context);
  gguf_real(b, gguf_own(a, "rope.scaling.attn_factor"), (float)c->rope.attention_factor);
}

/* Returns a model's architecture: "qwen2" for t/data/models/qwen2-window. */
static inline const char *gguf_architecture_of(const char *model)
{
  static const char *const names[] = {"qwen2", "qwen3", "smollm3",
                                      "olmo2", "phi3",  "gpt-oss"};
  if (strcmp(model, "qwen3-moe") == 0)
    return "qwen3moe";
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strncmp(model, names[i], strlen(names[i])) == 0)
      return names[i];
  return "llama";
}

/* Writes a model of t/data/models as a file in the folder, all values in f32. */
static inline void gguf_convert(const char *model, const struct folder *folder,
                                const char *name)
{
  char relative[128], from[4096];
  const char *a = gguf_architecture_of(model);
  struct lls_model_config c;
  struct lls_checkpoint *checkpoint;
  struct gguf_builder b = {0};
  bool paired = strcmp(a, "llama") == 0 || strcmp(a, "smollm3") == 0;
  snprintf(relative, sizeof relative, "t/data/models/%s", model);
  snprintf(from, sizeof from, "%s", source_path(relative));
  assert_int_equal(lls_model_config_read(from, &c, NULL), 0);
  assert_int_equal(lls_checkpoint_open(from, &checkpoint, NULL), 0);
  gguf_describe(&b, a, &c);
  gguf_copy_tensor(&b, checkpoint, "model.embed_tokens.weight", "token_embd.weight",
                   c.vocab, c.hidden, 0);
  gguf_copy_tensor(&b, checkpoint, "model.norm.weight", "output_norm.weight", 0, c.hidden,
                   0);
  if (!c.tied_embeddings)
    gguf_copy_tensor(&b, checkpoint, "lm_head.weight", "output.weight", c.vocab, c.hidden,
                     0);
  for (unsigned layer = 0; layer < c.layers; layer++)
    gguf_copy_layer(&b, checkpoint, &c, paired, layer);
  if (c.mixture.experts > 0)
    gguf_copy_mixtures(&b, checkpoint, a, &c);
  gguf_copy_rope(&b, a, &c);
  lls_checkpoint_close(checkpoint);
  gguf_write(&b, folder, name);
  gguf_free(&b);
}

/* Makes a new folder with the model as x.gguf; the caller removes it. */
static inline void gguf_folder(const char *model, struct folder *folder, char path[128])
{
  folder_make(folder);
  snprintf(path, 128, "%s/x.gguf", folder->path);
  gguf_convert(model, folder, "x.gguf");
}

/* A model's sizes for tests where they do not matter. */
static inline struct lls_model_config gguf_small_model(void)
{
  return (struct lls_model_config){.layers = 2,
                                   .hidden = 32,
                                   .ffn = 32,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .head_dim = 4,
                                   .max_context = 64,
                                   .norm_epsilon = 1e-6F,
                                   .rope.theta = 1e6};
}

#endif
