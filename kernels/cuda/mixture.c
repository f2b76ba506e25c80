/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixtures of experts: device arrays with the addresses of all experts' matrices, or
 * their descriptions for codes.cu, and the recording of the operations; experts.cu has
 * the kernels. A matrix with parts of several formats (weight.c) takes one product for
 * each, and all experts have the same parts.
 */
#include "kernels/cuda/ops.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MAX_KINDS  2  /* gate and up */
#define MAX_GROUPS 32 /* of experts, of which experts.cu has a bit each */

/* Outputs of every expert that are stored in the same format. */
struct kind {
  struct lls_cuda_codes shape; /* form NO_CODES: not codes */
  uint32_t at;                 /* first output in the matrix */
  void *data;   /* (n) device memory: addresses of the values, or lls_cuda_codes */
  void *biases; /* (n) addresses of the biases in device memory, each may be NULL */
};

struct lls_experts {
  uint32_t n, n_kinds;
  uint32_t outputs, inputs;
  struct kind kinds[MAX_KINDS];
  struct lls_weight *weights[];
};

void lls_cuda_experts_destroy(struct lls_device *device, struct lls_experts *e)
{
  lls_cuda_use(lls_cuda(device));
  for (uint32_t i = 0; i < e->n; i++)
    lls_cuda_weight_destroy(device, e->weights[i]);
  for (uint32_t i = 0; i < e->n_kinds; i++) {
    cudaFree(e->kinds[i].data);
    cudaFree(e->kinds[i].biases);
  }
  free(e);
}

/* Sends `size` bytes for each expert to the device, found at `offset` in its weight of
 * that kind. It uses the pinned staging memory, which is free at this time. */
static int send(const struct lls_cuda_device *d, const struct lls_experts *e,
                uint32_t kind, size_t offset, size_t size, void **out)
{
  char *all = d->staging[d->staging_turn];
  size_t bytes = e->n * size;
  int rc = bytes <= LLS_CUDA_STAGING ? lls_cuda_malloc(bytes, out) : -ENOMEM;
  for (uint32_t i = 0; rc == 0 && i < e->n; i++) {
    const struct lls_weight *w = e->weights[i];
    for (uint32_t k = 0; k < kind; k++)
      w = w->next;
    memcpy(all + i * size, (const char *)w + offset, size);
  }
  if (rc == 0 &&
      cudaMemcpyAsync(*out, all, bytes, cudaMemcpyHostToDevice, d->stream) != cudaSuccess)
    rc = -EIO;
  if (rc == 0 && cudaStreamSynchronize(d->stream) != cudaSuccess)
    rc = -EIO;
  return rc;
}

static int send_kind(const struct lls_cuda_device *d, struct lls_experts *e, uint32_t i)
{
  struct kind *k = &e->kinds[i];
  if (k->shape.form != LLS_NO_CODES)
    return send(d, e, i, offsetof(struct lls_weight, codes), sizeof k->shape, &k->data);
  int rc = send(d, e, i, offsetof(struct lls_weight, data), sizeof(void *), &k->data);
  return rc < 0 ? rc
                : send(d, e, i, offsetof(struct lls_weight, bias_f32), sizeof(float *),
                       &k->biases);
}

static bool alike(const struct lls_weight *a, const struct lls_weight *b)
{
  for (; a != NULL && b != NULL; a = a->next, b = b->next)
    if (a->rows != b->rows || a->codes.form != b->codes.form)
      return false;
  return a == b;
}

static int create_kinds(const struct lls_cuda_device *d, struct lls_experts *e,
                        struct lls_error *err)
{
  uint32_t at = 0;
  int rc = lls_cuda_use(d);
  for (uint32_t i = 1; i < e->n; i++)
    if (!alike(e->weights[0], e->weights[i]))
      return lls_fail(err, -ENOTSUP,
                      "expert %u has weights of another type than expert 0: the CUDA "
                      "device wants those of a layer alike",
                      i);
  for (const struct lls_weight *w = e->weights[0]; rc == 0 && w != NULL; w = w->next) {
    if (e->n_kinds == MAX_KINDS)
      return lls_fail(err, -ENOTSUP, "an expert's matrix of more than %d types",
                      MAX_KINDS);
    struct kind *k = &e->kinds[e->n_kinds++];
    k->shape = w->codes;
    k->shape.outputs = (uint32_t)w->rows;
    k->at = at;
    at += (uint32_t)w->rows;
    rc = send_kind(d, e, e->n_kinds - 1);
  }
  return rc == 0 ? 0 : lls_fail(err, rc, "no memory on the GPU for %u experts", e->n);
}

