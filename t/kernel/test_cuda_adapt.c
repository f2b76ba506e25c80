/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of several LoRA adapters on the CUDA device against the CPU's: parts of
 * different ranks and places, shares of larger matrices, rows in any order, rows of no
 * group; sizes that cannot be read 16 bytes at a time; more steps' data than the first
 * buffer holds; experts, in several pieces if there is little room.
 */
#include "t/kernel/pair.h"

#define ROWS        37
#define MAX_COLUMNS 4096
#define MAX_GROUPS  32

struct part {
  uint32_t rank, first, outputs;
};

struct shape {
  uint32_t inputs, outputs, a_stride, b_stride, experts;
  uint32_t n_groups, n_rows[MAX_GROUPS];
  struct part parts[MAX_GROUPS][LLS_MAX_LOW_RANK];
};

static const struct shape plain[] = {
    /* as q, k and v; one adapter changes only k; the last rows have none */
    {.inputs = 128,
     .outputs = 320,
     .a_stride = 128,
     .b_stride = 192,
     .n_groups = 3,
     .n_rows = {16, 1, 9},
     .parts = {{{16, 0, 192}, {16, 192, 64}, {8, 256, 64}},
               {{3, 192, 64}},
               {{64, 0, 192}, {1, 256, 64}}}},
    /* nothing is a multiple of 16 bytes; the largest rank */
    {.inputs = 75,
     .outputs = 301,
     .a_stride = 77,
     .b_stride = 303,
     .n_groups = 2,
     .n_rows = {2, 1},
     .parts = {{{256, 0, 301}}, {{5, 100, 33}}}},
    /* a group without rows */
    {.inputs = 4096,
     .outputs = 16,
     .a_stride = 4096,
     .b_stride = 16,
     .n_groups = 2,
     .n_rows = {0, 12},
     .parts = {{{4, 0, 16}}, {{5, 0, 16}}}},
};

/* Adapters of which a product's data take 4 KiB. */
static const struct shape many = {.inputs = 8,
                                  .outputs = 2,
                                  .a_stride = 8,
                                  .b_stride = 2,
                                  .n_groups = MAX_GROUPS,
                                  .n_rows = {1, 1},
                                  .parts = {{{1, 0, 2}}, {{2, 0, 2}}}};

static const struct shape mixture = {
    .inputs = 64,
    .outputs = 96,
    .a_stride = 64,
    .b_stride = 48,
    .experts = 6,
    .n_groups = 2,
    .n_rows = {20, 9},
    .parts = {{{16, 48, 48}, {8, 0, 48}}, {{30, 0, 48}}}};

struct matrices { /* of a part: the host's, and where the device has them */
  float *host[2];
  void *device[2];
};

struct test {
  const struct pair *p;
  const struct shape *shape;
  uint32_t rows[ROWS], adapter_of[ROWS];
  struct matrices matrices[MAX_GROUPS][LLS_MAX_LOW_RANK];
  struct lls_adapted_rows cpu[MAX_GROUPS], cuda[MAX_GROUPS];
};

static void *write_numbers(struct lls_device *d, const float *from, size_t n)
{
  char *out = pair_buffer(d, 1, n);
  size_t number = lls_dtype_bytes(d->activation_type);
  const struct lls_adapter_numbers parts[] = {
      {from, n / 2, out}, {from + n / 2, n - n / 2, out + n / 2 * number}};
  assert_int_equal(d->ops->adapter_write(d, LLS_MEMORY_DEVICE, parts, 2), 0);
  return out;
}

static void make_part(struct test *t, uint32_t g, uint32_t i, const struct part *from)
{
  const struct shape *s = t->shape;
  struct matrices *m = &t->matrices[g][i];
  size_t copies = s->experts > 0 ? s->experts : 1;
  size_t n[] = {copies * from->rank * s->a_stride, copies * from->rank * s->b_stride};
  struct lls_low_rank p = {.rank = from->rank,
                           .a_stride = s->a_stride,
                           .b_stride = s->b_stride,
                           .first_output = from->first,
                           .outputs = from->outputs};
  for (int k = 0; k < 2; k++) {
    m->host[k] = pair_random(t->p, n[k], random_float);
    m->device[k] = write_numbers(t->p->cuda, m->host[k], n[k]);
  }
  p.a = m->host[0];
  p.b = m->host[1];
  t->cpu[g].parts[i] = p;
  p.a = m->device[0];
  p.b = m->device[1];
  t->cuda[g].parts[i] = p;
}

