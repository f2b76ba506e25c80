/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts: the matrices of all experts as arrays of addresses on the device,
 * and the operations, written down; experts.cu has the kernels. */
#include "kernels/cuda/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct lls_experts {
  uint32_t n;
  uint32_t outputs, inputs;
  const void **data;    /* (n) device memory: addresses of the matrices */
  const float **biases; /* (n) likewise, NULL for none */
  struct lls_weight *weights[];
};

void lls_cuda_experts_destroy(struct lls_device *device, struct lls_experts *e)
{
  for (uint32_t i = 0; i < e->n; i++)
    lls_cuda_weight_destroy(device, e->weights[i]);
  cudaFree(e->data);
  cudaFree(e->biases);
  free(e);
}

/* The addresses of every expert's matrix or bias, on the device; by way of the pinned
 * memory that weights come through, which nothing uses now. */
static int send_addresses(const struct lls_cuda_device *d, const struct lls_experts *e,
                          bool biases, void **out)
{
  const void **all = (const void **)d->staging[d->staging_turn];
  size_t bytes = e->n * sizeof *all;
  int rc = bytes <= LLS_CUDA_STAGING ? lls_cuda_malloc(bytes, out) : -ENOMEM;
  for (uint32_t i = 0; rc == 0 && i < e->n; i++)
    all[i] = biases ? (const void *)e->weights[i]->bias_f32 : e->weights[i]->data;
  if (rc == 0 &&
      cudaMemcpyAsync(*out, all, bytes, cudaMemcpyHostToDevice, d->stream) != cudaSuccess)
    rc = -EIO;
  if (rc == 0 && cudaStreamSynchronize(d->stream) != cudaSuccess)
    rc = -EIO;
  return rc;
}

int lls_cuda_experts_create(struct lls_device *device, struct lls_weight *const *weights,
                            uint32_t n, struct lls_experts **out, struct lls_error *err)
{
  struct lls_experts *e = calloc(1, sizeof *e + n * sizeof *e->weights);
  void *data = NULL, *biases = NULL;
  if (e == NULL) {
    for (uint32_t i = 0; i < n; i++)
      lls_cuda_weight_destroy(device, weights[i]);
    return lls_fail(err, -ENOMEM, "no memory for %u experts", n);
  }
  e->n = n;
  e->outputs = (uint32_t)weights[0]->rows;
  e->inputs = (uint32_t)weights[0]->columns;
  memcpy(e->weights, weights, n * sizeof *weights);
  int rc = send_addresses(lls_cuda(device), e, false, &data);
  if (rc == 0)
    rc = send_addresses(lls_cuda(device), e, true, &biases);
  e->data = data;
  e->biases = biases;
  if (rc < 0) {
    lls_cuda_experts_destroy(device, e);
    return lls_fail(err, rc, "no memory on the GPU for %u experts", n);
  }
  *out = e;
  return 0;
}

void lls_cuda_route_rows(struct lls_device *device, const float *scores, uint32_t n_rows,
                         bool normalise, const struct lls_route *route)
{
  struct lls_cuda_route *a = &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_ROUTE)->route;
  a->n_rows = lls_cuda_padded(n_rows);
  a->normalise = normalise;
  a->scores = scores;
  a->route = *route;
}

void lls_cuda_gather_routed(struct lls_device *device, const struct lls_route *route,
                            const void *x, uint32_t n_rows, uint32_t columns, void *y)
{
  struct lls_cuda_gather *a = &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_GATHER)->gather;
  a->n_rows = lls_cuda_padded(n_rows) * route->active;
  a->columns = columns;
  a->rows = route->row;
  a->x = x;
  a->y = y;
}

void lls_cuda_linear_experts_op(struct lls_device *device, const struct lls_experts *e,
                                const struct lls_route *route, const void *x,
                                uint32_t n_rows, void *y)
{
  if (n_rows == 0)
    return;
  struct lls_cuda_linear_experts *a =
      &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_LINEAR_EXPERTS)->linear_experts;
  a->experts = e->n;
  a->outputs = e->outputs;
  a->inputs = e->inputs;
  a->first = route->first;
  a->weights = e->data;
  a->biases = e->biases;
  a->x = x;
  a->y = y;
}

/* Rows that pad the step have entries too. */
void lls_cuda_gated_experts(struct lls_device *device, const struct lls_route *route,
                            enum lls_activation kind, const void *x, uint32_t n_rows,
                            uint32_t columns, void *y)
{
  struct lls_cuda_activate *a =
      &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_ACTIVATE)->activate;
  a->kind = kind;
  a->n_rows = lls_cuda_padded(n_rows) * route->active;
  a->columns = columns;
  a->gated = 1;
  a->x = x;
  a->y = y;
}

void lls_cuda_combine_rows(struct lls_device *device, const struct lls_route *route,
                           const void *x, uint32_t n_rows, uint32_t columns,
                           enum lls_linear_store store, void *y)
{
  struct lls_cuda_combine *a =
      &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_COMBINE)->combine;
  a->n_rows = lls_cuda_padded(n_rows);
  a->columns = columns;
  a->add = store == LLS_STORE_ADD;
  a->route = *route;
  a->x = x;
  a->y = y;
}
