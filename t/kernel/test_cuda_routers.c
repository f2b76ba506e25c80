/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of experts of the models whose router is no softmax, and what their mixtures
 * do besides (weights of inputs, experts without a gate), on the CUDA device against the
 * CPU's.
 */
#include "t/kernel/pair.h"

#define MAX_COLUMNS 8192

static void *buffer(struct lls_device *d, size_t bytes)
{
  void *out;
  assert_int_equal(d->ops->alloc(d, LLS_MEMORY_DEVICE, bytes, &out), 0);
  return out;
}

struct router {
  uint32_t experts, active, groups, used_groups;
  bool logistic, best_counts, biased, factors, normalise;
  float scale;
};

/* The choice of a device, from scores in its memory. */
struct choice {
  uint32_t expert[PAIR_ROWS * 8], place[PAIR_ROWS * 8];
  float weight[PAIR_ROWS * 8];
};

static float *vector(struct lls_device *d, const float *x, uint32_t n)
{
  float *out;
  const struct lls_tensor_view view = view_of(x, 1, n);
  assert_int_equal(d->ops->vector_create(d, &view, &out, NULL), 0);
  return out;
}

static void route_on(struct lls_device *d, const struct router *r, const float *numbers,
                     uint32_t n_rows, struct choice *out)
{
  size_t entries = (size_t)(n_rows + 8) * r->active * sizeof(uint32_t);
  float *scores = vector(d, numbers, (n_rows + 8) * r->experts),
        *bias = vector(d, numbers + 7, r->experts),
        *factor = vector(d, numbers + 99, r->experts);
  const struct lls_route route = {
      .experts = r->experts,
      .active = r->active,
      .expert = buffer(d, entries),
      .weight = buffer(d, entries),
      .place = buffer(d, entries),
      .row = buffer(d, entries),
      .first = buffer(d, (r->experts + 1) * sizeof(uint32_t)),
      .logistic = r->logistic,
      .groups = r->groups,
      .used_groups = r->used_groups,
      .best_counts = r->best_counts,
      .scale = r->scale,
      .bias = r->biased ? bias : NULL,
      .factor = r->factors ? factor : NULL,
  };
  void *const buffers[] = {scores,       bias,        factor,    route.expert,
                           route.weight, route.place, route.row, route.first};
  size_t own = (size_t)n_rows * r->active * sizeof(uint32_t);
  pair_begin(d, NULL, n_rows);
  d->ops->route(d, scores, n_rows, r->normalise, &route);
  d->ops->download(d, route.expert, out->expert, own);
  d->ops->download(d, route.weight, out->weight, own);
  d->ops->download(d, route.place, out->place, own);
  pair_end(d);
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    pair_release(d, buffers[i]);
}

/* GLM-4.5 and MiniMax-M2, DeepSeek V2 and V3, Llama 4, Gemma 4, and more experts than
 * lanes. */
static void routers(const struct pair *p)
{
  static const struct router all[] = {
      {6, 2, 2, 1, true, false, true, false, true, 1.5f},
      {64, 6, 8, 3, false, true, false, false, false, 16},
      {256, 8, 8, 4, true, false, true, false, true, 2.5f},
      {16, 1, 0, 0, true, false, false, false, false, 0},
      {40, 4, 1, 1, false, false, false, true, true, 0},
      {320, 8, 32, 5, true, true, true, false, false, 0},
  };
  struct choice *cpu = malloc(sizeof *cpu), *cuda = malloc(sizeof *cuda);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    uint32_t n_rows = i % 2 ? 5 : 70, n = n_rows * all[i].active;
    float *numbers =
        pair_random(p, (size_t)(n_rows + 8) * all[i].experts + 99, random_float);
    route_on(p->cpu, &all[i], numbers, n_rows, cpu);
    route_on(p->cuda, &all[i], numbers, n_rows, cuda);
    assert_memory_equal(cuda->expert, cpu->expert, n * sizeof(uint32_t));
    pair_compare(p, "weights of experts", cuda->weight, cpu->weight, n, 1e-5, 1e-7);
    free(numbers);
  }
  free(cpu);
  free(cuda);
}

/* ---- a mixture --------------------------------------------------------------------- */

/* No multiples of what rows of a step are padded to, so that rows that pad it are sorted
 * between the others. */
#define ROWS    5
#define EXPERTS 6
#define ACTIVE  3
#define COLUMNS 24
#define INNER   16

