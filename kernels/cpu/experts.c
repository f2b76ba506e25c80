/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixtures of experts: the choice of experts (Shazeer et al., 2017, section 2.1), the
 * sorting of rows by expert, and each expert's products with its rows. Experts run one
 * after the other, each on all threads.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct lls_experts {
  uint32_t n;
  struct lls_weight *weights[]; /* (n) */
};

int lls_cpu_experts_create(struct lls_device *device, struct lls_weight *const *weights,
                           uint32_t n, struct lls_experts **out, struct lls_error *err)
{
  struct lls_experts *e = malloc(sizeof *e + n * sizeof *e->weights);
  if (e == NULL) {
    for (uint32_t i = 0; i < n; i++)
      lls_cpu_weight_destroy(device, weights[i]);
    return lls_fail(err, -ENOMEM, "no memory for %u experts", n);
  }
  e->n = n;
  memcpy(e->weights, weights, n * sizeof *weights);
  *out = e;
  return 0;
}

void lls_cpu_experts_destroy(struct lls_device *device, struct lls_experts *e)
{
  for (uint32_t i = 0; i < e->n; i++)
    lls_cpu_weight_destroy(device, e->weights[i]);
  free(e);
}

struct lls_weight *const *lls_cpu_expert_weights(const struct lls_experts *e)
{
  return e->weights;
}

/* ---- choosing --------------------------------------------------------------------- */

static bool is_chosen(const uint32_t *expert, uint32_t n, uint32_t e)
{
  for (uint32_t i = 0; i < n; i++)
    if (expert[i] == e)
      return true;
  return false;
}

/* Returns the best expert not chosen yet: the first of equals, and some expert even if
 * all scores are NaN. */
static uint32_t best_left(const float *scores, uint32_t n, const uint32_t *chosen,
                          uint32_t n_chosen)
{
  uint32_t best = n;
  for (uint32_t e = 0; e < n; e++)
    if (!is_chosen(chosen, n_chosen, e) && (best == n || scores[e] > scores[best]))
      best = e;
  return best;
}

static void choose(const float *scores, bool normalise, const struct lls_route *r,
                   uint32_t *expert, float *weight)
{
  double all = 0, chosen = 0;
  for (uint32_t i = 0; i < r->active; i++)
    expert[i] = best_left(scores, r->experts, expert, i);
  double top = (double)scores[expert[0]];
  for (uint32_t e = 0; e < r->experts; e++)
    all += exp((double)scores[e] - top);
  for (uint32_t i = 0; i < r->active; i++)
    chosen += exp((double)scores[expert[i]] - top);
  for (uint32_t i = 0; i < r->active; i++)
    weight[i] =
        (float)(exp((double)scores[expert[i]] - top) / (normalise ? chosen : all));
}

/* ---- choosing by more than a softmax ---------------------------------------------- */

static bool is_plain(const struct lls_route *r)
{
  return !r->logistic && r->bias == NULL && r->groups <= 1 && r->scale == 0 &&
         r->factor == NULL;
}

/* Turns scores into weights: a softmax over all, or each one's logistic function. */
static void weigh_all(const struct lls_route *r, const float *scores, float *weight)
{
  double top = (double)scores[0], sum = 0;
  for (uint32_t e = 1; e < r->experts; e++)
    top = (double)scores[e] > top ? (double)scores[e] : top;
  for (uint32_t e = 0; e < r->experts; e++)
    sum += exp((double)scores[e] - top);
  for (uint32_t e = 0; e < r->experts; e++)
    weight[e] = (float)(r->logistic ? 1 / (1 + exp(-(double)scores[e]))
                                    : exp((double)scores[e] - top) / sum);
}

/* Returns the sum of the two largest numbers, or the largest. */
static float best_of(const float *x, uint32_t n, bool one)
{
  float first = -INFINITY, second = -INFINITY;
  for (uint32_t i = 0; i < n; i++) {
    if (x[i] > first) {
      second = first;
      first = x[i];
    } else if (x[i] > second) {
      second = x[i];
    }
  }
  return one ? first : first + second;
}

/* Takes experts of all but the best groups out of the choice. */
static void keep_groups(const struct lls_route *r, float *wanted)
{
  float best[LLS_MAX_EXPERTS];
  uint32_t kept[LLS_MAX_EXPERTS], each = r->experts / r->groups;
  for (uint32_t g = 0; g < r->groups; g++)
    best[g] = best_of(wanted + g * each, each, r->best_counts);
  for (uint32_t i = 0; i < r->used_groups; i++)
    kept[i] = best_left(best, r->groups, kept, i);
  for (uint32_t e = 0; e < r->experts; e++)
    if (!is_chosen(kept, r->used_groups, e / each))
      wanted[e] = -INFINITY;
}

static void choose_otherwise(const float *scores, bool normalise,
                             const struct lls_route *r, uint32_t *expert, float *weight)
{
  float all[LLS_MAX_EXPERTS], wanted[LLS_MAX_EXPERTS];
  double chosen = 0, scale = r->scale > 0 ? (double)r->scale : 1;
  weigh_all(r, scores, all);
  for (uint32_t e = 0; e < r->experts; e++)
    wanted[e] = all[e] + (r->bias != NULL ? r->bias[e] : 0);
  if (r->groups > 1)
    keep_groups(r, wanted);
  for (uint32_t i = 0; i < r->active; i++) {
    expert[i] = best_left(wanted, r->experts, expert, i);
    chosen += (double)all[expert[i]];
  }
  for (uint32_t i = 0; i < r->active; i++)
    weight[i] =
        (float)((double)all[expert[i]] * scale / (normalise ? chosen + 1e-20 : 1)) *
        (r->factor != NULL ? r->factor[expert[i]] : 1);
}

