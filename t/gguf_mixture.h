/* SPDX-License-Identifier: Apache-2.0 */
/* Writes mixtures of experts as llama.cpp's converter does: the matrices of all experts
 * are one tensor, and MXFP4 blocks stay MXFP4. */
#ifndef LLS_T_GGUF_MIXTURE_H
#define LLS_T_GGUF_MIXTURE_H

#include "t/gguf.h"

#include "core/device/tensor.h"
#include "core/model/architecture.h"
#include "core/model/checkpoint.h"

/* Returns the architecture's key, such as "qwen2.block_count". */
static inline const char *gguf_own(const char *architecture, const char *key)
{
  static char text[96];
  snprintf(text, sizeof text, "%s.%s", architecture, key);
  return text;
}

/* Copies as f32; heads > 0: the rows of each head in pairs, first halves with second
 * halves. */
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

/* The model whose experts are copied, and the file. */
struct gguf_experts {
  struct gguf_builder *b;
  struct lls_checkpoint *from;
  const struct lls_model_config *c;
  unsigned layer;
};

static inline void gguf_copy_in_layer(const struct gguf_experts *e, const char *old,
                                      const char *name, size_t rows, size_t columns)
{
  char from[96], to[96];
  snprintf(from, sizeof from, "model.layers.%u.%s", e->layer, old);
  snprintf(to, sizeof to, "blk.%u.%s", e->layer, name);
  if (lls_checkpoint_has(e->from, from))
    gguf_copy_tensor(e->b, e->from, from, to, rows, columns, 0);
}

/* Appends one matrix of all experts, one after another. */
static inline void gguf_stack_experts(const struct gguf_experts *e, const char *experts,
                                      const char *part, const char *name, size_t rows,
                                      size_t columns)
{
  size_t n = e->c->mixture.experts;
  float *all = calloc(n * rows * columns, sizeof *all), *to = all;
  char full[96];
  assert_non_null(all);
  for (size_t i = 0; i < n; i++) {
    struct lls_tensor_view view;
    snprintf(full, sizeof full, "model.layers.%u.%s.%zu.%s.weight", e->layer, experts, i,
             part);
    assert_int_equal(lls_checkpoint_view(e->from, full, rows, columns, &view, NULL), 0);
    for (size_t row = 0; row < rows; row++, to += columns)
      lls_tensor_read_row(&view, row, to);
  }
  snprintf(full, sizeof full, "blk.%u.%s.weight", e->layer, name);
  gguf_stack(e->b, full, 0, (const uint64_t[]){n, rows, columns}, all,
             n * rows * columns * sizeof *all);
  free(all);
}

static inline void gguf_copy_experts(const struct gguf_experts *e)
{
  bool mixtral = strncmp(e->c->architecture->title, "Mixtral", 7) == 0;
  const char *experts = mixtral ? "block_sparse_moe.experts" : "mlp.experts";
  size_t ffn = e->c->mixture.ffn, hidden = e->c->hidden;
  gguf_stack_experts(e, experts, mixtral ? "w1" : "gate_proj", "ffn_gate_exps", ffn,
                     hidden);
  gguf_stack_experts(e, experts, mixtral ? "w3" : "up_proj", "ffn_up_exps", ffn, hidden);
  gguf_stack_experts(e, experts, mixtral ? "w2" : "down_proj", "ffn_down_exps", hidden,
                     ffn);
}

#define GGUF_MXFP4       39
#define GGUF_MXFP4_BLOCK 32

/* Appends a block: the scale, then value i with value i + 16; in folders 2i is with 2i
 * + 1. */
static inline void gguf_append_block(struct gguf_part *to, const unsigned char *codes,
                                     unsigned char scale)
{
  unsigned char block[1 + GGUF_MXFP4_BLOCK / 2] = {scale};
  for (size_t i = 0; i < GGUF_MXFP4_BLOCK; i++) {
    unsigned code = codes[i / 2] >> (i % 2 * 4) & 15;
    block[1 + i % 16] |= (unsigned char)(code << (i / 16 * 4));
  }
  gguf_append(to, block, sizeof block);
}

static inline const unsigned char *gguf_bytes_of(const struct gguf_experts *e,
                                                 const char *part, const char *suffix,
                                                 size_t n)
{
  char name[96];
  const void *bytes = NULL;
  snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s_%s", e->layer, part,
           suffix);
  assert_int_equal(lls_checkpoint_bytes(e->from, name, n, &bytes, NULL), 0);
  return bytes;
}

