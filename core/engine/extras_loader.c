/* SPDX-License-Identifier: Apache-2.0 */
/* Loads what few models have: slopes of ALiBi, which no file stores, the parameters of
 * xIELU, inputs of layers from the tokens, and numbers that scale a layer's output. */
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

static int read_number(struct lls_loader *l, int layer, const char *name, float *number)
{
  struct lls_tensor_view v;
  int rc = lls_loader_view(l, layer, name, "", 1, 1, &v);
  if (rc == 0)
    lls_tensor_read_row(&v, 0, number);
  return rc;
}

/* Reads one number of the activation's parameters. */
static int read_parameter(struct lls_loader *l, int layer, const char *part,
                          float *number)
{
  char name[96];
  snprintf(name, sizeof name, "%s%s", l->names->xielu, part);
  return read_number(l, layer, name, number);
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
    rc = read_parameter(l, layer, "alpha_p", &positive);
    if (rc == 0)
      rc = read_parameter(l, layer, "alpha_n", &negative);
    if (rc == 0)
      rc = read_parameter(l, layer, "beta", &out->linear);
    if (rc == 0)
      rc = read_parameter(l, layer, "eps", &out->least);
  }
  out->positive = softplus(positive);
  out->negative = out->linear + softplus(negative);
  return rc;
}

/* Loads the layer's parts of the table and of the product that all layers share. */
static int load_shared_inputs(struct lls_loader *l, int layer,
                              struct lls_layer_weights *w)
{
  const struct lls_model_config *c = l->config;
  struct lls_range own = {(size_t)layer * c->layer_inputs, c->layer_inputs,
                          (size_t)c->layers * c->layer_inputs};
  const struct lls_part projection = {l->names->inputs_projection, own};
  int rc = lls_loader_table(l, l->names->inputs_embedding, c->layer_input_vocab, own,
                            &w->inputs_table);
  return rc < 0
             ? rc
             : lls_loader_matrix(l, LLS_NO_LAYER, &projection, 1,
                                 lls_range_all(c->hidden), false, &w->inputs_projection);
}

int lls_loader_layer_inputs(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_model_config *c = l->config;
  const struct lls_tensor_names *n = l->names;
  struct lls_range inputs = lls_range_all(c->layer_inputs),
                   hidden = lls_range_all(c->hidden);
  const struct lls_part gate = {n->inputs_gate, inputs}, up = {n->inputs_up, hidden};
  int rc = 0;
  w->scalar = 1;
  if (c->layer_scalars && !l->source->dummy)
    rc = read_number(l, layer, n->layer_scalar, &w->scalar);
  if (rc < 0 || c->layer_inputs == 0)
    return rc;
  rc = load_shared_inputs(l, layer, w);
  if (rc == 0)
    rc = lls_loader_matrix(l, layer, &gate, 1, hidden, false, &w->inputs_gate);
  if (rc == 0)
    rc = lls_loader_matrix(l, layer, &up, 1, inputs, false, &w->inputs_up);
  return rc < 0
             ? rc
             : lls_loader_norm(l, layer, n->inputs_output_norm, &w->inputs_output_norm);
}