struct choosing {
  const struct lls_route *route;
  const float *scores; /* (n_rows, experts) */
  size_t n_rows;
  bool normalise;
};

static void choose_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct choosing *w = arg;
  const struct lls_route *r = w->route;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++)
    (is_plain(r) ? choose : choose_otherwise)(w->scores + i * r->experts, w->normalise, r,
                                              r->expert + i * r->active,
                                              r->weight + i * r->active);
}

/* Counting sort: the entries of an expert stay in the order of their rows. */
static void sort(const struct lls_route *r, size_t n_rows)
{
  size_t entries = n_rows * r->active;
  uint32_t next[LLS_MAX_EXPERTS];
  memset(r->first, 0, (r->experts + 1) * sizeof *r->first);
  for (size_t i = 0; i < entries; i++)
    r->first[r->expert[i] + 1]++;
  for (uint32_t e = 0; e < r->experts; e++) {
    r->first[e + 1] += r->first[e];
    next[e] = r->first[e];
  }
  for (size_t i = 0; i < entries; i++) {
    r->place[i] = next[r->expert[i]]++;
    r->row[r->place[i]] = (uint32_t)(i / r->active);
  }
}

void lls_cpu_route(struct lls_device *device, const float *scores, uint32_t n_rows,
                   bool normalise, const struct lls_route *r)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct choosing w = {r, scores, n_rows, normalise};
  if (r->experts > LLS_MAX_EXPERTS || r->active > r->experts) {
    lls_cpu_step_fail(d, -EINVAL, "%u of %u experts", r->active, r->experts);
    return;
  }
  lls_cpu_run_rows(d, choose_task, &w, n_rows, (size_t)r->experts * r->active);
  sort(r, n_rows);
}

/* ---- rows there and back ---------------------------------------------------------- */

struct moving {
  const struct lls_route *route;
  const float *x;
  float *y;
  size_t n_rows, columns;
  bool add;
};

/* Returns the weight of a sorted entry. */
static float weight_of(const struct lls_route *r, size_t entry)
{
  size_t i = (size_t)r->row[entry] * r->active;
  while (r->place[i] != entry)
    i++;
  return r->weight[i];
}

static void gather_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct moving *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    float *y = w->y + i * w->columns;
    memcpy(y, w->x + w->route->row[i] * w->columns, w->columns * sizeof *y);
    float weight = w->route->weighs_input ? weight_of(w->route, i) : 1;
    for (size_t k = 0; weight != 1 && k < w->columns; k++)
      y[k] *= weight;
  }
}

void lls_cpu_gather_routed(struct lls_device *device, const struct lls_route *r,
                           const void *x, uint32_t n_rows, uint32_t columns, void *y)
{
  struct moving w = {r, x, y, (size_t)n_rows * r->active, columns, false};
  lls_cpu_run_rows(lls_cpu(device), gather_task, &w, w.n_rows, columns);
}

static void combine_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct moving *w = arg;
  uint32_t active = w->route->active;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t row = begin; row < end; row++) {
    float *y = w->y + row * w->columns;
    for (size_t i = row * active; i < (row + 1) * active; i++) {
      const float *x = w->x + w->route->place[i] * w->columns;
      float weight = w->route->weighs_input ? 1 : w->route->weight[i];
      bool set = !w->add && i == row * active;
      for (size_t k = 0; k < w->columns; k++)
        y[k] = (set ? 0 : y[k]) + weight * x[k];
    }
  }
}

void lls_cpu_combine(struct lls_device *device, const struct lls_route *r, const void *x,
                     uint32_t n_rows, uint32_t columns, enum lls_linear_store store,
                     void *y)
{
  struct moving w = {r, x, y, n_rows, columns, store == LLS_STORE_ADD};
  lls_cpu_run_rows(lls_cpu(device), combine_task, &w, n_rows,
                   (size_t)columns * r->active);
}

void lls_cpu_gated_experts(struct lls_device *device, const struct lls_route *r,
                           enum lls_activation kind, const void *x, uint32_t n_rows,
                           uint32_t columns, void *y)
{
  lls_cpu_gated(device, kind, x, n_rows * r->active, columns, y);
}

/* ---- products --------------------------------------------------------------------- */

void lls_cpu_linear_experts(struct lls_device *device, const struct lls_experts *experts,
                            const struct lls_route *r, const void *x, uint32_t n_rows,
                            void *y)
{
  for (uint32_t e = 0; n_rows > 0 && e < experts->n; e++) {
    const struct lls_weight *w = experts->weights[e];
    uint32_t first = r->first[e], n = r->first[e + 1] - first;
    if (n > 0)
      lls_cpu_linear(device, w, (const float *)x + first * w->columns, n, LLS_STORE_SET,
                     (float *)y + first * w->rows);
  }
}