/* Copies rows first, first + step, ... of every expert. */
static inline void gguf_copy_blocks(const struct gguf_experts *e, const char *part,
                                    const char *name, size_t first, size_t step,
                                    const uint64_t sizes[3])
{
  size_t rows = sizes[0] * sizes[1] * step, blocks = sizes[2] / GGUF_MXFP4_BLOCK;
  const unsigned char *codes = gguf_bytes_of(e, part, "blocks", rows * blocks * 16),
                      *scales = gguf_bytes_of(e, part, "scales", rows * blocks);
  struct gguf_part weights = {0};
  char full[96];
  for (size_t row = first; row < rows; row += step)
    for (size_t i = row * blocks; i < (row + 1) * blocks; i++)
      gguf_append_block(&weights, codes + i * 16, scales[i]);
  snprintf(full, sizeof full, "blk.%u.%s.weight", e->layer, name);
  gguf_stack(e->b, full, GGUF_MXFP4, sizes, weights.bytes, weights.n);
  free(weights.bytes);
}

/* Copies the same rows' biases: an expert's are a row. */
static inline void gguf_copy_biases(const struct gguf_experts *e, const char *part,
                                    const char *name, size_t first, size_t step,
                                    const uint64_t sizes[3])
{
  size_t rows = sizes[1] * step;
  float *row = calloc(rows, sizeof *row);
  struct gguf_part biases = {0};
  struct lls_tensor_view view;
  char full[96];
  assert_non_null(row);
  snprintf(full, sizeof full, "model.layers.%u.mlp.experts.%s_bias", e->layer, part);
  assert_int_equal(lls_checkpoint_view(e->from, full, sizes[0], rows, &view, NULL), 0);
  for (size_t expert = 0; expert < sizes[0]; expert++) {
    lls_tensor_read_row(&view, expert, row);
    for (size_t i = first; i < rows; i += step)
      gguf_append(&biases, &row[i], sizeof row[i]);
  }
  snprintf(full, sizeof full, "blk.%u.%s.bias", e->layer, name);
  gguf_tensor(e->b, full, 0, sizes[0], sizes[1], biases.bytes, biases.n);
  free(biases.bytes);
  free(row);
}

/* gpt-oss interleaves the rows of gate and up. */
static inline void gguf_copy_block_experts(const struct gguf_experts *e)
{
  const struct lls_mixture_config *m = &e->c->mixture;
  const uint64_t up[] = {m->experts, m->ffn, e->c->hidden};
  const uint64_t down[] = {m->experts, e->c->hidden, m->ffn};
  gguf_copy_blocks(e, "gate_up_proj", "ffn_gate_exps", 0, 2, up);
  gguf_copy_biases(e, "gate_up_proj", "ffn_gate_exps", 0, 2, up);
  gguf_copy_blocks(e, "gate_up_proj", "ffn_up_exps", 1, 2, up);
  gguf_copy_biases(e, "gate_up_proj", "ffn_up_exps", 1, 2, up);
  gguf_copy_blocks(e, "down_proj", "ffn_down_exps", 0, 1, down);
  gguf_copy_biases(e, "down_proj", "ffn_down_exps", 0, 1, down);
}

static inline void gguf_copy_mixtures(struct gguf_builder *b, struct lls_checkpoint *from,
                                      const char *a, const struct lls_model_config *c)
{
  const struct lls_mixture_config *m = &c->mixture;
  const char *const routers[] = {"block_sparse_moe.gate", "mlp.gate", "mlp.router"};
  struct gguf_experts e = {b, from, c, 0};
  gguf_number(b, gguf_own(a, "expert_count"), m->experts);
  gguf_number(b, gguf_own(a, "expert_used_count"), m->active);
  gguf_number(b, gguf_own(a, "expert_feed_forward_length"), m->ffn);
  if (!m->normalise)
    gguf_append(gguf_key(b, gguf_own(a, "expert_weights_norm"), LLS_GGUF_BOOL), "", 1);
  for (; e.layer < c->layers; e.layer++) {
    for (size_t i = 0; i < 3; i++) {
      char old[64];
      snprintf(old, sizeof old, "%s.weight", routers[i]);
      gguf_copy_in_layer(&e, old, "ffn_gate_inp.weight", m->experts, c->hidden);
      snprintf(old, sizeof old, "%s.bias", routers[i]);
      gguf_copy_in_layer(&e, old, "ffn_gate_inp.bias", 0, m->experts);
    }
    gguf_copy_in_layer(&e, "self_attn.sinks", "attn_sinks.weight", 0, c->heads);
    if (m->biases)
      gguf_copy_block_experts(&e);
    else if (c->layer[e.layer].mixture)
      gguf_copy_experts(&e);
  }
}

#endif