int lls_cuda_experts_create(struct lls_device *device, struct lls_weight *const *weights,
                            uint32_t n, struct lls_experts **out, struct lls_error *err)
{
  struct lls_experts *e = calloc(1, sizeof *e + n * sizeof *e->weights);
  if (e == NULL) {
    for (uint32_t i = 0; i < n; i++)
      lls_cuda_weight_destroy(device, weights[i]);
    return lls_fail(err, -ENOMEM, "no memory for %u experts", n);
  }
  e->n = n;
  e->outputs = (uint32_t)weights[0]->outputs;
  e->inputs = (uint32_t)weights[0]->columns;
  memcpy(e->weights, weights, n * sizeof *weights);
  int rc = create_kinds(lls_cuda(device), e, err);
  if (rc < 0)
    lls_cuda_experts_destroy(device, e);
  else
    *out = e;
  return rc;
}

void lls_cuda_route_rows(struct lls_device *device, const float *scores, uint32_t n_rows,
                         bool normalise, const struct lls_route *route)
{
  struct lls_cuda_device *d = lls_cuda(device);
  if (route->groups > MAX_GROUPS) {
    lls_cuda_step_fail(d, -ENOTSUP, "%u groups of experts: at most %u", route->groups,
                       MAX_GROUPS);
    return;
  }
  struct lls_cuda_route *a = &lls_cuda_op_add(d, LLS_CUDA_ROUTE)->route;
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
  if (route->weighs_input) {
    a->weight = route->weight;
    a->place = route->place;
    a->active = route->active;
  }
  a->rows = route->row;
  a->x = x;
  a->y = y;
}

static void multiply_numbers(struct lls_cuda_device *d, const struct lls_experts *e,
                             const struct kind *k, const struct lls_route *route,
                             uint32_t n_rows, const void *x, void *y)
{
  struct lls_cuda_linear_experts *a =
      &lls_cuda_op_add(d, LLS_CUDA_LINEAR_EXPERTS)->linear_experts;
  a->experts = e->n;
  a->outputs = k->shape.outputs;
  a->inputs = e->inputs;
  a->stride = e->outputs;
  a->first = route->first;
  a->weights = k->data;
  a->biases = k->biases;
  a->x = x;
  a->x_stride = e->inputs;
  a->y = y;
  a->entries = lls_cuda_padded(n_rows) * route->active;
  a->processors = (uint32_t)d->properties.multiProcessorCount;
  a->wide = a->outputs % 8 == 0 && a->stride % 8 == 0 && (uintptr_t)y % 16 == 0;
}

void lls_cuda_multiply_heads(struct lls_cuda_device *d, const struct lls_experts *e,
                             uint32_t n_rows, const struct lls_cuda_heads *x,
                             const struct lls_cuda_heads *y)
{
  const struct kind *k = &e->kinds[0];
  if (e->n_kinds != 1 || k->shape.form != LLS_NO_CODES) {
    lls_cuda_step_fail(d, -ENOTSUP, "the matrices of latent heads are codes");
    return;
  }
  struct lls_cuda_linear_experts *a =
      &lls_cuda_op_add(d, LLS_CUDA_LINEAR_EXPERTS)->linear_experts;
  a->experts = e->n;
  a->outputs = k->shape.outputs;
  a->inputs = e->inputs;
  a->stride = y->stride;
  a->weights = k->data;
  a->biases = k->biases;
  a->x = x->at;
  a->y = y->at;
  a->each = lls_cuda_padded(n_rows);
  a->x_stride = x->stride;
  a->x_head = x->head;
  a->y_head = y->head;
  a->entries = a->each * e->n;
  a->processors = (uint32_t)d->properties.multiProcessorCount;
  a->wide = (a->outputs | a->stride | a->y_head) % 8 == 0 && (uintptr_t)y->at % 16 == 0;
}

static void multiply_codes(struct lls_cuda_device *d, const struct lls_experts *e,
                           const struct kind *k, const struct lls_route *route,
                           uint32_t n_rows, const void *x, void *y)
{
  struct lls_cuda_codes_product *a =
      &lls_cuda_op_add(d, LLS_CUDA_CODES_EXPERTS)->codes_experts;
  a->w.form = k->shape.form;
  a->w.outputs = k->shape.outputs;
  a->experts = k->data;
  a->n_experts = e->n;
  a->first = route->first;
  a->entries = lls_cuda_padded(n_rows) * route->active;
  a->stride = e->outputs;
  a->x = x;
  a->y = y;
}

void lls_cuda_linear_experts_op(struct lls_device *device, const struct lls_experts *e,
                                const struct lls_route *route, const void *x,
                                uint32_t n_rows, void *y)
{
  struct lls_cuda_device *d = lls_cuda(device);
  size_t number = lls_dtype_bytes(lls_cuda_numbers(d));
  for (uint32_t i = 0; n_rows > 0 && i < e->n_kinds; i++) {
    const struct kind *k = &e->kinds[i];
    char *to = (char *)y + k->at * number;
    if (k->shape.form == LLS_NO_CODES)
      multiply_numbers(d, e, k, route, n_rows, x, to);
    else
      multiply_codes(d, e, k, route, n_rows, x, to);
  }
}

/* Rows that pad the step have entries, too. */
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
