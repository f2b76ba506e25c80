/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixtures of experts in bf16, in the shapes of Mixtral and of Qwen3-30B-A3B: the grouped
 * products, and everything which a layer computes after its norm. With few rows a result
 * is the share of the copy bandwidth at which the selected experts are read, with many
 * rows the share of the matrix peak; sizes between have no mark.
 */
#include "bench/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MOST_EXPERTS 128
#define MOST_ROWS    8192
#define ROUTES       8 /* used in turn: a few experts would stay in the GPU's cache */

struct shape {
  const char *name;
  uint32_t experts, active, hidden, inner;
};

/* A layer, and the experts of the rows of some steps. */
struct mixture {
  struct gpu_call call; /* the first member: `run` gets its address */
  const struct shape *shape;
  struct lls_weight *router;
  struct lls_experts *up, *down;
  struct lls_route routes[ROUTES];
  uint32_t n_routes;
  double hit; /* mean number of experts which a route selects */
  char *x;
  void *scores, *sorted, *wide, *gated, *narrow, *y;
};

static void *buffer(struct lls_device *d, size_t bytes)
{
  void *out;
  int rc = d->ops->alloc(d, LLS_MEMORY_DEVICE, bytes, &out);
  if (rc < 0)
    gpu_die("a buffer", NULL, rc);
  return out;
}

static struct lls_weight *make_weight(struct lls_device *d, size_t outputs, size_t inputs,
                                      uint64_t seed)
{
  const struct lls_tensor_view view = {.dtype = LLS_BF16,
                                       .rows = outputs,
                                       .columns = inputs,
                                       .row_stride = inputs,
                                       .seed = seed};
  struct lls_weight *w;
  struct lls_error err = {""};
  int rc = d->ops->weight_create(d, &view, NULL, 1, LLS_WEIGHTS_BF16, &w, &err);
  if (rc < 0)
    gpu_die("a weight", &err, rc);
  return w;
}

static struct lls_experts *make_experts(struct lls_device *d, uint32_t n, size_t outputs,
                                        size_t inputs)
{
  struct lls_weight *weights[MOST_EXPERTS];
  struct lls_experts *experts;
  struct lls_error err = {""};
  for (uint32_t e = 0; e < n; e++)
    weights[e] = make_weight(d, outputs, inputs, 1 + e);
  int rc = d->ops->experts_create(d, weights, n, &experts, &err);
  if (rc < 0)
    gpu_die("experts", &err, rc);
  return experts;
}

static void open_mixture(struct mixture *m, struct lls_device *d, const struct shape *s)
{
  size_t entries = (size_t)MOST_ROWS * s->active, word = sizeof(uint32_t);
  *m = (struct mixture){.shape = s};
  m->call.device = d;
  m->router = make_weight(d, s->experts, s->hidden, 5);
  m->up = make_experts(d, s->experts, 2 * (size_t)s->inner, s->hidden);
  m->down = make_experts(d, s->experts, s->hidden, s->inner);
  for (uint32_t i = 0; i < ROUTES; i++)
    m->routes[i] = (struct lls_route){.experts = s->experts,
                                      .active = s->active,
                                      .expert = buffer(d, entries * word),
                                      .weight = buffer(d, entries * word),
                                      .place = buffer(d, entries * word),
                                      .row = buffer(d, entries * word),
                                      .first = buffer(d, (s->experts + 1) * word)};
  m->x = gpu_random_rows(d, MOST_ROWS, s->hidden);
  m->scores = buffer(d, (size_t)MOST_ROWS * s->experts * sizeof(float));
  m->sorted = buffer(d, entries * s->hidden * 2);
  m->wide = buffer(d, entries * s->inner * 2 * 2);
  m->gated = buffer(d, entries * s->inner * 2);
  m->narrow = buffer(d, entries * s->hidden * 2);
  m->y = buffer(d, (size_t)MOST_ROWS * s->hidden * 2);
}

static void close_mixture(struct mixture *m)
{
  struct lls_device *d = m->call.device;
  void *const buffers[] = {m->x,     m->scores, m->sorted, m->wide,
                           m->gated, m->narrow, m->y};
  d->ops->weight_destroy(d, m->router);
  d->ops->experts_destroy(d, m->up);
  d->ops->experts_destroy(d, m->down);
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    d->ops->release(d, LLS_MEMORY_DEVICE, buffers[i]);
  for (uint32_t i = 0; i < ROUTES; i++) {
    const struct lls_route *r = &m->routes[i];
    void *const of[] = {r->expert, r->weight, r->place, r->row, r->first};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++)
      d->ops->release(d, LLS_MEMORY_DEVICE, of[k]);
  }
}

/* ---- what is measured -------------------------------------------------------------- */

