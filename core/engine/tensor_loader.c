/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors from the model folder to the device; see tensor_loader.h. */
#include "core/engine/tensor_loader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/device/quantised.h"
#include "core/device/tensor.h"
#include "core/model/checkpoint.h"
#include "core/model/gguf.h"

#define MIB(bytes) (((bytes) + (1u << 20) - 1) >> 20)

int lls_loader_check_memory(const struct lls_loader *l, double per_number)
{
  size_t weights = (size_t)(per_number * (double)l->total);
  if (weights + l->source->other_bytes <= l->available)
    return 0;
  return lls_fail(l->err, -ENOMEM,
                  "the model does not fit: it needs %zu MiB of weights and %s; %zu MiB "
                  "are available%s",
                  MIB(weights), l->source->other_text, MIB(l->available),
                  weights < l->available
                      ? ": [cache] device_memory, host_memory or [engine] "
                        "max_step_tokens has to be smaller"
                      : "");
}

/* ---- tensors -------------------------------------------------------------------- */

/* FNV-1a: random weights depend on the tensor's name, not on the order of loading. */
static uint64_t seed_of(const char *name)
{
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; *name != '\0'; name++)
    hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
  return hash;
}

/* Returns the type of random rows: the model's own if a row is a whole number of its
 * blocks. */
static enum lls_dtype dummy_type(enum lls_dtype own, size_t columns)
{
  return columns % lls_dtype_block(own) == 0 ? own : LLS_BF16;
}

int lls_loader_view_named(const struct lls_loader *l, const char *name, size_t rows,
                          size_t columns, struct lls_tensor_view *out)
{
  if (!l->source->dummy)
    return lls_checkpoint_view(l->w->file, name, rows, columns, out, l->err);
  *out = (struct lls_tensor_view){
      .dtype = dummy_type(l->config->dtype, columns),
      .rows = rows,
      .columns = columns,
      .row_stride = columns,
      .seed = seed_of(name),
  };
  return 0;
}

#define FULL_NAME_MAX 256

static void full_name(const struct lls_loader *l, int layer, const char *name,
                      const char *suffix, char full[FULL_NAME_MAX])
{
  if (layer == LLS_NO_LAYER)
    snprintf(full, FULL_NAME_MAX, "%s%s%s", l->prefix, name, suffix);
  else if (l->names->layer_alone)
    snprintf(full, FULL_NAME_MAX, "%s%s%s%s", l->prefix, l->names->layers, name, suffix);
  else
    snprintf(full, FULL_NAME_MAX, "%s%s%u.%s%s", l->prefix, l->names->layers,
             (unsigned)layer + l->config->first_layer, name, suffix);
}

int lls_loader_view(const struct lls_loader *l, int layer, const char *name,
                    const char *suffix, size_t rows, size_t columns,
                    struct lls_tensor_view *out)
{
  char full[FULL_NAME_MAX];
  full_name(l, layer, name, suffix, full);
  return lls_loader_view_named(l, full, rows, columns, out);
}

bool lls_loader_has(const struct lls_loader *l, int layer, const char *name,
                    const char *suffix)
{
  char full[FULL_NAME_MAX];
  full_name(l, layer, name, suffix, full);
  return !l->source->dummy && lls_checkpoint_has(l->w->file, full);
}

int lls_loader_bytes(const struct lls_loader *l, int layer, const char *name,
                     const char *suffix, size_t n, const void **out)
{
  char full[FULL_NAME_MAX];
  full_name(l, layer, name, suffix, full);
  return lls_checkpoint_bytes(l->w->file, full, n, out, l->err);
}

uint64_t lls_loader_seed(const struct lls_loader *l, int layer, const char *name)
{
  char full[FULL_NAME_MAX];
  full_name(l, layer, name, "", full);
  return seed_of(full);
}

static int pack_as(struct lls_loader *l, enum lls_weight_format format,
                   const struct lls_tensor_view *parts,
                   const struct lls_tensor_view *biases, size_t n,
                   struct lls_weight **out)
{
  const struct lls_device_ops *ops = l->device->ops;
  int rc = ops->weight_create(l->device, parts, biases, n, format, out, l->err);
  if (rc < 0)
    return rc;
  l->w->bytes += ops->weight_bytes(*out);
  for (size_t i = 0; i < n; i++)
    l->done += parts[i].rows * parts[i].columns;
  double number = lls_dtype_number_bytes(l->config->dtype);
  if (l->source->progress != NULL &&
      !l->source->progress(l->source->progress_context,
                           (size_t)((double)l->done * number),
                           (size_t)((double)l->total * number)))
    return lls_fail(l->err, -ECANCELED, "loading was given up");
  return 0;
}

