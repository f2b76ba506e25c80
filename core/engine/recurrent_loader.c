/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads layers that keep a state. The products before a convolution become one matrix,
 * whose rows are in the order in which the forward pass reads their results; the gates of
 * a delta net are another one. Ranks have whole key heads with all value heads of each.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/device/tensor.h"
#include "core/engine/tensor_loader.h"
#include "core/model/gguf.h"

/* ---- vectors ---------------------------------------------------------------------- */

static int make_vector(struct lls_loader *l, const float *numbers, size_t n, float **out)
{
  const struct lls_tensor_view v = {
      .data = numbers, .dtype = LLS_F32, .rows = 1, .columns = n, .row_stride = n};
  return l->device->ops->vector_create(l->device, &v, out, l->err);
}

/* Turns rows of (channels, width) around, for those of the ranges; factors of the ranges
 * may be NULL. */
static int load_conv(struct lls_loader *l, int layer, const struct lls_range *ranges,
                     size_t n_ranges, const float *factors, float **out)
{
  size_t width = l->config->recurrent.conv_width, channels = 0, at = 0;
  struct lls_tensor_view v;
  for (size_t i = 0; i < n_ranges; i++)
    channels += ranges[i].n;
  int rc = lls_loader_view(l, layer, l->names->recurrent.conv, ".weight", ranges[0].whole,
                           width, &v);
  if (rc < 0)
    return rc;
  float *numbers = malloc(width * (channels + 1) * sizeof *numbers);
  if (numbers == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  float *row = numbers + width * channels;
  for (size_t i = 0; i < n_ranges; i++)
    for (size_t r = 0; r < ranges[i].n; r++, at++) {
      lls_tensor_read_row(&v, ranges[i].first + r, row);
      for (size_t j = 0; j < width; j++)
        numbers[j * channels + at] = factors != NULL ? row[j] * factors[i] : row[j];
    }
  rc = make_vector(l, numbers, width * channels, out);
  free(numbers);
  return rc;
}

/* Folders have the logarithm of the rate's size, GGUF files the rate. */
static int load_rate(struct lls_loader *l, int layer, struct lls_range heads, float **out)
{
  struct lls_tensor_view v;
  int rc = lls_loader_view(l, layer, l->names->recurrent.rate, "", 1, heads.whole, &v);
  float *numbers = rc == 0 ? malloc(heads.whole * sizeof *numbers) : NULL;
  if (rc == 0 && numbers == NULL)
    rc = lls_fail(l->err, -ENOMEM, "out of memory");
  if (rc < 0)
    return rc;
  lls_tensor_read_row(&v, 0, numbers);
  for (size_t i = 0; i < heads.whole && !lls_is_gguf(l->source->folder); i++)
    numbers[i] = -expf(numbers[i]);
  rc = make_vector(l, numbers + heads.first, heads.n, out);
  free(numbers);
  return rc;
}

/* The parts of a convolution's biases that stand next to each other here. */
static int load_conv_bias(struct lls_loader *l, int layer, const struct lls_range *ranges,
                          size_t n_ranges, float **out)
{
  size_t n = 0, whole = ranges[0].whole;
  struct lls_tensor_view v;
  int rc = lls_loader_view(l, layer, l->names->recurrent.conv, ".bias", 1, whole, &v);
  float *all = rc == 0 ? malloc(2 * whole * sizeof *all) : NULL, *own = all + whole;
  if (rc == 0 && all == NULL)
    rc = lls_fail(l->err, -ENOMEM, "out of memory");
  if (rc < 0)
    return rc;
  lls_tensor_read_row(&v, 0, all);
  for (size_t i = 0; i < n_ranges; n += ranges[i++].n)
    memcpy(own + n, all + ranges[i].first, ranges[i].n * sizeof *own);
  rc = make_vector(l, own, n, out);
  free(all);
  return rc;
}

/* ---- a short convolution ---------------------------------------------------------- */

static int load_short_conv(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_model_config *c = l->config;
  const struct lls_recurrent_names *names = &l->names->recurrent;
  struct lls_range own = l->shard->channels, hidden = lls_range_all(c->hidden);
  struct lls_part parts[3];
  bool bias = c->recurrent.conv_bias;
  for (size_t i = 0; i < 3; i++)
    parts[i] =
        (struct lls_part){names->in, lls_range_after(own, i * own.whole, 3 * own.whole)};
  int rc = lls_loader_matrix(l, layer, parts, 3, hidden, bias, &w->qkv);
  if (rc == 0)
    rc = load_conv(l, layer, &own, 1, NULL, &w->recurrent.conv);
  if (rc == 0 && bias)
    rc = load_conv_bias(l, layer, &own, 1, &w->recurrent.conv_bias);
  const struct lls_part out = {names->output, hidden};
  return rc < 0 ? rc : lls_loader_matrix(l, layer, &out, 1, own, bias, &w->output);
}

/* ---- a delta net ------------------------------------------------------------------ */

/* Views of rows that become one matrix. */
struct rows {
  struct lls_tensor_view *list; /* (room) */
  size_t n, room;
};

static int add_tensor(struct lls_loader *l, int layer, const char *name, size_t whole,
                      const struct lls_range *parts, size_t n, struct rows *to)
{
  struct lls_tensor_view v;
  int rc = lls_loader_view(l, layer, name, ".weight", whole, l->config->hidden, &v);
  for (size_t i = 0; rc == 0 && i < n; i++) {
    LLS_CHECK(to->n < to->room);
    to->list[to->n++] = lls_view_rows(&v, parts[i].first, parts[i].n);
  }
  return rc;
}

/* Adds part `which` of the rows of each key head: parts have these sizes in a head. */
static int add_by_heads(struct lls_loader *l, int layer, const char *name,
                        const size_t *sizes, size_t n_sizes, size_t which,
                        struct rows *to)
{
  const struct lls_range *heads = &l->shard->key_heads;
  size_t each = 0, before = 0;
  for (size_t i = 0; i < n_sizes; i++) {
    before += i < which ? sizes[i] : 0;
    each += sizes[i];
  }
  int rc = 0;
  for (size_t h = heads->first; rc == 0 && h < heads->first + heads->n; h++) {
    const struct lls_range part = {h * each + before, sizes[which], 0};
    rc = add_tensor(l, layer, name, heads->whole * each, &part, 1, to);
  }
  return rc;
}

/* This rank's q, k and v among the rows of all, as those of the convolution are. */
static void delta_ranges(const struct lls_loader *l, struct lls_range out[3])
{
  const struct lls_recurrent_config *r = &l->config->recurrent;
  struct lls_range keys = lls_range_times(l->shard->key_heads, r->key_dim);
  struct lls_range values = lls_range_times(l->shard->value_heads, r->value_dim);
  size_t whole = 2 * keys.whole + values.whole;
  out[0] = lls_range_after(keys, 0, whole);
  out[1] = lls_range_after(keys, keys.whole, whole);
  out[2] = lls_range_after(values, 2 * keys.whole, whole);
}

static int load_delta_rows(struct lls_loader *l, int layer, struct lls_layer_weights *w,
                           struct rows *rows)
{
  const struct lls_recurrent_names *names = &l->names->recurrent;
  const struct lls_recurrent_config *r = &l->config->recurrent;
  size_t share = r->value_heads / r->key_heads;
  const size_t sizes[] = {r->key_dim, r->key_dim, share * r->value_dim,
                          share * r->value_dim};
  const size_t gate_sizes[] = {share, share};
  struct lls_range values = lls_range_times(l->shard->value_heads, r->value_dim);
  struct lls_range ranges[3], heads = l->shard->value_heads;
  bool by_heads =
      names->qkvz != NULL &&
      (names->qkv == NULL || lls_loader_has(l, layer, names->qkvz, ".weight"));
  bool both = names->ba != NULL &&
              (names->b == NULL || lls_loader_has(l, layer, names->ba, ".weight"));
  int rc = 0;
  delta_ranges(l, ranges);
  for (size_t i = 0; by_heads && rc == 0 && i < 4; i++)
    rc = add_by_heads(l, layer, names->qkvz, sizes, 4, i, rows);
  if (!by_heads)
    rc = add_tensor(l, layer, names->qkv, ranges[0].whole, ranges, 3, rows);
  if (!by_heads && rc == 0)
    rc = add_tensor(l, layer, names->z, values.whole, &values, 1, rows);
  if (rc == 0)
    rc = lls_loader_pack(l, rows->list, NULL, rows->n, &w->qkv);
  rows->n = 0;
  for (size_t i = 0; both && rc == 0 && i < 2; i++)
    rc = add_by_heads(l, layer, names->ba, gate_sizes, 2, i, rows);
  if (!both && rc == 0)
    rc = add_tensor(l, layer, names->b, heads.whole, &heads, 1, rows);
  if (!both && rc == 0)
    rc = add_tensor(l, layer, names->a, heads.whole, &heads, 1, rows);
  return rc < 0 ? rc : lls_loader_pack(l, rows->list, NULL, rows->n, &w->gates);
}

static int load_delta(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_recurrent_names *names = &l->names->recurrent;
  const struct lls_recurrent_config *r = &l->config->recurrent;
  struct rows rows = {.room = 4 * r->key_heads + 4};
  struct lls_range ranges[3], heads = l->shard->value_heads;
  struct lls_tensor_view v;
  rows.list = calloc(rows.room, sizeof *rows.list);
  int rc = rows.list != NULL ? load_delta_rows(l, layer, w, &rows)
                             : lls_fail(l->err, -ENOMEM, "out of memory");
  free(rows.list);
  delta_ranges(l, ranges);
  if (rc == 0)
    rc = load_conv(l, layer, ranges, 3, NULL, &w->recurrent.conv);
  if (rc == 0)
    rc = load_rate(l, layer, heads, &w->recurrent.rate);
  if (rc == 0)
    rc = lls_loader_vector(l, layer, names->dt_bias, heads, &w->recurrent.dt_bias);
  if (rc == 0)
    rc = lls_loader_view(l, layer, names->norm, ".weight", 1, r->value_dim, &v);
  if (rc == 0)
    rc = l->device->ops->vector_create(l->device, &v, &w->recurrent.norm, l->err);
  const struct lls_part out = {names->output, lls_range_all(l->config->hidden)};
  return rc < 0
             ? rc
             : lls_loader_matrix(l, layer, &out, 1, lls_range_times(heads, r->value_dim),
                                 false, &w->output);
}

/* ---- a state space ---------------------------------------------------------------- */

/* This rank's x, B and C among the rows of the convolution, behind `before` others of
 * `whole`. */
static void space_ranges(const struct lls_loader *l, size_t before, size_t whole,
                         struct lls_range out[3])
{
  const struct lls_recurrent_config *r = &l->config->recurrent;
  struct lls_range values = lls_range_times(l->shard->value_heads, r->value_dim);
  struct lls_range states = lls_range_times(l->shard->key_heads, r->key_dim);
  out[0] = lls_range_after(values, before, whole);
  out[1] = lls_range_after(states, before + values.whole, whole);
  out[2] = lls_range_after(states, before + values.whole + states.whole, whole);
}

/* Rows of the file are z, x, B, C and the time steps; those of the matrix x, B, C, z. */
static int load_space_rows(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_recurrent_config *r = &l->config->recurrent;
  const char *in = l->names->recurrent.in;
  struct lls_range heads = l->shard->value_heads, ranges[3];
  struct lls_range values = lls_range_times(heads, r->value_dim);
  struct lls_range hidden = lls_range_all(l->config->hidden);
  size_t states = 2 * l->shard->key_heads.whole * r->key_dim;
  size_t whole = 2 * values.whole + states + heads.whole;
  space_ranges(l, values.whole, whole, ranges);
  const struct lls_part parts[] = {{in, ranges[0]},
                                   {in, ranges[1]},
                                   {in, ranges[2]},
                                   {in, lls_range_after(values, 0, whole)}};
  const struct lls_part steps = {in, lls_range_after(heads, whole - heads.whole, whole)};
  int rc = lls_loader_matrix(l, layer, parts, 4, hidden, r->product_bias, &w->qkv);
  return rc < 0
             ? rc
             : lls_loader_matrix(l, layer, &steps, 1, hidden, r->product_bias, &w->gates);
}

static int load_space_norm(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  struct lls_range own =
      lls_range_times(l->shard->value_heads, l->config->recurrent.value_dim);
  struct lls_tensor_view v;
  int rc =
      lls_loader_view(l, layer, l->names->recurrent.norm, ".weight", 1, own.whole, &v);
  if (rc < 0)
    return rc;
  v = lls_view_columns(&v, own.first, own.n);
  return l->device->ops->vector_create(l->device, &v, &w->recurrent.norm, l->err);
}

static int load_space(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_recurrent_names *names = &l->names->recurrent;
  const struct lls_recurrent_config *r = &l->config->recurrent;
  struct lls_range ranges[3], heads = l->shard->value_heads;
  const struct lls_part out = {names->output, lls_range_all(l->config->hidden)};
  space_ranges(l, 0,
               l->shard->value_heads.whole * r->value_dim +
                   2 * l->shard->key_heads.whole * r->key_dim,
               ranges);
  const float *factors = l->config->factors.conv;
  int rc = load_space_rows(l, layer, w);
  if (rc == 0)
    rc = load_conv(l, layer, ranges, 3, factors[0] > 0 ? factors : NULL,
                   &w->recurrent.conv);
  if (rc == 0 && r->conv_bias)
    rc = load_conv_bias(l, layer, ranges, 3, &w->recurrent.conv_bias);
  if (rc == 0)
    rc = load_rate(l, layer, heads, &w->recurrent.rate);
  if (rc == 0)
    rc = lls_loader_vector(l, layer, names->dt_bias, heads, &w->recurrent.dt_bias);
  if (rc == 0)
    rc = lls_loader_vector(l, layer, names->skip, heads, &w->recurrent.skip);
  if (rc == 0 && !r->unnormed)
    rc = load_space_norm(l, layer, w);
  return rc < 0
             ? rc
             : lls_loader_matrix(l, layer, &out, 1, lls_range_times(heads, r->value_dim),
                                 r->product_bias, &w->output);
}

/* Attention's own matrices have the members of the others. */
static int load_space_beside(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  struct lls_layer_weights own = {0};
  int rc = load_space(l, layer, &own);
  w->recurrent = own.recurrent;
  w->space_rows = own.qkv;
  w->space_steps = own.gates;
  w->space_output = own.output;
  return rc;
}

int lls_loader_recurrent(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  static int (*const loaders[])(struct lls_loader *, int, struct lls_layer_weights *) = {
      [LLS_MIX_SHORT_CONV] = load_short_conv,
      [LLS_MIX_DELTA] = load_delta,
      [LLS_MIX_SPACE] = load_space,
      [LLS_MIX_BESIDE] = load_space_beside,
  };
  return loaders[l->config->layer[layer].mix](l, layer, w);
}
