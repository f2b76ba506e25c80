/* SPDX-License-Identifier: Apache-2.0 */
/* Loads what few models have: slopes of ALiBi, which no file stores, and the parameters
 * of xIELU. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/device/tensor.h"
#include "core/engine/tensor_loader.h"

/* Returns the slope of a head (arXiv 2108.12409, section 3): powers of 2, of a power of
 * two of heads; those that remain have the powers between. */
static float slope(uint32_t head, uint32_t heads, float most)
{
  uint32_t n = 1;
  while (2 * n <= heads)
    n *= 2;
  bool between = head >= n;
  double step = (double)most / n / (between ? 2 : 1);
  return (float)exp2(-step * (between ? 2 * (head - n) + 1 : head + 1));
}

int lls_loader_slopes(struct lls_loader *l)
{
  const struct lls_range *heads = &l->shard->heads;
  float *numbers = malloc(heads->n * sizeof *numbers);
  if (numbers == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  for (size_t i = 0; i < heads->n; i++)
    numbers[i] = slope((uint32_t)(heads->first + i), l->config->heads, l->config->alibi);
  const struct lls_tensor_view v = {.data = numbers,
                                    .dtype = LLS_F32,
                                    .rows = 1,
                                    .columns = heads->n,
                                    .row_stride = heads->n};
  int rc = l->device->ops->vector_create(l->device, &v, &l->w->slopes, l->err);
  free(numbers);
  return rc;
}

/* Reads one number of the activation's parameters. */
static int read_number(struct lls_loader *l, int layer, const char *part, float *number)
{
  char name[96];
  struct lls_tensor_view v;
  snprintf(name, sizeof name, "%s%s", l->names->xielu, part);
  int rc = lls_loader_view(l, layer, name, "", 1, 1, &v);
  if (rc == 0)
    lls_tensor_read_row(&v, 0, number);
  return rc;
}

static float softplus(float x)
{
  return x > 20 ? x : log1pf(expf(x));
}

/* The two factors are stored as what softplus makes them of. */
int lls_loader_xielu(struct lls_loader *l, int layer, struct lls_xielu *out)
{
  const struct lls_model_config *c = l->config;
  float positive = c->layer[layer].xielu[0], negative = c->layer[layer].xielu[1];
  int rc = 0;
  *out = (struct lls_xielu){.linear = 0.5f, .least = -1e-6f};
  if (!c->xielu_listed) {
    rc = read_number(l, layer, "alpha_p", &positive);
    if (rc == 0)
      rc = read_number(l, layer, "alpha_n", &negative);
    if (rc == 0)
      rc = read_number(l, layer, "beta", &out->linear);
    if (rc == 0)
      rc = read_number(l, layer, "eps", &out->least);
  }
  out->positive = softplus(positive);
  out->negative = out->linear + softplus(negative);
  return rc;
}