int lls_loader_pack(struct lls_loader *l, const struct lls_tensor_view *parts,
                    const struct lls_tensor_view *biases, size_t n,
                    struct lls_weight **out)
{
  return pack_as(l, l->source->format, parts, biases, n, out);
}

int lls_loader_pack_head(struct lls_loader *l, const struct lls_tensor_view *rows,
                         struct lls_weight **out)
{
  enum lls_weight_format format =
      l->device->is_host ? l->source->format : LLS_WEIGHTS_BF16;
  return pack_as(l, format, rows, NULL, 1, out);
}

int lls_loader_check_cut(struct lls_loader *l, const char *name, enum lls_dtype type,
                         const struct lls_range *columns)
{
  size_t block = lls_dtype_block(type);
  if (columns->first % block == 0 && columns->n % block == 0)
    return 0;
  return lls_fail(l->err, -ENOTSUP,
                  "%s has %zu columns, which %u ranks would cut inside of %s's blocks of "
                  "%zu: use fewer ranks, or a model in 16 bits",
                  name, columns->whole, l->shard->size, lls_dtype_name(type), block);
}

/* Turns a matrix of (inputs, outputs) around, into numbers that the caller frees. */
static int transpose(struct lls_loader *l, struct lls_tensor_view *v, float **numbers)
{
  size_t rows = v->columns, columns = v->rows;
  float *row = malloc(rows * sizeof *row);
  *numbers = malloc(rows * columns * sizeof **numbers);
  if (row == NULL || *numbers == NULL) {
    free(row);
    return lls_fail(l->err, -ENOMEM, "out of memory");
  }
  for (size_t i = 0; i < columns; i++) {
    lls_tensor_read_row(v, i, row);
    for (size_t o = 0; o < rows; o++)
      (*numbers)[o * columns + i] = row[o];
  }
  free(row);
  *v = (struct lls_tensor_view){.data = *numbers,
                                .dtype = LLS_F32,
                                .rows = rows,
                                .columns = columns,
                                .row_stride = columns};
  return 0;
}

/* Views a matrix of a layer; *copy is NULL, or numbers that the caller frees. */
static int view_matrix(struct lls_loader *l, int layer, const char *name, size_t rows,
                       size_t columns, struct lls_tensor_view *out, float **copy)
{
  *copy = NULL;
  if (!l->config->architecture->transposed || layer == LLS_NO_LAYER || l->source->dummy ||
      lls_is_gguf(l->source->folder)) /* the converter has turned it around */
    return lls_loader_view(l, layer, name, ".weight", rows, columns, out);
  int rc = lls_loader_view(l, layer, name, ".weight", columns, rows, out);
  return rc < 0 ? rc : transpose(l, out, copy);
}

/* Views one part of a stacked tensor, and of its bias if there is one. */
static int view_part(struct lls_loader *l, int layer, const struct lls_part *part,
                     struct lls_range columns, struct lls_tensor_view *weight,
                     struct lls_tensor_view *bias, float **copy)
{
  const struct lls_range *rows = &part->rows;
  struct lls_tensor_view whole;
  int rc = view_matrix(l, layer, part->name, rows->whole, columns.whole, &whole, copy);
  if (rc == 0)
    rc = lls_loader_check_cut(l, part->name, whole.dtype, &columns);
  if (rc < 0)
    return rc;
  whole = lls_view_rows(&whole, rows->first, rows->n);
  *weight = lls_view_columns(&whole, columns.first, columns.n);
  if (bias == NULL)
    return 0;
  rc = lls_loader_view(l, layer, part->name, ".bias", 1, rows->whole, &whole);
  if (rc == 0)
    *bias = lls_view_rows(&whole, rows->first, rows->n);
  return rc;
}

int lls_loader_matrix(struct lls_loader *l, int layer, const struct lls_part *parts,
                      size_t n, struct lls_range columns, bool bias,
                      struct lls_weight **out)
{
  struct lls_tensor_view weights[LLS_MAX_PARTS], biases[LLS_MAX_PARTS];
  float *copies[LLS_MAX_PARTS] = {0};
  int rc = 0;
  bias = bias && columns.first == 0;
  for (size_t i = 0; rc == 0 && i < n; i++)
    rc = view_part(l, layer, &parts[i], columns, &weights[i], bias ? &biases[i] : NULL,
                   &copies[i]);
  if (rc == 0)
    rc = lls_loader_pack(l, weights, bias ? biases : NULL, n, out);
  for (size_t i = 0; i < n; i++)
    free(copies[i]);
  return rc;
}

