/* SPDX-License-Identifier: Apache-2.0 */
/* Writes GGUF files: piece by piece, or as llama.cpp's converter makes them of a Llama.
 */
#ifndef LLS_T_GGUF_H
#define LLS_T_GGUF_H

#include "t/folder.h"

#include "core/device/tensor.h"
#include "core/model/checkpoint.h"
#include "core/model/gguf_file.h"
#include "core/model/model_config.h"

struct gguf_part {
  unsigned char *bytes;
  size_t n;
};

struct gguf_builder {
  struct gguf_part entries, tensors, data;
  uint32_t version;
  uint64_t n_entries, n_tensors;
};

#define GGUF_ALIGNMENT 32

static inline void gguf_append(struct gguf_part *p, const void *bytes, size_t n)
{
  p->bytes = realloc(p->bytes, p->n + n + 1);
  assert_non_null(p->bytes);
  memcpy(p->bytes + p->n, bytes, n);
  p->n += n;
}

static inline void gguf_append_u32(struct gguf_part *p, uint32_t value)
{
  gguf_append(p, &value, sizeof value);
}

static inline void gguf_append_u64(struct gguf_part *p, uint64_t value)
{
  gguf_append(p, &value, sizeof value);
}

static inline void gguf_append_text(struct gguf_part *p, const char *text)
{
  gguf_append_u64(p, strlen(text));
  gguf_append(p, text, strlen(text));
}

/* A key and its type; the value is appended next. */
static inline struct gguf_part *gguf_key(struct gguf_builder *b, const char *key,
                                         enum lls_gguf_type type)
{
  gguf_append_text(&b->entries, key);
  gguf_append_u32(&b->entries, type);
  b->n_entries++;
  return &b->entries;
}

static inline struct gguf_part *gguf_list(struct gguf_builder *b, const char *key,
                                          enum lls_gguf_type type, uint64_t n)
{
  struct gguf_part *p = gguf_key(b, key, LLS_GGUF_ARRAY);
  gguf_append_u32(p, type);
  gguf_append_u64(p, n);
  return p;
}

static inline void gguf_text(struct gguf_builder *b, const char *key, const char *value)
{
  gguf_append_text(gguf_key(b, key, LLS_GGUF_STRING), value);
}

static inline void gguf_number(struct gguf_builder *b, const char *key, uint32_t value)
{
  gguf_append_u32(gguf_key(b, key, LLS_GGUF_U32), value);
}

static inline void gguf_real(struct gguf_builder *b, const char *key, float value)
{
  gguf_append(gguf_key(b, key, LLS_GGUF_F32), &value, sizeof value);
}

/* Sizes as the graph has them, the outermost first; rows 0: a vector. */
static inline void gguf_tensor(struct gguf_builder *b, const char *name, uint32_t type,
                               uint64_t rows, uint64_t columns, const void *data,
                               size_t bytes)
{
  static const char zeros[GGUF_ALIGNMENT];
  gguf_append(&b->data, zeros, -b->data.n % GGUF_ALIGNMENT);
  gguf_append_text(&b->tensors, name);
  gguf_append_u32(&b->tensors, rows == 0 ? 1 : 2);
  gguf_append_u64(&b->tensors, columns);
  if (rows != 0)
    gguf_append_u64(&b->tensors, rows);
  gguf_append_u32(&b->tensors, type);
  gguf_append_u64(&b->tensors, b->data.n);
  gguf_append(&b->data, data, bytes);
  b->n_tensors++;
}

static inline void gguf_free(struct gguf_builder *b)
{
  free(b->entries.bytes);
  free(b->tensors.bytes);
  free(b->data.bytes);
  *b = (struct gguf_builder){0};
}

