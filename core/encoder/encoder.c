/* SPDX-License-Identifier: Apache-2.0 */
/* The forward pass of encoders over the device's operations; see encoder.h. */
#include "core/base/least.h"
#include "core/encoder/encoder.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/encoder/folder.h"
#include "core/engine/engine.h"
#include "core/engine/weights.h"
#include "core/tokenizer/tokenizer.h"

#define DEFAULT_ROWS 512

struct lls_encoder {
  struct lls_model_config config;
  struct lls_encoder_folder folder;
  struct lls_tokenizer *tokenizer;
  struct lls_device *device;
  struct lls_weights weights;
  struct lls_attention_shape attention;
  uint32_t max_tokens, max_rows; /* of a text, of a pass */

  /* The pass: (max_rows) each; one text has a row at least. */
  struct lls_device_step step;
  int32_t *tokens, *positions;
  uint32_t *sequence;
  struct lls_step_sequence *sequences;
  void *x, *wide, *narrow; /* (max_rows, hidden | qkv or ffn | hidden) */
};

/* ---- making one --------------------------------------------------------------- */

static int create_device(struct lls_encoder *e, const struct lls_encoder_options *o,
                         struct lls_error *err)
{
  const struct lls_model_config *c = &e->config;
  struct lls_device_options device = {
      .threads = o->threads,
      .max_rows = e->max_rows,
      .max_columns = lls_most_u32(lls_qkv_columns(c), lls_most_u32(c->ffn, c->hidden)),
      .max_sequences = e->max_rows,
      .isa = o->isa,
  };
  return lls_cpu_device_create(&device, &e->device, err);
}

static int allocate(struct lls_encoder *e, struct lls_error *err)
{
  const struct lls_model_config *c = &e->config;
  const struct lls_device_ops *ops = e->device->ops;
  size_t rows = e->max_rows, hidden = rows * c->hidden * sizeof(float);
  size_t wide = rows * lls_most_u32(lls_qkv_columns(c), c->ffn) * sizeof(float);
  e->tokens = calloc(rows, sizeof *e->tokens);
  e->positions = calloc(rows, sizeof *e->positions);
  e->sequence = calloc(rows, sizeof *e->sequence);
  e->sequences = calloc(rows, sizeof *e->sequences);
  int rc = ops->alloc(e->device, LLS_MEMORY_DEVICE, hidden, &e->x);
  if (rc == 0)
    rc = ops->alloc(e->device, LLS_MEMORY_DEVICE, hidden, &e->narrow);
  if (rc == 0)
    rc = ops->alloc(e->device, LLS_MEMORY_DEVICE, wide, &e->wide);
  if (rc < 0 || e->tokens == NULL || e->positions == NULL || e->sequence == NULL ||
      e->sequences == NULL)
    return lls_fail(err, -ENOMEM, "no memory for an encoder's pass of %u tokens",
                    e->max_rows);
  e->step = (struct lls_device_step){.tokens = e->tokens,
                                     .positions = e->positions,
                                     .sequence = e->sequence,
                                     .sequences = e->sequences};
  return 0;
}

/* The smallest of what the model, its training and the options allow. */
static void set_limits(struct lls_encoder *e, const struct lls_encoder_options *o)
{
  e->max_tokens = e->config.max_context;
  if (e->folder.max_tokens > 0 && e->folder.max_tokens < e->max_tokens)
    e->max_tokens = e->folder.max_tokens;
  if (o->max_tokens > 0 && o->max_tokens < e->max_tokens)
    e->max_tokens = o->max_tokens;
  e->max_rows = lls_most_u32(o->max_rows > 0 ? o->max_rows : DEFAULT_ROWS, e->max_tokens);
}

static int open_folder(struct lls_encoder *e, const struct lls_encoder_options *o,
                       struct lls_error *err)
{
  const struct lls_weights_source source = {
      .folder = o->folder, .format = o->weights, .other_text = "buffers"};
  int rc = lls_encoder_config_read(o->folder, &e->config, err);
  if (rc == 0)
    rc = lls_encoder_folder_read(o->folder, &e->folder, err);
  if (rc == 0)
    rc = lls_tokenizer_load(o->folder, &e->tokenizer, err);
  if (rc == 0 && lls_tokenizer_size(e->tokenizer) > e->config.vocab)
    rc = lls_fail(err, -EINVAL, "%s: the tokeniser has %zu tokens, the model %u",
                  o->folder, lls_tokenizer_size(e->tokenizer), e->config.vocab);
  if (rc < 0)
    return rc;
  set_limits(e, o);
  rc = create_device(e, o, err);
  return rc < 0
             ? rc
             : lls_weights_load(&e->weights, &source, &e->config, NULL, e->device, err);
}

