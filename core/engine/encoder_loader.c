/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the parts of an encoder outside its layers: the tables that are added to make a
 * row, their norm, numbers by distance that scores have in addition, a norm
 * after the last layer, a classifier, the map of sentence-transformers' Dense modules.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/tensor.h"
#include "core/engine/tensor_loader.h"
#include "core/model/dense.h"

/* ---- positions and types ----------------------------------------------------------- */

/* (types, positions, columns) of f32: each type's vector added to all positions'. A view
 * without data is of zeros. */
static float *add_types(const struct lls_tensor_view *types,
                        const struct lls_tensor_view *positions)
{
  size_t columns = positions->columns, rows = types->rows * positions->rows;
  float *sums = calloc(rows * columns, sizeof *sums);
  float *type = calloc(columns, sizeof *type), *sum = sums;
  for (size_t i = 0; sums != NULL && type != NULL && i < rows; i++, sum += columns) {
    if (types->data != NULL)
      lls_tensor_read_row(types, i / positions->rows, type);
    if (positions->data != NULL)
      lls_tensor_read_row(positions, i % positions->rows, sum);
    for (size_t c = 0; c < columns; c++)
      sum[c] += type[c];
  }
  if (type == NULL) {
    free(sums);
    sums = NULL;
  }
  free(type);
  return sums;
}

static int view_positions(struct lls_loader *l, struct lls_tensor_view *out)
{
  const struct lls_model_config *c = l->config;
  size_t rows = (size_t)c->max_context + c->position_offset;
  *out = (struct lls_tensor_view){.rows = 1, .columns = c->hidden};
  if (l->names->positions == NULL)
    return 0;
  int rc = lls_loader_view(l, LLS_NO_LAYER, l->names->positions, ".weight", rows,
                           c->hidden, out);
  if (rc == 0 && c->position_offset > 0)
    *out = lls_view_rows(out, c->position_offset, c->max_context);
  return rc;
}

/* Makes one table of position plus type vectors, so that a step looks up their sum as
 * one row. Without position vectors all rows are the vector of the first type, stored
 * once. */