/* Groups of rows that are not in order; the last rows are in none. */
static void open_test(struct test *t, const struct pair *p, const struct shape *s)
{
  uint32_t row = 0;
  *t = (struct test){.p = p, .shape = s};
  for (uint32_t i = 0; i < ROWS; i++)
    t->adapter_of[i] = MAX_GROUPS;
  for (uint32_t g = 0; g < s->n_groups; g++) {
    uint32_t n = 0;
    t->cpu[g].rows = t->rows + row;
    t->cpu[g].scale = g == 0 ? 1 : -0.5F;
    t->cpu[g].n_rows = s->n_rows[g];
    for (uint32_t i = 0; i < s->n_rows[g]; i++, row++) {
      t->rows[row] = row * 5 % ROWS;
      t->adapter_of[row * 5 % ROWS] = g;
    }
    t->cuda[g] = t->cpu[g];
    while (n < LLS_MAX_LOW_RANK && s->parts[g][n].rank > 0) {
      make_part(t, g, n, &s->parts[g][n]);
      n++;
    }
    t->cpu[g].n_parts = t->cuda[g].n_parts = n;
  }
}

static void close_test(struct test *t)
{
  for (uint32_t g = 0; g < t->shape->n_groups; g++)
    for (uint32_t i = 0; i < t->cpu[g].n_parts; i++)
      for (int k = 0; k < 2; k++) {
        free(t->matrices[g][i].host[k]);
        pair_release(t->p->cuda, t->matrices[g][i].device[k]);
      }
}

/* Sums of random signs: an error of the sum's terms, and that of a bf16 result. */
static double absolute_of(const struct shape *s)
{
  return 2e-5 * sqrt((double)s->inputs * 256);
}

/* Does so `times` times, with the same results, in one step. */
static void check_plain(const struct pair *p, const struct shape *s, uint32_t times)
{
  struct test t;
  open_test(&t, p, s);
  size_t n = (size_t)ROWS * s->outputs;
  float *x = pair_random(p, (size_t)ROWS * s->inputs, random_activation);
  float *wanted = pair_random(p, n, random_activation), *got = malloc(n * sizeof *got);
  float *room = malloc(ROWS * 3 * 256 * sizeof *room), *scratch;
  void *x_at = pair_put(p->cuda, x, ROWS, s->inputs), *y_at[2];
  assert_int_equal(p->cuda->ops->alloc(p->cuda, LLS_MEMORY_DEVICE,
                                       ROWS * 3 * 256 * sizeof *room, (void **)&scratch),
                   0);
  for (int i = 0; i < 2; i++)
    y_at[i] = pair_put(p->cuda, wanted, ROWS, s->outputs);
  p->cpu->ops->adapt(p->cpu, t.cpu, s->n_groups, x, s->inputs, room, wanted, s->outputs);
  pair_begin(p->cuda, NULL, ROWS);
  for (uint32_t i = 0; i < times; i++)
    p->cuda->ops->adapt(p->cuda, t.cuda, s->n_groups, x_at, s->inputs, scratch,
                        y_at[i + 1 < times], s->outputs);
  pair_get(p->cuda, y_at[0], n, got);
  pair_end(p->cuda);
  pair_compare(p, "adapt", got, wanted, n, pair_epsilon(p), absolute_of(s));
  pair_release(p->cuda, x_at);
  pair_release(p->cuda, y_at[0]);
  pair_release(p->cuda, y_at[1]);
  pair_release(p->cuda, scratch);
  free(x);
  free(wanted);
  free(got);
  free(room);
  close_test(&t);
}

static void adapt(const struct pair *p)
{
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    check_plain(p, &plain[i], 1);
}

/* The data of 100 products: more than their buffer begins with. */
static void adapt_often(const struct pair *p)
{
  check_plain(p, &many, 100);
}

/* ---- experts ----------------------------------------------------------------------- */

#define ACTIVE 2

static void *words(struct lls_device *d, size_t n)
{
  void *out;
  assert_int_equal(d->ops->alloc(d, LLS_MEMORY_DEVICE, n * sizeof(uint32_t), &out), 0);
  return out;
}

