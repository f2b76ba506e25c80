/* SPDX-License-Identifier: Apache-2.0 */
/* Records the operations of layers with a state. The states are f32 whatever the
 * activations are; rows and gates have the activations' type. */
#include "kernels/cuda/ops.h"

#include <errno.h>
#include <math.h>

/* The states of a layer, `at` bytes behind the beginning of each block. */
static struct lls_cuda_layer_states layer_states(const struct lls_cuda_device *d,
                                                 uint64_t at)
{
  return (struct lls_cuda_layer_states){(char *)d->pool->view.data + at,
                                        d->pool->unit_bytes};
}

static bool has_rows(struct lls_cuda_device *d)
{
  if (d->pool == NULL)
    lls_cuda_step_fail(d, -EINVAL, "the step has no cache");
  return d->pool != NULL && d->step->n_spans > 0;
}

/* The address of a column of rows; NULL if there is none. */
static char *column_at(const struct lls_cuda_device *d, const void *rows, uint32_t column)
{
  if (column == LLS_NO_COLUMN)
    return NULL;
  return (char *)(uintptr_t)rows + column * lls_dtype_bytes(lls_cuda_numbers(d));
}

void lls_cuda_record_conv(struct lls_device *device, const struct lls_conv_shape *s,
                          void *x, void *y)
{
  struct lls_cuda_device *d = lls_cuda(device);
  if (!has_rows(d))
    return;
  if (s->width < 2 || s->width > LLS_MAX_CONV_WIDTH) {
    lls_cuda_step_fail(d, -ENOTSUP, "a convolution of %u tokens: at most %u", s->width,
                       LLS_MAX_CONV_WIDTH);
    return;
  }
  struct lls_cuda_conv *a = &lls_cuda_op_add(d, LLS_CUDA_CONV)->conv;
  a->states = layer_states(d, s->at);
  a->n_rows = lls_cuda_padded(d->step->n_rows);
  a->channels = s->channels;
  a->width = s->width;
  a->silu = s->silu;
  a->weight = s->weight;
  a->bias = s->bias;
  a->columns = s->columns;
  a->y_columns = y != NULL ? s->channels : s->columns;
  a->x = column_at(d, x, s->x);
  a->before = column_at(d, x, s->before);
  a->after = column_at(d, x, s->after);
  a->y = y != NULL ? y : column_at(d, x, s->x);
}

/* Adds a record of one of the two that fold rows into matrices. */
static struct lls_cuda_fold *add_fold(struct lls_cuda_device *d, uint64_t at,
                                      uint32_t rows)
{
  if (!has_rows(d))
    return NULL;
  if (rows > LLS_MAX_KEY_DIM) {
    lls_cuda_step_fail(d, -ENOTSUP, "a state with heads of %u rows: at most %u", rows,
                       LLS_MAX_KEY_DIM);
    return NULL;
  }
  struct lls_cuda_fold *a = &lls_cuda_op_add(d, LLS_CUDA_FOLD)->fold;
  a->states = layer_states(d, at);
  a->n_rows = lls_cuda_padded(d->step->n_rows);
  a->rows = rows;
  return a;
}

void lls_cuda_record_delta(struct lls_device *device, const struct lls_delta_shape *s,
                           const void *rows, const void *gates, void *out)
{
  struct lls_cuda_device *d = lls_cuda(device);
  struct lls_cuda_fold *a = add_fold(d, s->at, s->key_dim);
  uint32_t keys = s->key_heads * s->key_dim;
  if (a == NULL)
    return;
  a->delta = 1;
  a->heads = s->value_heads;
  a->key_heads = s->key_heads;
  a->columns = s->value_dim;
  a->tiled = s->tiled;
  a->epsilon = s->epsilon;
  a->scale = 1 / sqrtf((float)s->key_dim);
  a->rate = s->rate;
  a->dt_bias = s->dt_bias;
  a->stride = s->columns;
  a->q = rows;
  a->k = column_at(d, rows, keys);
  a->v = column_at(d, rows, 2 * keys);
  a->gates = gates;
  a->out = out;
}

void lls_cuda_record_space(struct lls_device *device, const struct lls_space_shape *s,
                           const void *rows, const void *steps, void *out)
{
  struct lls_cuda_device *d = lls_cuda(device);
  struct lls_cuda_fold *a = add_fold(d, s->at, s->state_dim);
  uint32_t values = s->heads * s->head_dim;
  if (a == NULL)
    return;
  a->heads = s->heads;
  a->key_heads = s->groups;
  a->columns = s->head_dim;
  a->dt_min = s->dt_min;
  a->dt_max = s->dt_max;
  a->rate = s->rate;
  a->dt_bias = s->dt_bias;
  a->skip = s->skip;
  a->stride = s->columns;
  a->v = rows;
  a->k = column_at(d, rows, values);
  a->q = column_at(d, rows, values + s->groups * s->state_dim);
  a->gates = steps;
  a->out = out;
}

void lls_cuda_record_norm_gated(struct lls_device *device,
                                const struct lls_gated_norm_shape *s, const void *rows,
                                uint32_t n_rows, void *y)
{
  struct lls_cuda_device *d = lls_cuda(device);
  struct lls_cuda_norm_gated *a = &lls_cuda_op_add(d, LLS_CUDA_NORM_GATED)->norm_gated;
  a->n_rows = lls_cuda_padded(n_rows);
  a->groups = s->groups;
  a->columns = s->columns;
  a->weight_stride = s->each_weight ? s->columns : 0;
  a->gate_first = s->gate_first;
  a->gate_columns = s->gate_columns;
  a->epsilon = s->epsilon;
  a->weight = s->weight;
  a->gate = column_at(d, rows, s->gate);
  a->y = y;
}

void lls_cuda_record_gate_columns(struct lls_device *device, const void *gates, void *x,
                                  uint32_t n_rows, uint32_t columns)
{
  struct lls_cuda_gate_columns *a =
      &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_GATE_COLUMNS)->gate_columns;
  a->n = (size_t)lls_cuda_padded(n_rows) * columns;
  a->gates = gates;
  a->x = x;
}