int lls_encoder_create(const struct lls_encoder_options *o, struct lls_encoder **out,
                       struct lls_error *err)
{
  struct lls_encoder *e = calloc(1, sizeof *e);
  if (e == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  int rc = open_folder(e, o, err);
  if (rc == 0)
    rc = allocate(e, err);
  if (rc < 0) {
    lls_encoder_destroy(e);
    return rc;
  }
  const struct lls_model_config *c = &e->config;
  e->attention = (struct lls_attention_shape){.heads = c->heads,
                                              .kv_heads = c->kv_heads,
                                              .head_dim = c->head_dim,
                                              .scale = 1 / sqrtf((float)c->head_dim)};
  *out = e;
  return 0;
}

void lls_encoder_destroy(struct lls_encoder *e)
{
  if (e == NULL)
    return;
  if (e->device != NULL) {
    const struct lls_device_ops *ops = e->device->ops;
    lls_weights_unload(&e->weights, e->device);
    ops->release(e->device, LLS_MEMORY_DEVICE, e->x);
    ops->release(e->device, LLS_MEMORY_DEVICE, e->narrow);
    ops->release(e->device, LLS_MEMORY_DEVICE, e->wide);
    ops->destroy(e->device);
  }
  lls_tokenizer_free(e->tokenizer);
  free(e->tokens);
  free(e->positions);
  free(e->sequence);
  free(e->sequences);
  free(e);
}

uint32_t lls_encoder_dims(const struct lls_encoder *e)
{
  return e->config.hidden;
}

uint64_t lls_encoder_fingerprint(const struct lls_encoder *e)
{
  return e->folder.fingerprint;
}

/* ---- a pass ------------------------------------------------------------------- */

static void norm(struct lls_encoder *e, const struct lls_norm_weights *w)
{
  e->device->ops->norm(e->device, LLS_NORM_LAYER, e->x, w->weight, w->bias,
                       e->config.norm_epsilon, e->step.n_rows, e->config.hidden, e->x);
}

static void run_layer(struct lls_encoder *e, const struct lls_layer_weights *w)
{
  const struct lls_device_ops *ops = e->device->ops;
  uint32_t n = e->step.n_rows;
  ops->linear(e->device, w->qkv, e->x, n, LLS_STORE_SET, e->wide);
  ops->attention_both_ways(e->device, &e->attention, e->wide, e->narrow);
  ops->linear(e->device, w->output, e->narrow, n, LLS_STORE_ADD, e->x);
  norm(e, &w->attention_norm);
  ops->linear(e->device, w->up, e->x, n, LLS_STORE_SET, e->wide);
  ops->activate(e->device, e->config.activation, e->wide, n, e->config.ffn);
  ops->linear(e->device, w->down, e->wide, n, LLS_STORE_ADD, e->x);
  norm(e, &w->mlp_norm);
}

static int run(struct lls_encoder *e, struct lls_error *err)
{
  const struct lls_device_ops *ops = e->device->ops;
  int rc = ops->step_begin(e->device, NULL, &e->step);
  if (rc < 0)
    return lls_fail(err, rc, "the device cannot begin");
  ops->embed(e->device, e->weights.embedding, 1, e->x);
  ops->embed_positions(e->device, e->weights.positions, 0, e->x);
  norm(e, &e->weights.embedding_norm);
  for (uint32_t i = 0; i < e->weights.n_layers; i++)
    run_layer(e, &e->weights.layers[i]);
  return ops->step_end(e->device, err);
}

/* The text's vector from its rows, of length 1. */
static void pool(const struct lls_encoder *e, const struct lls_step_sequence *s,
                 float *vector)
{
  uint32_t dims = e->config.hidden, n = e->folder.first_row ? 1 : s->n_rows;
  const float *row = (const float *)e->x + (size_t)s->first_row * dims;
  memset(vector, 0, dims * sizeof *vector);
  for (uint32_t i = 0; i < n; i++, row += dims)
    for (uint32_t d = 0; d < dims; d++)
      vector[d] += row[d];
  double squares = 0;
  for (uint32_t d = 0; d < dims; d++)
    squares += (double)vector[d] * vector[d];
  float scale = squares > 0 ? (float)(1 / sqrt(squares)) : 0;
  for (uint32_t d = 0; d < dims; d++)
    vector[d] *= scale;
}

static int finish_pass(struct lls_encoder *e, float *vectors, struct lls_error *err)
{
  int rc = run(e, err);
  for (uint32_t i = 0; rc == 0 && i < e->step.n_sequences; i++)
    pool(e, &e->sequences[i], vectors + (size_t)i * e->config.hidden);
  e->step.n_rows = e->step.n_sequences = 0;
  return rc;
}

/* A long text loses its end, but not the token that ends it, [SEP]. */
static void add_rows(struct lls_encoder *e, const int32_t *ids, uint32_t n_ids,
                     uint32_t n)
{
  uint32_t first = e->step.n_rows, s = e->step.n_sequences++;
  e->sequences[s] = (struct lls_step_sequence){.first_row = first, .n_rows = n};
  for (uint32_t i = 0; i < n; i++) {
    e->tokens[first + i] = ids[i];
    e->positions[first + i] = (int32_t)i;
    e->sequence[first + i] = s;
  }
  e->tokens[first + n - 1] = ids[n_ids - 1];
  e->step.n_rows += n;
}

int lls_encoder_encode(struct lls_encoder *e, const struct lls_encoder_text *texts,
                       size_t n, float *vectors, struct lls_error *err)
{
  size_t done = 0;
  int rc = 0;
  e->step.n_rows = e->step.n_sequences = 0;
  for (size_t i = 0; rc == 0 && i < n; i++) {
    int32_t *ids,
        none = 0; /* an empty text, without special tokens: a row all the same */
    size_t n_ids;
    rc = lls_tokenizer_encode(e->tokenizer, texts[i].text, texts[i].bytes, true, &ids,
                              &n_ids, err);
    if (rc < 0)
      break;
    uint32_t rows = n_ids < e->max_tokens ? (uint32_t)n_ids : e->max_tokens;
    rows = rows > 0 ? rows : 1;
    if (e->step.n_rows + rows > e->max_rows) {
      rc = finish_pass(e, vectors + done * e->config.hidden, err);
      done = i;
    }
    if (rc == 0)
      add_rows(e, n_ids > 0 ? ids : &none, n_ids > 0 ? (uint32_t)n_ids : 1, rows);
    free(ids);
  }
  return rc < 0 ? rc : finish_pass(e, vectors + done * e->config.hidden, err);
}
