/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of graphs, found by their lists of records (ops.h): at most 64; the oldest
 * is replaced first. */
#include "kernels/cuda/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int lls_cuda_ops_create(struct lls_cuda_ops **out, struct lls_error *err)
{
  *out = calloc(1, sizeof **out);
  return *out == NULL ? lls_fail(err, -ENOMEM, "no memory for the CUDA device") : 0;
}

static void free_graph(struct lls_cuda_graph *g)
{
  if (g->exec != NULL)
    cudaGraphExecDestroy(g->exec);
  free(g->ops);
  *g = (struct lls_cuda_graph){0};
}

static void free_graphs(struct lls_cuda_ops *ops)
{
  for (uint32_t i = 0; i < ops->n_graphs; i++)
    free_graph(&ops->graph[i]);
  ops->n_graphs = ops->oldest = 0;
}

void lls_cuda_ops_destroy(struct lls_cuda_ops *ops)
{
  if (ops == NULL)
    return;
  free_graphs(ops);
  free(ops);
}

void lls_cuda_ops_forget(struct lls_cuda_device *d)
{
  free_graphs(d->ops);
}

struct lls_cuda_graph *lls_cuda_graph_find(struct lls_cuda_ops *ops)
{
  for (uint32_t i = 0; i < ops->n_graphs; i++) {
    struct lls_cuda_graph *g = &ops->graph[i];
    if (g->n_ops == ops->n && memcmp(g->ops, ops->list, ops->n * sizeof *g->ops) == 0)
      return g;
  }
  return NULL;
}

void lls_cuda_graph_remember(struct lls_cuda_ops *ops)
{
  bool full = ops->n_graphs == LLS_CUDA_MAX_GRAPHS;
  struct lls_cuda_graph *g = &ops->graph[full ? ops->oldest : ops->n_graphs];
  struct lls_cuda_op *copy = malloc(ops->n * sizeof *copy);
  if (copy == NULL)
    return;
  memcpy(copy, ops->list, ops->n * sizeof *copy);
  free_graph(g);
  g->ops = copy;
  g->n_ops = ops->n;
  if (full)
    ops->oldest = (ops->oldest + 1) % LLS_CUDA_MAX_GRAPHS;
  else
    ops->n_graphs++;
}
