/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads multi-head latent attention. Folders, and older GGUF files, have the matrices
 * that make keys and values of the latent in one tensor, (heads, [nope value], rank);
 * newer GGUF files have a tensor of each, that of the keys turned around. Rows that
 * rotate in pairs of neighbours are sorted to halves, as in qkv_loader.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/tensor.h"
#include "core/engine/tensor_loader.h"

/* ---- queries, latent --------------------------------------------------------------- */

/* Adds `heads` times `plain` rows of a tensor, followed by `turned` ones which rotate, to
 * a list of views. */
static size_t add_heads(const struct lls_loader *l, const struct lls_tensor_view *rows,
                        struct lls_range heads, size_t plain, size_t turned,
                        struct lls_tensor_view *out)
{
  bool paired = l->config->paired_rope;
  size_t n = 0;
  for (size_t head = heads.first; head < heads.first + heads.n; head++) {
    size_t at = head * (plain + turned);
    out[n++] = lls_view_rows(rows, at, plain);
    for (size_t i = 0; i < turned; i++) {
      size_t half = turned / 2, from = i < half ? 2 * i : 2 * (i - half) + 1;
      out[n++] = lls_view_rows(rows, at + plain + (paired ? from : i), 1);
    }
  }
  return n;
}

static int load_heads(struct lls_loader *l, int layer, const char *name, size_t columns,
                      struct lls_range heads, size_t plain, struct lls_weight **out)
{
  size_t turned = l->config->latent.rope, n;
  struct lls_tensor_view whole;
  struct lls_tensor_view *views = calloc(heads.n * (1 + turned), sizeof *views);
  if (views == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  int rc = lls_loader_view(l, layer, name, ".weight", heads.whole * (plain + turned),
                           columns, &whole);
  if (rc == 0) {
    n = add_heads(l, &whole, heads, plain, turned, views);
    rc = lls_loader_pack(l, views, NULL, n, out);
  }
  free(views);
  return rc;
}

/* ---- keys and values of a head ----------------------------------------------------- */

/* Turns (rows, columns) around into numbers that the caller frees, in the same type if it
 * has 16 bits. */
static int turn(struct lls_loader *l, struct lls_tensor_view *v)
{
  bool half = v->dtype == LLS_F16 || v->dtype == LLS_BF16;
  size_t rows = v->rows, columns = v->columns;
  float *row = malloc(columns * sizeof *row), *f32 = malloc(rows * columns * sizeof *f32);
  uint16_t *bits = (uint16_t *)f32;
  if (row == NULL || f32 == NULL) {
    free(row);
    free(f32);
    return lls_fail(l->err, -ENOMEM, "out of memory");
  }
  for (size_t i = 0; i < rows; i++) {
    const uint16_t *from = (const uint16_t *)v->data + i * v->row_stride;
    if (!half)
      lls_tensor_read_row(v, i, row);
    for (size_t k = 0; k < columns; k++) {
      if (half)
        memcpy(bits + k * rows + i, from + k, sizeof *bits);
      else
        f32[k * rows + i] = row[k];
    }
  }
  free(row);
  *v = (struct lls_tensor_view){.data = f32,
                                .dtype = half ? v->dtype : LLS_F32,
                                .rows = columns,
                                .columns = rows,
                                .row_stride = rows};
  return 0;
}

/* The tensors of keys and values, and where a head's rows are in them. */
struct heads_of {
  struct lls_tensor_view keys, values;
  size_t keys_each, keys_first, values_each, values_first;
  bool turned; /* the keys' rows are those of the latent already */
};

static int find_tensors(struct lls_loader *l, int layer, struct heads_of *out)
{
  const struct lls_latent_config *c = &l->config->latent;
  const struct lls_tensor_names *names = l->names;
  size_t heads = l->shard->heads.whole, both = c->nope + c->value;
  *out = (struct heads_of){.turned =
                               lls_loader_has(l, layer, names->latent_keys, ".weight")};
  if (!out->turned) {
    int rc = lls_loader_view(l, layer, names->latent_up, ".weight", heads * both, c->rank,
                             &out->keys);
    out->values = out->keys;
    out->keys_each = out->values_each = both;
    out->values_first = c->nope;
    return rc;
  }
  out->keys_each = c->rank;
  out->values_each = c->value;
  int rc = lls_loader_view(l, layer, names->latent_keys, ".weight", heads * c->rank,
                           c->nope, &out->keys);
  return rc < 0 ? rc
                : lls_loader_view(l, layer, names->latent_values, ".weight",
                                  heads * c->value, c->rank, &out->values);
}

static int load_keys(struct lls_loader *l, const struct heads_of *h, size_t head,
                     struct lls_weight **out)
{
  const struct lls_latent_config *c = &l->config->latent;
  size_t rows = h->turned ? c->rank : c->nope;
  struct lls_tensor_view v = lls_view_rows(&h->keys, head * h->keys_each, rows);
  if (h->turned)
    return lls_loader_pack_head(l, &v, out);
  if (v.data == NULL) { /* random numbers need not be turned */
    v.rows = c->rank;
    v.columns = v.row_stride = c->nope;
    return lls_loader_pack_head(l, &v, out);
  }
  int rc = turn(l, &v);
  if (rc < 0)
    return rc;
  rc = lls_loader_pack_head(l, &v, out);
  free((void *)(uintptr_t)v.data);
  return rc;
}

static int load_values(struct lls_loader *l, const struct heads_of *h, size_t head,
                       struct lls_weight **out)
{
  struct lls_tensor_view v = lls_view_rows(
      &h->values, head * h->values_each + h->values_first, l->config->latent.value);
  return lls_loader_pack_head(l, &v, out);
}

/* Loads a matrix of each of this rank's heads. */
static int load_each(struct lls_loader *l, const struct heads_of *h,
                     int (*load)(struct lls_loader *, const struct heads_of *, size_t,
                                 struct lls_weight **),
                     struct lls_experts **out)
{
  const struct lls_device_ops *ops = l->device->ops;
  const struct lls_range *heads = &l->shard->heads;
  struct lls_weight **weights = calloc(heads->n, sizeof *weights);
  if (weights == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < heads->n; i++)
    rc = load(l, h, heads->first + i, &weights[i]);
  if (rc == 0)
    rc = ops->experts_create(l->device, weights, (uint32_t)heads->n, out, l->err);
  else
    for (size_t i = 0; i < heads->n && weights[i] != NULL; i++)
      ops->weight_destroy(l->device, weights[i]);
  free(weights);
  return rc;
}

/* ---- the whole --------------------------------------------------------------------- */

static int load_queries(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_model_config *c = l->config;
  const struct lls_latent_config *latent = &c->latent;
  const struct lls_tensor_names *names = l->names;
  const struct lls_part down = {names->latent_query_down,
                                lls_range_all(latent->query_rank)};
  bool direct = latent->query_rank == 0;
  int rc = 0;
  if (!direct)
    rc = lls_loader_matrix(l, layer, &down, 1, lls_range_all(c->hidden), false,
                           &w->latent.query_down);
  if (rc == 0 && !direct)
    rc = lls_loader_norm_part(l, layer, names->latent_query_norm,
                              lls_range_all(latent->query_rank), &w->latent.query_norm);
  return rc < 0 ? rc
                : load_heads(l, layer, direct ? names->q : names->latent_query_up,
                             direct ? c->hidden : latent->query_rank, l->shard->heads,
                             latent->nope, &w->qkv);
}

int lls_loader_latent(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_model_config *c = l->config;
  const struct lls_tensor_names *names = l->names;
  struct heads_of heads;
  int rc = load_queries(l, layer, w);
  if (rc == 0)
    rc = load_heads(l, layer, names->latent_down, c->hidden, lls_range_all(1),
                    c->latent.rank, &w->latent.down);
  if (rc == 0)
    rc = lls_loader_norm_part(l, layer, names->latent_norm, lls_range_all(c->latent.rank),
                              &w->latent.norm);
  if (rc == 0)
    rc = find_tensors(l, layer, &heads);
  if (rc == 0)
    rc = load_each(l, &heads, load_keys, &w->latent.keys);
  if (rc == 0)
    rc = load_each(l, &heads, load_values, &w->latent.values);
  return rc < 0 || !lls_has_index(c, (uint32_t)layer)
             ? rc
             : lls_loader_index(l, layer, &w->latent);
}
