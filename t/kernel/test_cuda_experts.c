/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of a mixture's experts on the CUDA device, against sums in double: experts
 * with few, many, no or all rows; rows, outputs and inputs that do not fill a tile.
 */
#define PAIR_ROWS 320
#include "t/kernel/pair.h"

#define MOST_EXPERTS 320
#define MAX_COLUMNS  8192

/* Rows are sent to `active` experts each, by scores that give expert e rows[e] of the
 * n_rows. */
struct shape {
  uint32_t experts, active, outputs, inputs, n_rows;
  uint32_t rows[MOST_EXPERTS]; /* add up to n_rows active */
  bool biased;
};

struct mixture {
  const struct shape *shape;
  float *w, *bias; /* (experts, outputs, inputs), (experts, outputs) */
  float *x, *scores;
  struct lls_experts *experts;
  struct lls_weight *router; /* scores are multiplied by one */
  struct lls_route route;
};

static void *buffer(struct lls_device *d, size_t bytes)
{
  void *out;
  assert_int_equal(d->ops->alloc(d, LLS_MEMORY_DEVICE, bytes, &out), 0);
  return out;
}

/* Assigns each row to the experts that still need most rows. */
static void choose(const struct shape *s, float *scores)
{
  uint32_t left[MOST_EXPERTS];
  memcpy(left, s->rows, sizeof left);
  for (uint32_t row = 0; row < s->n_rows; row++) {
    float *of = scores + (size_t)row * s->experts;
    for (uint32_t e = 0; e < s->experts; e++)
      of[e] = 0;
    for (uint32_t i = 0; i < s->active; i++) {
      uint32_t best = s->experts;
      for (uint32_t e = 0; e < s->experts; e++)
        if (of[e] == 0 && left[e] > 0 && (best == s->experts || left[e] > left[best]))
          best = e;
      assert_true(best < s->experts);
      of[best] = 2 + (float)(row % 8) / 8;
      left[best]--;
    }
  }
}

static void open_experts(const struct pair *p, struct mixture *m)
{
  const struct shape *s = m->shape;
  struct lls_device *d = p->cuda;
  struct lls_weight *weights[MOST_EXPERTS];
  struct lls_error err = {""};
  float *one = calloc((size_t)s->experts * s->experts, sizeof *one);
  const struct lls_tensor_view router = view_of(one, s->experts, s->experts);
  for (uint32_t e = 0; e < s->experts; e++) {
    const struct lls_tensor_view view = view_of(m->w + (size_t)e * s->outputs * s->inputs,
                                                s->outputs, s->inputs),
                                 bias = view_of(m->bias + e * s->outputs, 1, s->outputs);
    one[e * s->experts + e] = 1;
    if (d->ops->weight_create(d, &view, s->biased ? &bias : NULL, 1, LLS_WEIGHTS_BF16,
                              &weights[e], &err) != 0)
      fail_msg("%s", err.text);
  }
  if (d->ops->experts_create(d, weights, s->experts, &m->experts, &err) != 0)
    fail_msg("%s", err.text);
  assert_int_equal(
      d->ops->weight_create(d, &router, NULL, 1, LLS_WEIGHTS_BF16, &m->router, &err), 0);
  free(one);
}

/* Rows that pad a step have room. */
static void mixture_open(const struct pair *p, struct mixture *m, const struct shape *s)
{
  struct lls_device *d = p->cuda;
  size_t n = s->n_rows + 8, entries = n * s->active * sizeof(uint32_t);
  *m = (struct mixture){.shape = s};
  m->w = pair_random(p, (size_t)s->experts * s->outputs * s->inputs, random_float);
  m->bias = pair_random(p, (size_t)s->experts * s->outputs, random_float);
  m->x = pair_random(p, (size_t)s->n_rows * s->inputs, random_activation);
  m->scores = malloc(n * s->experts * sizeof *m->scores);
  choose(s, m->scores);
  open_experts(p, m);
  m->route = (struct lls_route){
      .experts = s->experts,
      .active = s->active,
      .expert = buffer(d, entries),
      .weight = buffer(d, entries),
      .place = buffer(d, entries),
      .row = buffer(d, entries),
      .first = buffer(d, (s->experts + 1) * sizeof(uint32_t)),
  };
}

static void mixture_close(const struct pair *p, struct mixture *m)
{
  void *const buffers[] = {m->route.expert, m->route.weight, m->route.place, m->route.row,
                           m->route.first};
  p->cuda->ops->experts_destroy(p->cuda, m->experts);
  p->cuda->ops->weight_destroy(p->cuda, m->router);
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    pair_release(p->cuda, buffers[i]);
  free(m->w);
  free(m->bias);
  free(m->x);
  free(m->scores);
}