static struct lls_experts *experts_of(struct lls_device *d, const float *numbers,
                                      uint32_t outputs, uint32_t inputs)
{
  struct lls_weight *weights[EXPERTS];
  struct lls_experts *out;
  enum lls_weight_format format =
      d->activation_type == LLS_BF16 ? LLS_WEIGHTS_BF16 : LLS_WEIGHTS_F32;
  for (uint32_t e = 0; e < EXPERTS; e++) {
    const struct lls_tensor_view view =
        view_of(numbers + (size_t)e * outputs * inputs, outputs, inputs);
    assert_int_equal(d->ops->weight_create(d, &view, NULL, 1, format, &weights[e], NULL),
                     0);
  }
  assert_int_equal(d->ops->experts_create(d, weights, EXPERTS, &out, NULL), 0);
  return out;
}

struct mixture {
  float *x, *router, *up, *down;
};

/* The whole way of rows through experts: out (ROWS, COLUMNS). */
static void mix_on(struct lls_device *d, const struct mixture *m, bool weighs_input,
                   float *out)
{
  size_t slots = (ROWS + 8) * ACTIVE, number = sizeof(uint32_t);
  const struct lls_route route = {
      .experts = EXPERTS,
      .active = ACTIVE,
      .expert = buffer(d, slots * number),
      .weight = buffer(d, slots * number),
      .place = buffer(d, slots * number),
      .row = buffer(d, slots * number),
      .first = buffer(d, (EXPERTS + 1) * number),
      .logistic = true,
      .weighs_input = weighs_input,
  };
  const struct lls_tensor_view view = view_of(m->router, EXPERTS, COLUMNS);
  struct lls_experts *up = experts_of(d, m->up, INNER, COLUMNS),
                     *down = experts_of(d, m->down, COLUMNS, INNER);
  struct lls_weight *router;
  void *x = pair_buffer(d, ROWS + 8, COLUMNS), *y = pair_buffer(d, ROWS + 8, COLUMNS),
       *sorted = pair_buffer(d, slots, COLUMNS), *inner = pair_buffer(d, slots, INNER),
       *scores = buffer(d, (ROWS + 8) * EXPERTS * sizeof(float));
  void *const buffers[] = {
      route.expert, route.weight, route.place, route.row, route.first, x, y,
      sorted,       inner,        scores};
  assert_int_equal(
      d->ops->weight_create(d, &view, NULL, 1, LLS_WEIGHTS_F32, &router, NULL), 0);
  pair_fill(d, m->x, ROWS, COLUMNS, x);
  pair_begin(d, NULL, ROWS);
  d->ops->logits(d, router, x, ROWS, scores);
  d->ops->route(d, scores, ROWS, false, &route);
  d->ops->gather_routed(d, &route, x, ROWS, COLUMNS, sorted);
  d->ops->linear_experts(d, up, &route, sorted, ROWS, inner);
  d->ops->activate(d, LLS_ACT_SQUARED_RELU, inner, ROWS * ACTIVE, INNER);
  d->ops->linear_experts(d, down, &route, inner, ROWS, sorted);
  d->ops->combine(d, &route, sorted, ROWS, COLUMNS, LLS_STORE_SET, y);
  pair_get(d, y, ROWS * COLUMNS, out);
  pair_end(d);
  d->ops->experts_destroy(d, up);
  d->ops->experts_destroy(d, down);
  d->ops->weight_destroy(d, router);
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    pair_release(d, buffers[i]);
}

/* Runs in f32 alone, since bf16 may choose another of two experts with close scores. */
static void mixtures(const struct pair *p)
{
  const struct mixture m = {
      .x = pair_random(p, ROWS * COLUMNS, random_float),
      .router = pair_random(p, EXPERTS * COLUMNS, random_float),
      .up = pair_random(p, EXPERTS * INNER * COLUMNS, random_float),
      .down = pair_random(p, EXPERTS * INNER * COLUMNS, random_float),
  };
  for (int weighs_input = 0; weighs_input < 2; weighs_input++) {
    float cpu[ROWS * COLUMNS], cuda[ROWS * COLUMNS];
    mix_on(p->cpu, &m, weighs_input, cpu);
    mix_on(p->cuda, &m, weighs_input, cuda);
    pair_compare(p, "a mixture", cuda, cpu, ROWS * COLUMNS, 1e-4, 1e-4);
  }
  free(m.x);
  free(m.router);
  free(m.up);
  free(m.down);
}

static void test_routers(void **state)
{
  (void)state;
  each_pair(LLS_F32, MAX_COLUMNS, routers);
}

static void test_mixtures(void **state)
{
  (void)state;
  each_pair(LLS_F32, MAX_COLUMNS, mixtures);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_routers),
      cmocka_unit_test(test_mixtures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