static int load_positions_and_types(struct lls_loader *l)
{
  const struct lls_model_config *c = l->config;
  struct lls_tensor_view positions, types = {.rows = 1, .columns = c->hidden};
  if (l->names->positions == NULL && c->token_types == 0)
    return 0;
  int rc = view_positions(l, &positions);
  if (rc == 0 && c->token_types > 0)
    rc = lls_loader_view(l, LLS_NO_LAYER, l->names->types, ".weight", c->token_types,
                         c->hidden, &types);
  if (rc < 0)
    return rc;
  l->w->positions_and_types = add_types(&types, &positions);
  if (l->w->positions_and_types == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  bool one = l->names->positions == NULL;
  const struct lls_tensor_view sums = {.data = l->w->positions_and_types,
                                       .dtype = LLS_F32,
                                       .rows = one ? c->max_context
                                                   : types.rows * positions.rows,
                                       .columns = c->hidden,
                                       .row_stride = one ? 0 : c->hidden};
  return l->device->ops->table_create(l->device, &sums, &l->w->positions, l->err);
}

/* ---- distances --------------------------------------------------------------------- */

/* Returns the bucket of a distance to a token, negative before the row: half of the
 * buckets are for each direction; half of these have one distance each, the others
 * logarithmic ranges up to 128 (T5, arXiv 1910.10683, section 2.1). */
static uint32_t bucket_of(int64_t distance, uint32_t buckets)
{
  uint32_t half = buckets / 2, single = half / 2, first = distance > 0 ? half : 0;
  double n = (double)llabs(distance);
  if (n < single)
    return first + (uint32_t)n;
  float share = logf((float)n / (float)single) / logf(128.0f / (float)single);
  uint32_t at = single + (uint32_t)(share * (float)(half - single));
  return first + (at < half ? at : half - 1);
}

/* Writes a head's numbers for all distances of two tokens of a text. */
static void spread(const struct lls_tensor_view *table, uint32_t head, uint32_t reach,
                   float *row, float *out)
{
  for (uint32_t i = 0; i <= 2 * reach; i++) {
    lls_tensor_read_row(table, bucket_of((int64_t)i - reach, (uint32_t)table->rows), row);
    out[i] = row[head];
  }
}

static int load_distances(struct lls_loader *l)
{
  const struct lls_model_config *c = l->config;
  const struct lls_range *heads = &l->shard->heads;
  uint32_t reach = lls_longest_text(c) - 1;
  size_t columns = lls_relative_columns(reach);
  struct lls_tensor_view table;
  int rc = lls_loader_view(l, LLS_NO_LAYER, l->names->relative_bias, ".weight",
                           c->relative_buckets, c->heads, &table);
  if (rc < 0)
    return rc;
  float *numbers = calloc(heads->n * columns, sizeof *numbers);
  float *row = calloc(c->heads, sizeof *row);
  for (size_t h = 0; numbers != NULL && row != NULL && h < heads->n; h++)
    spread(&table, (uint32_t)(heads->first + h), reach, row, numbers + h * columns);
  const struct lls_tensor_view v = {.data = numbers,
                                    .dtype = LLS_F32,
                                    .rows = 1,
                                    .columns = heads->n * columns,
                                    .row_stride = heads->n * columns};
  rc = numbers != NULL && row != NULL
           ? l->device->ops->vector_create(l->device, &v, &l->w->relative, l->err)
           : lls_fail(l->err, -ENOMEM, "out of memory");
  free(numbers);
  free(row);
  return rc;
}

/* ---- behind the layers ------------------------------------------------------------- */

/* Loads a matrix, and its bias if it has one, by a full name. */
static int load_named(struct lls_loader *l, const char *prefix, const char *name,
                      size_t rows, size_t columns, bool biased, struct lls_weight **out)
{
  char full[128];
  struct lls_tensor_view weight, bias;
  snprintf(full, sizeof full, "%s%s.weight", prefix, name);
  int rc = lls_loader_view_named(l, full, rows, columns, &weight);
  snprintf(full, sizeof full, "%s%s.bias", prefix, name);
  if (rc == 0 && biased)
    rc = lls_loader_view_named(l, full, 1, rows, &bias);
  return rc < 0 ? rc : lls_loader_pack(l, &weight, biased ? &bias : NULL, 1, out);
}

/* Loads the norm behind the classifier's first layer, whose name has no prefix. */
static int load_pooler_norm(struct lls_loader *l)
{
  struct lls_loader plain = *l;
  plain.prefix = "";
  return lls_loader_norm(&plain, LLS_NO_LAYER, l->names->pooler_norm, &l->w->pooler_norm);
}

/* Makes the matrix by which attention computes the mean of a text's rows: all scores are
 * 0, so that all rows have the same weight. */
static int make_mean(struct lls_loader *l)
{
  size_t n = l->config->hidden;
  float *numbers = calloc(3 * n * n, sizeof *numbers);
  if (numbers == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  for (size_t i = 0; i < n; i++)
    numbers[(2 * n + i) * n + i] = 1;
  const struct lls_tensor_view v = {
      .data = numbers, .dtype = LLS_F32, .rows = 3 * n, .columns = n, .row_stride = n};
  int rc = lls_loader_pack(l, &v, NULL, 1, &l->w->mean);
  free(numbers);
  return rc;
}

/* Loads the classifier whole on each rank: it only computes a row or two. */
static int load_classifier(struct lls_loader *l)
{
  const struct lls_model_config *c = l->config;
  const struct lls_tensor_names *n = l->names;
  bool inside = n->pooler != NULL;
  int rc = load_named(l, inside ? l->prefix : "", inside ? n->pooler : n->pooler_in_head,
                      c->hidden, c->hidden, !c->classifier.unbiased, &l->w->pooler);
  if (rc == 0 && c->classifier.normed)
    rc = load_pooler_norm(l);
  if (rc == 0 && c->classifier.mean)
    rc = make_mean(l);
  return rc < 0 ? rc
                : load_named(l, "", n->head, c->labels, c->hidden, true, &l->w->head);
}

/* Packs the map of the Dense modules, which all rows go through, since it commutes with
 * the mean: two products of a text's vector would need a step of their own. */
static int load_dense(struct lls_loader *l)
{
  const struct lls_model_config *c = l->config;
  struct lls_tensor_view v = {.dtype = LLS_F32,
                              .rows = c->embed_dim,
                              .columns = c->hidden,
                              .row_stride = c->hidden};
  struct lls_dense dense;
  float *map = NULL;
  int rc;
  if (l->source->dummy) {
    rc = lls_loader_view(l, LLS_NO_LAYER, "dense", ".weight", v.rows, v.columns, &v);
  } else {
    rc = lls_dense_read(l->source->folder, &dense, l->err);
    if (rc == 0)
      rc = lls_dense_load(l->source->folder, &dense, &map, l->err);
    v.data = map;
  }
  if (rc == 0)
    rc = lls_loader_pack(l, &v, NULL, 1, &l->w->project_out);
  free(map);
  return rc;
}

int lls_loader_encoder_ends(struct lls_loader *l)
{
  const struct lls_model_config *c = l->config;
  const struct lls_tensor_names *n = l->names;
  int rc = lls_loader_table(l, n->embedding, c->vocab, lls_range_all(c->hidden),
                            &l->w->embedding);
  if (rc == 0)
    rc = load_positions_and_types(l);
  if (rc == 0 && n->embedding_norm != NULL)
    rc = lls_loader_norm(l, LLS_NO_LAYER, n->embedding_norm, &l->w->embedding_norm);
  if (rc == 0 && c->relative_buckets > 0)
    rc = load_distances(l);
  if (rc == 0 && c->final_norm)
    rc = lls_loader_final_norm(l, &l->w->final_norm);
  if (rc == 0 && c->dense)
    rc = load_dense(l);
  return rc == 0 && c->labels > 0 ? load_classifier(l) : rc;
}
