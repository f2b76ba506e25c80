/* SPDX-License-Identifier: Apache-2.0 */
/* Turns texts into an engine's sequences, and its pooled sums into vectors; see
 * encoder.h. */
#include "core/base/least.h"
#include "core/encoder/encoder.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/encoder/folder.h"
#include "core/engine/engine.h"
#include "core/model/model_text.h"

#define DEFAULT_ROWS 512

struct lls_encoder {
  struct lls_model_config config;
  struct lls_encoder_folder folder;
  struct lls_tokenizer *tokenizer;
  struct lls_device *device;
  struct lls_engine *engine;
  uint32_t max_tokens, max_rows; /* most tokens of a text, and of a pass */

  /* The current pass; each text has at least one token. */
  struct lls_engine_sequence *sequences; /* (max_rows) n_texts are used */
  /* (max_rows) n_texts are used; the encoder frees them */
  int32_t **ids;
  uint32_t n_texts, n_rows;
};

/* ---- making one --------------------------------------------------------------- */

static int create_device(struct lls_encoder *e, const struct lls_encoder_options *o,
                         struct lls_error *err)
{
  struct lls_device_options device = {
      .threads = o->threads,
      .max_rows = e->max_rows,
      .max_columns = lls_engine_max_columns(&e->config),
      .max_sequences = e->max_rows,
      .isa = o->isa,
  };
  return o->cpu->create(&device, &e->device, err);
}

static int create_engine(struct lls_encoder *e, const struct lls_encoder_options *o,
                         struct lls_error *err)
{
  const struct lls_engine_options engine = {
      .model_path = o->folder,
      .weights = o->weights,
      .cache_element = LLS_F32,
      .max_tokens = e->max_rows,
      .max_sequences = e->max_rows,
      .block_tokens = 16,
      .cache_bytes = 4096, /* the engine never writes to the cache */
  };
  return lls_engine_create(&engine, &e->config, e->device, &e->engine, err);
}

/* Sets max_tokens to the least of the limits by the model, its training and the
 * options. */
static void set_limits(struct lls_encoder *e, const struct lls_encoder_options *o)
{
  e->max_tokens = lls_longest_text(&e->config);
  if (o->max_tokens > 0)
    e->max_tokens = lls_least_u32(e->max_tokens, o->max_tokens);
  e->max_rows = lls_most_u32(o->max_rows > 0 ? o->max_rows : DEFAULT_ROWS, e->max_tokens);
}

static int open_folder(struct lls_encoder *e, const struct lls_encoder_options *o,
                       struct lls_error *err)
{
  int rc = lls_encoder_config_read(o->folder, &e->config, err);
  if (rc == 0)
    rc = lls_encoder_folder_read(o->folder, &e->folder, err);
  if (rc == 0)
    rc = lls_model_tokenizer(o->folder, &e->tokenizer, err);
  if (rc == 0 && lls_tokenizer_size(e->tokenizer) > e->config.vocab)
    rc = lls_fail(err, -EINVAL, "%s: the tokeniser has %zu tokens, the model %u",
                  o->folder, lls_tokenizer_size(e->tokenizer), e->config.vocab);
  return rc;
}

static int create_parts(struct lls_encoder *e, const struct lls_encoder_options *o,
                        struct lls_error *err)
{
  set_limits(e, o);
  e->sequences = calloc(e->max_rows, sizeof *e->sequences);
  e->ids = calloc(e->max_rows, sizeof *e->ids);
  if (e->sequences == NULL || e->ids == NULL)
    return lls_fail(err, -ENOMEM, "no memory for an encoder's pass of %u tokens",
                    e->max_rows);
  int rc = create_device(e, o, err);
  return rc < 0 ? rc : create_engine(e, o, err);
}

