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

/* ---- streams ----------------------------------------------------------------------- */

static struct lls_cuda_mix_streams *add_mix(struct lls_device *device,
                                            const struct lls_streams *streams,
                                            const float *scores, const float *mix,
                                            uint32_t n_rows, uint32_t columns)
{
  struct lls_cuda_mix_streams *a =
      &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_MIX_STREAMS)->mix_streams;
  a->n_rows = lls_cuda_padded(n_rows);
  a->columns = columns;
  a->n = streams->n;
  a->scores = scores;
  a->mix = mix;
  for (uint32_t i = 0; i < streams->n; i++)
    a->streams[i] = streams->x[i];
  return a;
}

void lls_cuda_predict(struct lls_device *device, const struct lls_streams *streams,
                      const float *scores, const float *mix, uint32_t n_rows,
                      uint32_t columns, void *x)
{
  add_mix(device, streams, scores, mix, n_rows, columns)->y = x;
}

void lls_cuda_correct(struct lls_device *device, const struct lls_streams *streams,
                      const float *scores, const float *mix, const float *scale_,
                      const void *x, uint32_t n_rows, uint32_t columns, void *y)
{
  struct lls_cuda_mix_streams *a = add_mix(device, streams, scores, mix, n_rows, columns);
  a->scale = scale_;
  a->x = x;
  a->y = y;
}

void lls_cuda_match_size(struct lls_device *device, const void *like, uint32_t n_rows,
                         uint32_t columns, void *x)
{
  struct lls_cuda_match_size *a =
      &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_MATCH_SIZE)->match_size;
  a->n_rows = lls_cuda_padded(n_rows);
  a->columns = columns;
  a->like = like;
  a->x = x;
}

static struct lls_cuda_cut_gates *add_cut(struct lls_cuda_device *d, float factor,
                                          uint32_t whole, uint32_t n_rows,
                                          uint32_t columns, void *x)
{
  struct lls_cuda_cut_gates *a = &lls_cuda_op_add(d, LLS_CUDA_CUT_GATES)->cut_gates;
  a->n_rows = lls_cuda_padded(n_rows);
  a->columns = columns;
  a->whole = whole;
  a->factor = factor;
  a->x = x;
  return a;
}

void lls_cuda_cut_gates(struct lls_device *device, float factor, uint32_t whole,
                        uint32_t n_rows, uint32_t columns, void *x)
{
  struct lls_cuda_device *d = lls_cuda(device);
  if (lls_cuda_n_ranks(d) > 1) {
    struct lls_cuda_cut_gates *a = add_cut(d, factor, whole, n_rows, columns, x);
    a->use = LLS_CUDA_SQUARES_GIVE;
    a->sums = d->squares;
    struct lls_cuda_all_reduce *sum =
        &lls_cuda_op_add(d, LLS_CUDA_ALL_REDUCE)->all_reduce;
    sum->n_rows = lls_cuda_padded(n_rows);
    sum->columns = 2;
    sum->f32 = 1;
    sum->x = d->squares;
  }
  struct lls_cuda_cut_gates *a = add_cut(d, factor, whole, n_rows, columns, x);
  a->use = lls_cuda_n_ranks(d) > 1 ? LLS_CUDA_SQUARES_TAKE : LLS_CUDA_SQUARES_OWN;
  a->sums = lls_cuda_n_ranks(d) > 1 ? d->squares : NULL;
}