/* Results for the first n rows, and their places: y (n active, outputs). */
struct results {
  float *y;
  uint32_t *expert, *place, *row; /* as lls_route has them */
  uint32_t first[MOST_EXPERTS + 1];
};

static struct results run(const struct pair *p, const struct mixture *m, uint32_t n)
{
  const struct shape *s = m->shape;
  struct lls_device *d = p->cuda;
  uint32_t padded = n + 8, entries = padded * s->active;
  size_t numbers = (size_t)n * s->active * s->outputs;
  struct results r = {.y = malloc(numbers * sizeof *r.y),
                      .expert = malloc(entries * sizeof *r.expert),
                      .place = malloc(entries * sizeof *r.place),
                      .row = malloc(entries * sizeof *r.row)};
  void *x = pair_buffer(d, padded, s->inputs), *in = pair_buffer(d, padded, s->experts),
       *scores = buffer(d, (size_t)padded * s->experts * sizeof(float)),
       *sorted = pair_buffer(d, entries, s->inputs),
       *y = pair_buffer(d, entries, s->outputs);
  pair_fill(d, m->x, n, s->inputs, x);
  pair_fill(d, m->scores, n, s->experts, in);
  pair_begin(d, NULL, n);
  d->ops->logits(d, m->router, in, n, scores);
  d->ops->route(d, scores, n, true, &m->route);
  d->ops->gather_routed(d, &m->route, x, n, s->inputs, sorted);
  d->ops->linear_experts(d, m->experts, &m->route, sorted, n, y);
  pair_get(d, y, numbers, r.y);
  d->ops->download(d, m->route.first, r.first, (s->experts + 1) * sizeof *r.first);
  d->ops->download(d, m->route.expert, r.expert, n * s->active * sizeof *r.expert);
  d->ops->download(d, m->route.place, r.place, n * s->active * sizeof *r.place);
  d->ops->download(d, m->route.row, r.row, n * s->active * sizeof *r.row);
  pair_end(d);
  void *const buffers[] = {x, in, scores, sorted, y};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    pair_release(d, buffers[i]);
  return r;
}

static void results_free(struct results *r)
{
  free(r->y);
  free(r->expert);
  free(r->place);
  free(r->row);
}

static void check_entry(const struct pair *p, const struct mixture *m,
                        const struct results *r, uint32_t e, uint32_t i)
{
  const struct shape *s = m->shape;
  const float *x = m->x + (size_t)r->row[i] * s->inputs;
  for (uint32_t o = 0; o < s->outputs; o++) {
    const float *w = m->w + ((size_t)e * s->outputs + o) * s->inputs;
    double sum = 0, size = 0, got = (double)r->y[(size_t)i * s->outputs + o];
    for (uint32_t k = 0; k < s->inputs; k++) {
      sum += (double)w[k] * (double)x[k];
      size += fabs((double)w[k] * (double)x[k]);
    }
    sum += s->biased ? (double)m->bias[e * s->outputs + o] : 0;
    double limit = 1e-5 * size + 1e-6 + pair_epsilon(p) * fabs(sum);
    if (!(fabs(got - sum) <= limit))
      fail_msg("%u x %u, %u rows%s: output %u of row %u by expert %u, which has %u, is "
               "%.9g, not %.9g (+- %.2g)",
               s->outputs, s->inputs, s->n_rows, p->on_gpu ? " on a GPU" : "", o,
               r->row[i], e, r->first[e + 1] - r->first[e], got, sum, limit);
  }
}

/* Entries are those of their experts, in the order of their rows. */
static void check_places(const struct shape *s, const struct results *r)
{
  for (uint32_t i = 0; i < s->n_rows * s->active; i++) {
    uint32_t e = r->expert[i], at = r->place[i];
    assert_in_range(at, r->first[e], r->first[e + 1] - 1);
    assert_int_equal(r->row[at], i / s->active);
    if (at > r->first[e])
      assert_true(r->row[at - 1] < r->row[at]);
  }
}

static void check_shape(const struct pair *p, const struct shape *s)
{
  struct mixture m;
  mixture_open(p, &m, s);
  struct results r = run(p, &m, s->n_rows);
  assert_int_equal(r.first[0], 0);
  for (uint32_t e = 0; e < s->experts; e++) {
    assert_int_equal(r.first[e + 1] - r.first[e], s->rows[e]);
    for (uint32_t i = r.first[e]; i < r.first[e + 1]; i++)
      check_entry(p, &m, &r, e, i);
  }
  check_places(s, &r);
  results_free(&r);
  mixture_close(p, &m);
}

/* ---- shapes ------------------------------------------------------------------------ */