int lls_loader_table(struct lls_loader *l, const char *name, size_t rows,
                     struct lls_range columns, void **out)
{
  struct lls_tensor_view v;
  int rc = lls_loader_view(l, LLS_NO_LAYER, name, ".weight", rows, columns.whole, &v);
  if (rc == 0)
    rc = lls_loader_check_cut(l, name, v.dtype, &columns);
  if (rc < 0)
    return rc;
  if (columns.n < columns.whole)
    v = lls_view_columns(&v, columns.first, columns.n);
  return l->device->ops->table_create(l->device, &v, out, l->err);
}

/* ---- norms ---------------------------------------------------------------------- */

static int create_vector(struct lls_loader *l, const struct lls_tensor_view *v,
                         float **out)
{
  return l->device->ops->vector_create(l->device, v, out, l->err);
}

/* Loads a norm's weights; some models store them less an offset, which is added here.
 * factor: a scale of the norm's output. */
static int create_norm_weights(struct lls_loader *l, const struct lls_tensor_view *v,
                               float factor, float **out)
{
  if (l->config->norm_offset == 0 && factor == 1)
    return create_vector(l, v, out);
  float *numbers = malloc(v->columns * sizeof *numbers);
  if (numbers == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  lls_tensor_read_row(v, 0, numbers);
  for (size_t i = 0; i < v->columns; i++)
    numbers[i] = (numbers[i] + l->config->norm_offset) * factor;
  struct lls_tensor_view sum = {.data = numbers,
                                .dtype = LLS_F32,
                                .rows = 1,
                                .columns = v->columns,
                                .row_stride = v->columns};
  int rc = create_vector(l, &sum, out);
  free(numbers);
  return rc;
}

int lls_loader_constant(struct lls_loader *l, size_t n, float number, float **out)
{
  float *numbers = malloc(n * sizeof *numbers);
  if (numbers == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  struct lls_tensor_view v = {
      .data = numbers, .dtype = LLS_F32, .rows = 1, .columns = n, .row_stride = n};
  for (size_t i = 0; i < n; i++)
    numbers[i] = number;
  int rc = create_vector(l, &v, out);
  free(numbers);
  return rc;
}

/* Loads a norm's bias: zeros if the model's norms have none of their own. */
static int load_norm_bias(struct lls_loader *l, int layer, const char *name, float **out)
{
  struct lls_tensor_view v;
  if (!l->config->norm_affine || l->config->norm_unbiased)
    return lls_loader_constant(l, l->config->hidden, 0, out);
  int rc = lls_loader_view(l, layer, name, ".bias", 1, l->config->hidden, &v);
  return rc < 0 ? rc : create_vector(l, &v, out);
}

static int load_norm(struct lls_loader *l, int layer, const char *name, float factor,
                     struct lls_norm_weights *out)
{
  struct lls_tensor_view v;
  int rc;
  if (!l->config->norm_affine) {
    rc = lls_loader_constant(l, l->config->hidden, factor, &out->weight);
  } else {
    rc = lls_loader_view(l, layer, name, ".weight", 1, l->config->hidden, &v);
    if (rc == 0)
      rc = create_norm_weights(l, &v, factor, &out->weight);
  }
  if (rc < 0 || l->config->norm == LLS_NORM_RMS)
    return rc;
  return load_norm_bias(l, layer, name, &out->bias);
}

int lls_loader_norm(struct lls_loader *l, int layer, const char *name,
                    struct lls_norm_weights *out)
{
  return load_norm(l, layer, name, 1, out);
}

int lls_loader_final_norm(struct lls_loader *l, struct lls_norm_weights *out)
{
  float factor = l->config->logit_scale > 0 ? l->config->logit_scale : 1;
  return load_norm(l, LLS_NO_LAYER, l->names->final_norm, factor, out);
}

int lls_loader_norm_part(struct lls_loader *l, int layer, const char *name,
                         struct lls_range part, struct lls_norm_weights *out)
{
  struct lls_tensor_view v;
  int rc = lls_loader_view(l, layer, name, ".weight", 1, part.whole, &v);
  if (rc < 0)
    return rc;
  v = lls_view_rows(&v, part.first, part.n);
  return create_norm_weights(l, &v, 1, &out->weight);
}

int lls_loader_scaled(struct lls_loader *l, int layer, const char *name,
                      const char *suffix, size_t columns, float factor, float **out)
{
  struct lls_tensor_view v;
  int rc = lls_loader_view(l, layer, name, suffix, 1, columns, &v);
  return rc < 0 ? rc : create_norm_weights(l, &v, factor, out);
}

int lls_loader_vector(struct lls_loader *l, int layer, const char *name,
                      struct lls_range part, float **out)
{
  struct lls_tensor_view v;
  int rc = lls_loader_view(l, layer, name, "", 1, part.whole, &v);
  if (rc < 0)
    return rc;
  v = lls_view_rows(&v, part.first, part.n);
  return create_vector(l, &v, out);
}
