/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of records, and the graphs made of lists. A list that comes for the first time
 * runs as it is, which also lets cuBLAS and the driver load what they need; the second
 * time it is captured; from then on it is one launch.
 */
#include "kernels/cuda/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPS    2048 /* 128 layers of 12; a longer list is run in pieces */
#define MAX_GRAPHS 64

struct graph {
  struct lls_cuda_op *ops; /* (n_ops) */
  uint32_t n_ops;
  cudaGraphExec_t exec; /* NULL: seen once */
};

struct lls_cuda_ops {
  struct lls_cuda_op list[MAX_OPS];
  uint32_t n;
  bool graphs;    /* of the step */
  bool in_pieces; /* the list was too long: what is left is no whole step */
  struct graph graph[MAX_GRAPHS];
  uint32_t n_graphs, oldest;
};

int lls_cuda_ops_create(struct lls_cuda_ops **out, struct lls_error *err)
{
  *out = calloc(1, sizeof **out);
  return *out == NULL ? lls_fail(err, -ENOMEM, "no memory for the CUDA device") : 0;
}

static void free_graph(struct graph *g)
{
  if (g->exec != NULL)
    cudaGraphExecDestroy(g->exec);
  free(g->ops);
  *g = (struct graph){0};
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

void lls_cuda_ops_begin(struct lls_cuda_device *d, bool graphs)
{
  d->ops->n = 0;
  d->ops->graphs = graphs;
  d->ops->in_pieces = false;
}

void lls_cuda_ops_forget(struct lls_cuda_device *d)
{
  free_graphs(d->ops);
}

struct lls_cuda_op *lls_cuda_op_add(struct lls_cuda_device *d, enum lls_cuda_op_kind kind)
{
  struct lls_cuda_ops *ops = d->ops;
  if (ops->n == MAX_OPS) {
    ops->in_pieces = true;
    lls_cuda_ops_flush(d);
  }
  struct lls_cuda_op *op = &ops->list[ops->n++];
  memset(op, 0, sizeof *op);
  op->kind = kind;
  return op;
}

struct lls_cuda_op *lls_cuda_op_last(struct lls_cuda_device *d)
{
  return d->ops->n > 0 ? &d->ops->list[d->ops->n - 1] : NULL;
}

/* ---- running ----------------------------------------------------------------------- */

static void run_list(struct lls_cuda_device *d, bool recording)
{
  for (uint32_t i = 0; i < d->ops->n && d->status == 0; i++)
    lls_cuda_op_run(d, &d->ops->list[i], recording);
}

static struct graph *find_graph(struct lls_cuda_ops *ops)
{
  for (uint32_t i = 0; i < ops->n_graphs; i++) {
    struct graph *g = &ops->graph[i];
    if (g->n_ops == ops->n && memcmp(g->ops, ops->list, ops->n * sizeof *g->ops) == 0)
      return g;
  }
  return NULL;
}

/* Without memory for it the list just stays unknown. */
static void remember(struct lls_cuda_ops *ops)
{
  bool full = ops->n_graphs == MAX_GRAPHS;
  struct graph *g = &ops->graph[full ? ops->oldest : ops->n_graphs];
  struct lls_cuda_op *copy = malloc(ops->n * sizeof *copy);
  if (copy == NULL)
    return;
  memcpy(copy, ops->list, ops->n * sizeof *copy);
  free_graph(g);
  g->ops = copy;
  g->n_ops = ops->n;
  if (full)
    ops->oldest = (ops->oldest + 1) % MAX_GRAPHS;
  else
    ops->n_graphs++;
}

static void capture(struct lls_cuda_device *d, struct graph *g)
{
  cudaGraph_t graph = NULL;
  int rc = cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal);
  if (!lls_cuda_step_check(d, rc, "recording a step"))
    return;
  run_list(d, true);
  rc = cudaStreamEndCapture(d->stream, &graph);
  if (lls_cuda_step_check(d, rc, "recording a step"))
    lls_cuda_step_check(d, cudaGraphInstantiate(&g->exec, graph, 0), "recording a step");
  if (graph != NULL)
    cudaGraphDestroy(graph);
}

static void run_graph(struct lls_cuda_device *d)
{
  struct graph *g = find_graph(d->ops);
  if (g == NULL) {
    remember(d->ops);
    run_list(d, false);
    return;
  }
  if (g->exec == NULL)
    capture(d, g);
  if (d->status == 0)
    lls_cuda_step_check(d, cudaGraphLaunch(g->exec, d->stream), "launching a step");
}

void lls_cuda_ops_flush(struct lls_cuda_device *d)
{
  struct lls_cuda_ops *ops = d->ops;
  if (d->status == 0)
    lls_cuda_step_check(d, lls_cuda_inputs_send(&d->inputs, d->stream),
                        "sending a step's inputs");
  if (ops->n == 0 || d->status != 0)
    goto out;
  if (ops->graphs && !ops->in_pieces)
    run_graph(d);
  else
    run_list(d, false);
out:
  ops->n = 0;
}
