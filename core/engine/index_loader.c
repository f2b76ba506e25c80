/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the index of a layer with latent attention (DeepSeek V3.2). The first numbers of
 * queries and keys rotate; where they do so in pairs of neighbours their rows are sorted
 * to halves, and the numbers of the keys' norm with them.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/device/tensor.h"
#include "core/engine/tensor_loader.h"

/* Returns the row of a head that comes to place i. */
static size_t row_at(const struct lls_model_config *c, size_t i)
{
  return c->latent.index.paired ? lls_unpaired_row(i, c->latent.rope) : i;
}

static int load_rows(struct lls_loader *l, int layer, const char *name, size_t heads,
                     size_t columns, struct lls_weight **out)
{
  size_t dim = l->config->latent.index.dim;
  struct lls_tensor_view whole;
  struct lls_tensor_view *views = calloc(heads * dim, sizeof *views);
  if (views == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  int rc = lls_loader_view(l, layer, name, ".weight", heads * dim, columns, &whole);
  for (size_t i = 0; rc == 0 && i < heads * dim; i++)
    views[i] = lls_view_rows(&whole, i / dim * dim + row_at(l->config, i % dim), 1);
  if (rc == 0)
    rc = lls_loader_pack(l, views, NULL, heads * dim, out);
  free(views);
  return rc;
}

static int load_vector(struct lls_loader *l, int layer, const char *name,
                       const char *suffix, float **out)
{
  size_t dim = l->config->latent.index.dim;
  struct lls_tensor_view view, sorted;
  int rc = lls_loader_view(l, layer, name, suffix, 1, dim, &view);
  if (rc < 0 || view.data == NULL)
    return rc < 0 ? rc : l->device->ops->vector_create(l->device, &view, out, l->err);
  float *row = malloc(2 * dim * sizeof *row);
  if (row == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  lls_tensor_read_row(&view, 0, row);
  for (size_t i = 0; i < dim; i++)
    row[dim + i] = row[row_at(l->config, i)];
  sorted = (struct lls_tensor_view){
      .data = row + dim, .dtype = LLS_F32, .rows = 1, .columns = dim, .row_stride = dim};
  rc = l->device->ops->vector_create(l->device, &sorted, out, l->err);
  free(row);
  return rc;
}

int lls_loader_index(struct lls_loader *l, int layer, struct lls_latent_weights *w)
{
  const struct lls_model_config *c = l->config;
  const struct lls_tensor_names *names = l->names;
  const struct lls_part weights = {names->index_weights,
                                   lls_range_all(c->latent.index.heads)};
  int rc = load_rows(l, layer, names->index_query, c->latent.index.heads,
                     c->latent.query_rank, &w->index_query);
  if (rc == 0)
    rc = load_rows(l, layer, names->index_key, 1, c->hidden, &w->index_key);
  if (rc == 0)
    rc = lls_loader_matrix(l, layer, &weights, 1, lls_range_all(c->hidden), false,
                           &w->index_weights);
  if (rc == 0)
    rc = load_vector(l, layer, names->index_norm, ".weight", &w->index_norm.weight);
  return rc < 0 ? rc
                : load_vector(l, layer, names->index_norm, ".bias", &w->index_norm.bias);
}
