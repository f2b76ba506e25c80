/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of records, and how it runs. The first time a list is seen its operations
 * run one by one, which also lets cuBLAS and the driver load what they need; the second
 * time it is captured; from then on it is one launch (graphs.c keeps the graphs).
 */
#include "kernels/cuda/ops.h"

#include <string.h>

void lls_cuda_ops_begin(struct lls_cuda_device *d, bool graphs)
{
  d->ops->n = 0;
  d->ops->graphs = graphs;
  d->ops->in_pieces = false;
}

struct lls_cuda_op *lls_cuda_op_add(struct lls_cuda_device *d, enum lls_cuda_op_kind kind)
{
  struct lls_cuda_ops *ops = d->ops;
  if (ops->n == LLS_CUDA_MAX_OPS) {
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

static void capture(struct lls_cuda_device *d, struct lls_cuda_graph *g)
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
  struct lls_cuda_graph *g = lls_cuda_graph_find(d->ops);
  if (g == NULL) {
    lls_cuda_graph_remember(d->ops);
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
  if (d->status == 0)
    lls_cuda_step_check(d, lls_cuda_inputs_send(&d->adapted.inputs, d->stream),
                        "sending a step's adapters");
  if (ops->n == 0 || d->status != 0)
    goto out;
  if (d->step != NULL && d->step->prepare) {
    lls_cuda_prepare(d);
    goto out;
  }
  if (ops->graphs && !ops->in_pieces)
    run_graph(d);
  else
    run_list(d, false);
out:
  ops->n = 0;
}
