/* SPDX-License-Identifier: Apache-2.0 */
/* Loads what streams.c computes with: the matrices of AltUp and of LAUREL. Those that mix
 * streams are a few numbers, and stay in f32. */
#include <errno.h>
#include <stdio.h>

#include "core/engine/tensor_loader.h"

/* Loads a matrix as one vector, row by row. */
static int load_numbers(struct lls_loader *l, int layer, const char *name, size_t rows,
                        size_t columns, float **out)
{
  struct lls_tensor_view v;
  int rc = lls_loader_view(l, layer, name, ".weight", rows, columns, &v);
  if (rc < 0)
    return rc;
  if (v.row_stride != columns || v.dtype == LLS_CODED)
    return lls_fail(l->err, -ENOTSUP, "%s is quantised: its %zu numbers should be plain",
                    name, rows * columns);
  v.rows = 1;
  v.columns = v.row_stride = rows * columns;
  return l->device->ops->vector_create(l->device, &v, out, l->err);
}

static int load_square(struct lls_loader *l, const char *before, uint32_t number,
                       struct lls_weight **out)
{
  char name[96];
  struct lls_range hidden = lls_range_all(l->config->hidden);
  snprintf(name, sizeof name, "%s%u", before, number);
  const struct lls_part part = {name, hidden};
  return lls_loader_matrix(l, LLS_NO_LAYER, &part, 1, hidden, false, out);
}

int lls_loader_stream_ends(struct lls_loader *l)
{
  int rc = 0;
  for (uint32_t i = 1; rc == 0 && i < l->config->streams.n; i++) {
    rc = load_square(l, l->names->stream_in, i - 1, &l->w->stream_in[i]);
    if (rc == 0)
      rc = load_square(l, l->names->stream_out, i - 1, &l->w->stream_out[i]);
  }
  return rc;
}

static int load_laurel(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_tensor_names *n = l->names;
  struct lls_range hidden = lls_range_all(l->config->hidden),
                   rank = lls_range_all(l->config->laurel);
  const struct lls_part down = {n->laurel_down, rank}, up = {n->laurel_up, hidden};
  int rc = lls_loader_matrix(l, layer, &down, 1, hidden, false, &w->laurel_down);
  if (rc == 0)
    rc = lls_loader_matrix(l, layer, &up, 1, rank, false, &w->laurel_up);
  return rc < 0 ? rc : lls_loader_norm(l, layer, n->laurel_norm, &w->laurel_norm);
}

int lls_loader_streams(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_model_config *c = l->config;
  const struct lls_tensor_names *names = l->names;
  uint32_t n = c->streams.n;
  const struct lls_part router = {names->stream_router, lls_range_all(n)};
  int rc = c->laurel > 0 ? load_laurel(l, layer, w) : 0;
  if (rc < 0 || n == 0)
    return rc;
  rc = lls_loader_scaled(l, layer, names->stream_norm, ".weight", c->hidden,
                         1 / (float)c->hidden, &w->stream_norm);
  if (rc == 0)
    rc = lls_loader_matrix(l, layer, &router, 1, lls_range_all(c->hidden), false,
                           &w->stream_router);
  if (rc == 0)
    rc = load_numbers(l, layer, names->stream_predict, (size_t)n * n, n,
                      &w->stream_predict);
  if (rc == 0)
    rc = load_numbers(l, layer, names->stream_correct, n, n, &w->stream_correct);
  if (rc == 0 && c->streams.scaled)
    rc = lls_loader_vector(l, layer, names->stream_scale, lls_range_all(c->hidden),
                           &w->stream_scale);
  return rc;
}