/* The whole file; the caller frees it. */
static inline struct gguf_part gguf_bytes(const struct gguf_builder *b)
{
  static const char zeros[GGUF_ALIGNMENT];
  struct gguf_part file = {0};
  gguf_append(&file, "GGUF", 4);
  gguf_append_u32(&file, b->version != 0 ? b->version : 3);
  gguf_append_u64(&file, b->n_tensors);
  gguf_append_u64(&file, b->n_entries);
  if (b->entries.n > 0)
    gguf_append(&file, b->entries.bytes, b->entries.n);
  if (b->tensors.n > 0)
    gguf_append(&file, b->tensors.bytes, b->tensors.n);
  gguf_append(&file, zeros, -file.n % GGUF_ALIGNMENT);
  if (b->data.n > 0)
    gguf_append(&file, b->data.bytes, b->data.n);
  return file;
}

static inline void gguf_write(struct gguf_builder *b, const struct folder *folder,
                              const char *name)
{
  struct gguf_part file = gguf_bytes(b);
  folder_write(folder, name, file.bytes, file.n);
  free(file.bytes);
}

/* ---- of a model folder ---------------------------------------------------------- */

/* "qwen2.block_count" */
static inline const char *gguf_own(const char *architecture, const char *key)
{
  static char text[96];
  snprintf(text, sizeof text, "%s.%s", architecture, key);
  return text;
}

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

/* As f32; heads > 0: rows of each head in pairs, first halves with second halves. */
static inline void gguf_copy_tensor(struct gguf_builder *b, struct lls_checkpoint *from,
                                    const char *old, const char *name, size_t rows,
                                    size_t columns, size_t heads)
{
  struct lls_tensor_view view;
  struct lls_error err = {0};
  size_t shown = rows == 0 ? 1 : rows, lines = rows == 0 ? columns : rows;
  if (lls_checkpoint_view(from, old, shown, columns, &view, &err) < 0)
    fail_msg("%s", err.text);
  float *numbers = calloc(shown * columns, sizeof *numbers);
  float *paired = calloc(shown * columns, sizeof *paired);
  assert_true(numbers != NULL && paired != NULL);
  for (size_t i = 0; i < shown; i++)
    lls_tensor_read_row(&view, i, numbers + i * columns);
  size_t each = heads > 0 ? lines / heads : lines, width = shown * columns / lines;
  for (size_t i = 0; i < lines; i++) {
    size_t in = i % each, half = each / 2;
    size_t to = heads == 0 ? i : i - in + in % half * 2 + in / half;
    memcpy(paired + to * width, numbers + i * width, width * sizeof *numbers);
  }
  gguf_tensor(b, name, 0, rows, columns, paired, shown * columns * sizeof *paired);
  free(numbers);
  free(paired);
}

/* Those of the layer's tensors that the model has. */
static inline void gguf_copy_layer(struct gguf_builder *b, struct lls_checkpoint *from,
                                   const struct lls_model_config *c, bool paired,
                                   unsigned layer)
{
  size_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
  bool whole = c->qk_norm == LLS_QK_NORM_WHOLE,
       outputs = c->norm_place == LLS_NORM_OUTPUT;
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

/* Llama 3's scaling is a factor for each pair of dimensions in these files. */
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
  if (c->rope.scaling != LLS_ROPE_LONG)
    return;
  gguf_copy_factors(b, "rope_factors_short.weight", c->rope.short_factors, n);
  gguf_copy_factors(b, "rope_factors_long.weight", c->rope.long_factors, n);
  gguf_number(b, gguf_own(a, "rope.scaling.original_context_length"),
              c->rope.original_context);
  gguf_real(b, gguf_own(a, "rope.scaling.attn_factor"), (float)c->rope.attention_factor);
}

/* "qwen2" of t/data/models/qwen2-window */
static inline const char *gguf_architecture_of(const char *model)
{
  static const char *const names[] = {"qwen2", "qwen3", "smollm3", "olmo2", "phi3"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strncmp(model, names[i], strlen(names[i])) == 0)
      return names[i];
  return "llama";
}

/* A model of t/data/models as a file of that folder, all numbers in f32. */
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
  gguf_copy_rope(&b, a, &c);
  lls_checkpoint_close(checkpoint);
  gguf_write(&b, folder, name);
  gguf_free(&b);
}

#endif
