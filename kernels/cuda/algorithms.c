/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses cuBLASLt's algorithm for a product. cuBLASLt's heuristic orders them by a
 * model of the GPU. Here the first few are timed, only in preparation steps
 * (lls_device_step.prepare) while the engine starts, never in a step that serves
 * requests and never during a graph capture. A product that was not timed uses the
 * heuristic's first algorithm, as do all with LLS_CUDA_ALGORITHMS=first in the
 * environment.
 *
 * In a real step no weight is in the L2 when it is used, because all other weights were
 * read in between. So the timing rotates through the weights of all layers with that
 * product. If the L2 could hold half of these weights, the product is not timed, since
 * its time would not be that of a real step.
 *
 * A round is a number of products between two events, large enough that launches and
 * events are a small part of it. The algorithms alternate, so that none runs on a
 * warmer or cooler GPU, and the shortest round of each counts, since disturbances only
 * add time.
 *
 * Another algorithm adds up in another order, which changes the last bits of logits and
 * sometimes a token. To make repeated starts of a model choose the same, times within
 * NOISE of the least are a tie, won by the first in the heuristic's order, mostly its
 * first. Only an algorithm just at that edge can still change the choice.
 *
 * Tensor-parallel ranks time nothing. Their own parts may differ in the last bits, but
 * all ranks compute the same router of a mixture of experts: if one of them added in
 * another order, it could choose other experts for a row than the other ranks.
 */
#include "kernels/cuda/ops.h"
#include "kernels/cuda/products.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ALGORITHMS 16
#define ROUNDS     3
#define ROUND_MS   0.1f
#define MOST       32    /* most products in a round */
#define NOISE      1.03f /* assumed: how well the least of three rounds can be repeated */
#define HOPELESS   1.25f /* slower than the least by this factor: no further round */
/* GPU time for the rounds of a shape; timing of the shape then stops. */
#define SHAPE_MS 30
/* Host time for all shapes, including loading code; then no more shapes are timed. */
#define TOTAL_NS (3 * INT64_C(1000000000))

/* Products of the same shape with different weights. */
struct alike {
  const struct lls_cuda_product *list[LLS_CUDA_MAX_OPS];
  uint32_t n;
};

struct notes { /* the step's products */
  struct lls_cuda_product list[LLS_CUDA_MAX_OPS];
  uint32_t n;
  struct alike alike;
};

struct timing {
  struct lls_cuda_device *device;
  const struct lls_cuda_product_shape *shape;
  const struct alike *alike;
  uint32_t turn; /* index of the next weights to use */
  cublasLtMatmulHeuristicResult_t found[ALGORITHMS];
  bool runs[ALGORITHMS];
  float least[ALGORITHMS]; /* ms a product; INFINITY: not known */
  int n;
  uint32_t products; /* products timed in a round */
  float spent_ms;    /* GPU time of the rounds */
  cudaEvent_t begin, end;
};

static int64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

bool lls_cuda_times(const struct lls_cuda_device *d)
{
  return d->products->timed && lls_cuda_n_ranks(d) == 1;
}

/* ---- rounds ------------------------------------------------------------------------ */

/* Puts n products by algorithm i on the stream. */
static bool put(struct timing *t, int i, uint32_t n)
{
  cublasStatus_t rc = CUBLAS_STATUS_SUCCESS;
  for (uint32_t k = 0; k < n && rc == CUBLAS_STATUS_SUCCESS; k++) {
    const struct lls_cuda_product *p = t->alike->list[t->turn];
    t->turn = (t->turn + 1) % t->alike->n;
    rc = lls_cuda_multiply(t->device, t->shape, &t->found[i].algo, p);
  }
  if (rc != CUBLAS_STATUS_SUCCESS)
    /* clears the error of a refused launch, which the next call would return */
    cudaGetLastError();
  return rc == CUBLAS_STATUS_SUCCESS;
}