/* Adds the changes of each expert's rows on the CPU, by the device's route. */
static void adapt_on_cpu(const struct test *t, const uint32_t *row, const uint32_t *first,
                         const float *x, float *y)
{
  const struct shape *s = t->shape;
  float *room = malloc(ROWS * ACTIVE * 3 * 256 * sizeof *room);
  for (uint32_t e = 0; e < s->experts; e++)
    for (uint32_t g = 0; g < s->n_groups; g++) {
      uint32_t rows[ROWS * ACTIVE], n = 0;
      struct lls_adapted_rows group = t->cpu[g];
      for (uint32_t i = first[e]; i < first[e + 1]; i++)
        if (row[i] < ROWS && t->adapter_of[row[i]] == g)
          rows[n++] = i;
      for (uint32_t k = 0; k < group.n_parts; k++) {
        struct lls_low_rank *q = &group.parts[k];
        q->a = (const float *)q->a + (size_t)e * q->rank * s->a_stride;
        q->b = (const float *)q->b + (size_t)e * q->rank * s->b_stride;
      }
      group.rows = rows;
      group.n_rows = n;
      t->p->cpu->ops->adapt(t->p->cpu, &group, 1, x, s->inputs, room, y, s->outputs);
    }
  free(room);
}

/* Padding rows have entries, so all buffers have room for them. */
static void check_experts(const struct pair *p, size_t room)
{
  const struct shape *s = &mixture;
  struct lls_device *d = p->cuda;
  struct test t;
  uint32_t padded = ROWS + 8, entries = padded * ACTIVE, row[ROWS * 2 + 16], first[8];
  size_t n = (size_t)entries * s->outputs;
  open_test(&t, p, s);
  float *x = pair_random(p, (size_t)entries * s->inputs, random_activation);
  float *y = pair_random(p, n, random_activation), *got = malloc(n * sizeof *got);
  float *scores = pair_random(p, (size_t)padded * s->experts, random_float), *scratch;
  void *x_at = pair_put(d, x, entries, s->inputs),
       *y_at = pair_put(d, y, entries, s->outputs);
  void *scores_at = pair_put(d, scores, padded, s->experts);
  const struct lls_route route = {.experts = s->experts,
                                  .active = ACTIVE,
                                  .expert = words(d, entries),
                                  .weight = words(d, entries),
                                  .place = words(d, entries),
                                  .row = words(d, entries),
                                  .first = words(d, s->experts + 1)};
  assert_int_equal(
      d->ops->alloc(d, LLS_MEMORY_DEVICE, room * sizeof *scratch, (void **)&scratch), 0);
  pair_begin(d, NULL, ROWS);
  d->ops->route(d, scores_at, ROWS, true, &route);
  d->ops->adapt_experts(d, t.cuda, s->n_groups, &route, ROWS, x_at, s->inputs, scratch,
                        room, y_at, s->outputs);
  pair_get(d, y_at, n, got);
  d->ops->download(d, route.first, first, (s->experts + 1) * sizeof *first);
  d->ops->download(d, route.row, row, first[s->experts] * sizeof *row);
  pair_end(d);
  adapt_on_cpu(&t, row, first, x, y);
  pair_compare(p, "adapt_experts", got, y, n, pair_epsilon(p), absolute_of(s));
  void *const buffers[] = {x_at,         y_at,        scores_at, scratch,    route.expert,
                           route.weight, route.place, route.row, route.first};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    pair_release(d, buffers[i]);
  free(x);
  free(y);
  free(got);
  free(scores);
  close_test(&t);
}

static void adapt_experts(const struct pair *p)
{
  check_experts(p, (size_t)(ROWS + 8) * ACTIVE * 2 * 256);
  check_experts(p, (size_t)2 * 32 * 7); /* seven entries at once */
}

static void test_adapt(void **state)
{
  (void)state;
  each_pair(LLS_F32, MAX_COLUMNS, adapt);
  each_pair(LLS_BF16, MAX_COLUMNS, adapt);
}

static void test_often(void **state)
{
  (void)state;
  each_pair(LLS_F32, MAX_COLUMNS, adapt_often);
}

static void test_experts(void **state)
{
  (void)state;
  each_pair(LLS_F32, MAX_COLUMNS, adapt_experts);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_adapt),
                                     cmocka_unit_test(test_often),
                                     cmocka_unit_test(test_experts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