static void few(const struct pair *p)
{
  static const struct shape shapes[] = {
      {1, 1, 16, 64, 1, {1}, false},
      {2, 1, 1, 8, 1, {0, 1}, true},                   /* seven warps without inputs */
      {5, 2, 17, 72, 8, {0, 8, 0, 3, 5}, true},        /* some have none */
      {4, 4, 40, 1160, 4, {4, 4, 4, 4}, false},        /* two pieces and more of a warp */
      {5, 1, 34, 200, 40, {0, 0, 40, 0, 0}, true},     /* one has all */
      {6, 2, 33, 520, 24, {16, 9, 7, 0, 15, 1}, true}, /* a tile, and more or less */
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    check_shape(p, &shapes[i]);
}

/* Tiles of 32 outputs, which there have to be enough of for all multiprocessors. */
static void few_wide(const struct pair *p)
{
  struct shape s = {.experts = p->on_gpu ? 64 : 9,
                    .active = 8,
                    .outputs = p->on_gpu ? 1200 : 270,
                    .inputs = 584,
                    .n_rows = 8,
                    .biased = true};
  for (uint32_t e = 0; e < s.experts; e++)
    s.rows[e] = 64 / s.experts + (e < 64 % s.experts);
  check_shape(p, &s);
}

/* Tiles of up to 128 rows where experts have 96 on the average or fewer, then of up to
 * 256. */
static void many(const struct pair *p)
{
  static const struct shape shapes[] = {
      {1, 1, 128, 64, 16, {16}, true},
      {1, 1, 8, 8, 64, {64}, false},
      {3, 2, 30, 328, 136, {136, 65, 71}, false}, /* more pieces than stages */
      {4, 2, 264, 136, 160, {0, 160, 0, 160}, true},
      {2, 1, 136, 72, 320, {257, 63}, true}, /* a row more than a tile */
      {3, 1, 129, 200, 320, {110, 0, 210}, true},
      {2, 1, 16, 328, 320, {140, 180}, false},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    check_shape(p, &shapes[i]);
}

/* Inputs that cannot be read 16 bytes at a time. */
static void odd_inputs(const struct pair *p)
{
  static const struct shape few_rows = {3, 1, 20, 12, 8, {1, 0, 7}, true};
  static const struct shape many_rows = {2, 1, 20, 101, 64, {50, 14}, true};
  check_shape(p, &few_rows);
  check_shape(p, &many_rows);
}

/* So many entries that a warp, and four warps, sort them in more than one round. */
static void many_entries(const struct pair *p)
{
  static const struct shape some = {5, 4, 8, 8, 320, {320, 320, 300, 320, 20}, false};
  struct shape most = {16, 16, 8, 8, 320, {0}, true};
  for (uint32_t e = 0; e < most.experts; e++)
    most.rows[e] = most.n_rows;
  check_shape(p, &some);
  check_shape(p, &most);
}

/* More experts than threads. */
static void many_experts(const struct pair *p)
{
  static const struct shape s = {
      300,  4,  20,
      64,   16, {[3] = 16, [31] = 12, [32] = 4, [255] = 3, [256] = 13, [299] = 16},
      false};
  check_shape(p, &s);
}

/* A row's results have the same bits whatever the other rows. */
static void alone_or_not(const struct pair *p)
{
  static const struct shape s = {4, 1, 270, 1160, 32, {2, 20, 10, 0}, true};
  struct mixture m;
  mixture_open(p, &m, &s);
  struct results all = run(p, &m, s.n_rows), one = run(p, &m, 1);
  for (uint32_t i = 0; i < s.n_rows; i++)
    if (all.row[i] == 0)
      assert_memory_equal(one.y, all.y + (size_t)i * s.outputs,
                          s.outputs * sizeof *one.y);
  results_free(&all);
  results_free(&one);
  mixture_close(p, &m);
}

#define TEST(name)                                                                       \
  static void test_##name(void **state)                                                  \
  {                                                                                      \
    (void)state;                                                                         \
    each_pair(LLS_BF16, MAX_COLUMNS, name);                                              \
  }
TEST(few)
TEST(few_wide)
TEST(many)
TEST(odd_inputs)
TEST(many_experts)
TEST(many_entries)
TEST(alone_or_not)

static void test_f32(void **state)
{
  (void)state;
  each_pair(LLS_F32, MAX_COLUMNS, few);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_few),          cmocka_unit_test(test_few_wide),
      cmocka_unit_test(test_many),         cmocka_unit_test(test_odd_inputs),
      cmocka_unit_test(test_many_experts), cmocka_unit_test(test_many_entries),
      cmocka_unit_test(test_alone_or_not), cmocka_unit_test(test_f32),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