/* Times n products; returns the ms of one, INFINITY if the algorithm cannot run. */
static float round_of(struct timing *t, int i, uint32_t n)
{
  struct lls_cuda_device *d = t->device;
  float ms = INFINITY;
  int rc = cudaEventRecord(t->begin, d->stream);
  bool good = rc == cudaSuccess && put(t, i, n);
  if (rc == cudaSuccess)
    rc = cudaEventRecord(t->end, d->stream);
  if (rc == cudaSuccess)
    rc = cudaEventSynchronize(t->end);
  if (rc == cudaSuccess)
    rc = cudaEventElapsedTime(&ms, t->begin, t->end);
  if (!lls_cuda_step_check(d, rc, "timing a product") || !good)
    return INFINITY;
  t->spent_ms += ms;
  return ms / (float)n;
}

static float least_of(const struct timing *t)
{
  float least = INFINITY;
  for (int i = 0; i < t->n; i++)
    least = fminf(least, t->least[i]);
  return least;
}

/* Runs each algorithm once to load its code, and a second time to find out how many
 * products make a round of .1 ms. */
static void load(struct timing *t, int64_t until_ns)
{
  float one = INFINITY;
  for (int i = 0; i < t->n && now_ns() < until_ns; i++) {
    t->runs[i] =
        t->found[i].state == CUBLAS_STATUS_SUCCESS && round_of(t, i, 1) < INFINITY;
    if (t->runs[i])
      one = fminf(one, round_of(t, i, 1));
  }
  t->products = (uint32_t)fmaxf(1, fminf(MOST, ROUND_MS / one));
}

static void measure(struct timing *t, int64_t until_ns)
{
  t->spent_ms = 0;
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < t->n; i++) {
      if (!t->runs[i] || (round > 0 && t->least[i] > HOPELESS * least_of(t)))
        continue;
      if (t->spent_ms >= SHAPE_MS || now_ns() >= until_ns || t->device->status != 0)
        return;
      t->least[i] = fminf(t->least[i], round_of(t, i, t->products));
    }
}

/* Returns the first algorithm in the heuristic's order whose time is within NOISE of
 * the least; the heuristic's first if nothing was measured. */
static int best_of(const struct timing *t)
{
  float least = least_of(t);
  int i = 0;
  while (least < INFINITY && t->least[i] > NOISE * least)
    i++;
  return i;
}

/* ---- choices ----------------------------------------------------------------------- */

/* Are the weights so large that the L2 holds none of them when they are used again? */
static bool from_memory(const struct lls_cuda_device *d, const struct alike *alike)
{
  const struct lls_cuda_product *one = alike->list[0];
  size_t number = lls_dtype_bytes(lls_cuda_numbers(d));
  size_t bytes = alike->n * (size_t)one->outputs * one->inputs * number;
  return bytes >= 2 * (size_t)d->properties.l2CacheSize;
}

static void time_all(struct timing *t, int64_t until_ns)
{
  int rc = (int)cudaEventCreateWithFlags(&t->begin, cudaEventDefault);
  if (rc == cudaSuccess)
    rc = (int)cudaEventCreateWithFlags(&t->end, cudaEventDefault);
  if (rc == cudaSuccess) {
    load(t, until_ns);
    measure(t, until_ns);
  }
  if (t->begin != NULL)
    cudaEventDestroy(t->begin);
  if (t->end != NULL)
    cudaEventDestroy(t->end);
}