int lls_encoder_create(const struct lls_encoder_options *o, struct lls_encoder **out,
                       struct lls_error *err)
{
  struct lls_encoder *e = calloc(1, sizeof *e);
  if (e == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  int rc = open_folder(e, o, err);
  if (rc == 0)
    rc = create_parts(e, o, err);
  if (rc < 0) {
    lls_encoder_destroy(e);
    return rc;
  }
  *out = e;
  return 0;
}

static void end_pass(struct lls_encoder *e)
{
  for (uint32_t i = 0; i < e->n_texts; i++)
    free(e->ids[i]);
  e->n_texts = e->n_rows = 0;
}

void lls_encoder_destroy(struct lls_encoder *e)
{
  if (e == NULL)
    return;
  lls_engine_destroy(e->engine);
  if (e->device != NULL)
    e->device->ops->destroy(e->device);
  lls_tokenizer_free(e->tokenizer);
  free(e->sequences);
  free(e->ids);
  free(e);
}

uint32_t lls_encoder_dims(const struct lls_encoder *e)
{
  return e->config.embed_dim;
}

uint64_t lls_encoder_fingerprint(const struct lls_encoder *e)
{
  return e->folder.fingerprint;
}

/* ---- a pass ------------------------------------------------------------------- */

/* Scales a vector to length 1. */
static void normalise(float *vector, uint32_t dims)
{
  double squares = 0;
  for (uint32_t d = 0; d < dims; d++)
    squares += (double)vector[d] * (double)vector[d];
  float scale = squares > 0 ? (float)(1 / sqrt(squares)) : 0;
  for (uint32_t d = 0; d < dims; d++)
    vector[d] *= scale;
}

static int finish_pass(struct lls_encoder *e, struct lls_error *err)
{
  const struct lls_engine_batch batch = {.n_sequences = e->n_texts,
                                         .sequences = e->sequences};
  struct lls_engine_result result;
  int rc = lls_engine_submit(e->engine, &batch, err);
  if (rc == 0)
    rc = lls_engine_wait(e->engine, &result, err);
  for (uint32_t i = 0; rc == 0 && i < e->n_texts; i++)
    normalise(e->sequences[i].pooled, e->config.embed_dim);
  end_pass(e);
  return rc;
}

/* Adds a text to the pass and takes ownership of ids. A text cut to n tokens keeps its
 * last token, [SEP]. */
static void add_text(struct lls_encoder *e, int32_t *ids, uint32_t n_ids, uint32_t n,
                     float *vector)
{
  ids[n - 1] = ids[n_ids - 1];
  memset(vector, 0, e->config.embed_dim * sizeof *vector);
  e->ids[e->n_texts] = ids;
  e->sequences[e->n_texts++] = (struct lls_engine_sequence){
      .tokens = ids,
      .n_tokens = n,
      .n_pooled = e->folder.first_row ? 1 : n,
      .pooled = vector,
  };
  e->n_rows += n;
}

/* Tokenises a text. An empty text without special tokens gets one token, since each
 * needs a row. */
static int tokenise(const struct lls_encoder *e, const struct lls_encoder_text *text,
                    int32_t **ids, uint32_t *n, struct lls_error *err)
{
  size_t n_ids;
  int rc =
      lls_tokenizer_encode(e->tokenizer, text->text, text->bytes, true, ids, &n_ids, err);
  if (rc == 0 && n_ids == 0) {
    *ids = calloc(n_ids = 1, sizeof **ids);
    rc = *ids != NULL ? 0 : lls_fail(err, -ENOMEM, "out of memory");
  }
  *n = (uint32_t)n_ids;
  return rc;
}

int lls_encoder_encode(struct lls_encoder *e, const struct lls_encoder_text *texts,
                       size_t n, float *vectors, struct lls_error *err)
{
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < n; i++) {
    int32_t *ids;
    uint32_t n_ids;
    rc = tokenise(e, &texts[i], &ids, &n_ids, err);
    if (rc < 0)
      break;
    uint32_t rows = lls_least_u32(n_ids, e->max_tokens);
    if (e->n_rows + rows > e->max_rows)
      rc = finish_pass(e, err);
    add_text(e, ids, n_ids, rows, vectors + i * e->config.embed_dim);
  }
  if (rc == 0)
    return finish_pass(e, err);
  end_pass(e);
  return rc;
}