static void run_up(const struct gpu_call *c, uint32_t i)
{
  const struct mixture *m = (const struct mixture *)c;
  c->device->ops->linear_experts(c->device, m->up, &m->routes[i], m->sorted, c->n_rows,
                                 m->wide);
}

static void run_down(const struct gpu_call *c, uint32_t i)
{
  const struct mixture *m = (const struct mixture *)c;
  c->device->ops->linear_experts(c->device, m->down, &m->routes[i], m->gated, c->n_rows,
                                 m->narrow);
}

/* Runs the layer as core/engine does. */
static void run_layer(const struct gpu_call *c, uint32_t i)
{
  const struct mixture *m = (const struct mixture *)c;
  const struct lls_device_ops *ops = c->device->ops;
  const struct shape *s = m->shape;
  const struct lls_route *route = &m->routes[i];
  const void *x = m->x + (size_t)i * c->n_rows * s->hidden * 2;
  ops->logits(c->device, m->router, x, c->n_rows, m->scores);
  ops->route(c->device, m->scores, c->n_rows, true, route);
  ops->gather_routed(c->device, route, x, c->n_rows, s->hidden, m->sorted);
  run_up(c, i);
  ops->gated_experts(c->device, route, LLS_ACT_SILU, m->wide, c->n_rows, s->inner,
                     m->gated);
  run_down(c, i);
  ops->combine(c->device, route, m->narrow, c->n_rows, s->hidden, LLS_STORE_SET, m->y);
}

/* Makes the routes of steps with `rows` rows, and the inputs of the products. */
static void make_routes(struct mixture *m, uint32_t rows)
{
  static const struct lls_device_step nothing;
  static uint32_t first[ROUTES][MOST_EXPERTS + 1];
  struct gpu_call *c = &m->call;
  struct lls_error err = {""};
  c->n_rows = rows;
  c->step = &nothing;
  m->n_routes = c->layers = ROUTES * rows <= MOST_ROWS ? ROUTES : 1;
  int rc = c->device->ops->step_begin(c->device, NULL, &nothing);
  for (uint32_t i = 0; rc == 0 && i < m->n_routes; i++) {
    run_layer(c, i);
    c->device->ops->download(c->device, m->routes[i].first, first[i],
                             (m->shape->experts + 1) * sizeof *first[i]);
  }
  if (rc == 0)
    rc = c->device->ops->step_end(c->device, &err);
  if (rc < 0)
    gpu_die("routes", &err, rc);
  m->hit = 0;
  for (uint32_t i = 0; i < m->n_routes; i++)
    for (uint32_t e = 0; e < m->shape->experts; e++)
      m->hit += (double)(first[i][e + 1] > first[i][e]) / m->n_routes;
}

/* Measures one operation; `numbers` are the weights which one expert uses for a row. */
static void measure(struct gpu_bench *b, struct mixture *m, const char *what,
                    void (*run)(const struct gpu_call *, uint32_t), double numbers)
{
  char name[64];
  uint32_t rows = m->call.n_rows;
  bool few = rows <= 64;
  double mark = strcmp(what, "layer") == 0 ? 0
                : rows <= 16               ? 0.80
                : rows >= 2048             ? 0.50
                                           : 0;
  snprintf(name, sizeof name, "%s %s, %u rows", m->shape->name, what, rows);
  if (gpu_leave_out(b, name, 0, 0))
    return;
  m->call.run = run;
  m->call.calls = few ? 32 : rows <= 256 ? 8 : 2;
  double seconds = gpu_time(&m->call);
  gpu_result(b, name, few ? "of copy bandwidth" : "of the matrix peak",
             few ? 2 * m->hit * numbers / seconds / b->limits.copy
                 : 2.0 * rows * m->shape->active * numbers / seconds / b->limits.matrix,
             mark, false);
}

void gpu_experts(struct gpu_bench *b, struct lls_device *d)
{
  static const struct shape shapes[] = {{"Mixtral", 8, 2, 4096, 14336},
                                        {"Qwen3-30B-A3B", 128, 8, 2048, 768}};
  static const uint32_t rows[] = {1, 16, 64, 256, 2048, 8192};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const struct shape *s = &shapes[i];
    struct mixture m;
    double numbers = (double)s->hidden * s->inner;
    if (b->only != NULL && strncmp(b->only, s->name, strlen(s->name)) != 0)
      continue;
    if (b->only == NULL && gpu_leave_out(b, s->name, (size_t)5 << 30, gpu_available(d)))
      continue;
    open_mixture(&m, d, s);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
      make_routes(&m, rows[k]);
      measure(b, &m, "up", run_up, 2 * numbers);
      measure(b, &m, "down", run_down, numbers);
      measure(b, &m, "layer", run_layer, 3 * numbers);
    }
    close_mixture(&m);
  }
}