/* Chooses the algorithm of a shape and records the choice. */
static void decide(struct lls_cuda_device *d, struct lls_cuda_product_shape *s,
                   const struct alike *alike)
{
  struct lls_cuda_products *p = d->products;
  struct timing t = {.device = d, .shape = s, .alike = alike};
  struct lls_cuda_choice *c = &p->choices[p->n_choices++];
  int64_t began_ns = now_ns();
  *c = (struct lls_cuda_choice){.key = s->key, .algo = s->algo};
  for (int i = 0; i < ALGORITHMS; i++)
    t.least[i] = INFINITY;
  if (!from_memory(d, alike) || p->spent_ns >= TOTAL_NS ||
      lls_cuda_product_algorithms(p, s, ALGORITHMS, t.found, &t.n) !=
          CUBLAS_STATUS_SUCCESS)
    return;
  if (t.n > 1)
    time_all(&t, began_ns + TOTAL_NS - p->spent_ns);
  int best = best_of(&t);
  c->algo = s->algo = t.found[best].algo;
  c->index = (uint32_t)best;
  c->of = (uint32_t)t.n;
  c->ms = t.least[best];
  c->first_ms = t.least[0];
  p->spent_ns += now_ns() - began_ns;
}

/* ---- preparing --------------------------------------------------------------------- */

static void note(struct lls_cuda_device *d, const struct lls_cuda_product *p, void *arg)
{
  struct notes *notes = arg;
  (void)d;
  if (notes->n < LLS_CUDA_MAX_OPS)
    notes->list[notes->n++] = *p;
}

/* Collects the products from the i-th on that have its shape and different weights. */
static void find_alike(struct notes *notes, uint32_t i)
{
  struct alike *alike = &notes->alike;
  const struct lls_cuda_product_key key = lls_cuda_product_key(&notes->list[i]);
  alike->n = 0;
  for (; i < notes->n; i++) {
    const struct lls_cuda_product_key other = lls_cuda_product_key(&notes->list[i]);
    bool same = memcmp(&key, &other, sizeof key) == 0;
    for (uint32_t k = 0; k < alike->n && same; k++)
      same = alike->list[k]->w != notes->list[i].w;
    if (same)
      alike->list[alike->n++] = &notes->list[i];
  }
}

void lls_cuda_prepare(struct lls_cuda_device *d)
{
  const struct lls_cuda_ops *ops = d->ops;
  struct notes *notes = lls_cuda_times(d) ? calloc(1, sizeof *notes) : NULL;
  if (notes == NULL)
    return;
  for (uint32_t i = 0; i < ops->n; i++)
    if (ops->list[i].kind == LLS_CUDA_LINEAR)
      lls_cuda_each_product(d, &ops->list[i].linear, note, notes);
  for (uint32_t i = 0; i < notes->n && d->status == 0; i++) {
    const struct lls_cuda_product_key key = lls_cuda_product_key(&notes->list[i]);
    if (lls_cuda_product_choice(d->products, &key) != NULL ||
        d->products->n_choices == LLS_CUDA_MAX_CHOICES)
      continue;
    struct lls_cuda_product_shape *s = lls_cuda_product_find(d, &key);
    find_alike(notes, i);
    if (s != NULL)
      decide(d, s, &notes->alike);
  }
  free(notes);
}

/* Returns the i-th choice that was measured. */
static const struct lls_cuda_choice *measured(const struct lls_cuda_products *p,
                                              uint32_t i)
{
  for (uint32_t k = 0; k < p->n_choices; k++)
    if (p->choices[k].of > 1 && p->choices[k].ms < INFINITY && i-- == 0)
      return &p->choices[k];
  return NULL;
}

bool lls_cuda_chosen(struct lls_device *device, uint32_t i, char *text, size_t size)
{
  const struct lls_cuda_choice *c = measured(lls_cuda(device)->products, i);
  if (c == NULL)
    return false;
  snprintf(text, size,
           "%llu x %llu, %llu rows%s%s: algorithm %u of cuBLASLt's %u takes %.1f us, its "
           "first %.1f",
           (unsigned long long)c->key.outputs, (unsigned long long)c->key.inputs,
           (unsigned long long)c->key.n_rows, c->key.add ? ", added" : "",
           c->key.f32 ? ", f32" : "", c->index + 1, c->of, (double)c->ms * 1e3,
           (double)c->first_ms * 1e3);
  return true;
}
