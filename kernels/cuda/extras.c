/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that few models need (core/device/extras.h), as records. */
#include "kernels/cuda/ops.h"

#include <errno.h>

static struct lls_cuda_change *add_change(struct lls_device *device,
                                          enum lls_cuda_change_kind kind, void *x,
                                          uint32_t n_rows, uint32_t columns)
{
  struct lls_cuda_change *a = &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_CHANGE)->change;
  a->kind = kind;
  a->n_rows = lls_cuda_padded(n_rows);
  a->columns = columns;
  a->stride = columns;
  a->x = x;
  return a;
}

void lls_cuda_xielu(struct lls_device *device, const struct lls_xielu *parameters,
                    void *x, uint32_t n_rows, uint32_t columns)
{
  add_change(device, LLS_CUDA_XIELU, x, n_rows, columns)->xielu = *parameters;
}

void lls_cuda_grow_queries(struct lls_device *device,
                           const struct lls_attention_shape *shape,
                           const struct lls_query_growth *growth, void *qkv)
{
  struct lls_cuda_change *a =
      add_change(device, LLS_CUDA_GROW, qkv, lls_cuda(device)->step->n_rows,
                 shape->heads * shape->head_dim);
  a->stride = (uint32_t)lls_qkv_width(shape);
  a->growth = *growth;
}

void lls_cuda_gate_rows(struct lls_device *device, const float *scores, void *x,
                        uint32_t n_rows, uint32_t columns)
{
  add_change(device, LLS_CUDA_GATE, x, n_rows, columns)->scores = scores;
}

void lls_cuda_scale(struct lls_device *device, float factor, uint32_t n_rows,
                    uint32_t columns, void *x)
{
  add_change(device, LLS_CUDA_SCALE, x, n_rows, columns)->factor = factor;
}

void lls_cuda_gate_inputs(struct lls_device *device, enum lls_activation activation,
                          const void *y, uint32_t n_rows, uint32_t columns, void *x)
{
  struct lls_cuda_activate *a =
      &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_ACTIVATE)->activate;
  a->kind = activation;
  a->n_rows = lls_cuda_padded(n_rows);
  a->columns = columns;
  a->gated = 1;
  a->x = x;
  a->up = y;
  a->y = x;
}

void lls_cuda_embed_layer(struct lls_device *device, const void *table, float scale,
                          void *x)
{
  struct lls_cuda_device *d = lls_cuda(device);
  const struct lls_cuda_table *t = table;
  struct lls_cuda_embed *a = &lls_cuda_op_add(d, LLS_CUDA_EMBED)->embed;
  a->n_rows = lls_cuda_padded(d->step->n_rows);
  a->columns = (uint32_t)t->columns;
  a->entries = (uint32_t)t->rows;
  a->scale = scale;
  a->add = 1;
  a->table = t->data;
  a->x = x;
}
