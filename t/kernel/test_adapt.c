/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Low-rank changes of several groups of rows at every ISA level against sums in double:
 * parts of different ranks and places, shares of larger matrices, rows in any order, rows
 * of no group, which must stay as they are to the bit, and results of a row that do not
 * depend on the other rows.
 *
 * Tolerance: 1e-5 of the sum of the magnitudes.
 */
#include "t/kernel/fixture.h"

#define EPSILON     1e-5
#define ROWS        9
#define INPUTS      75
#define OUTPUTS     1100 /* more than two pieces of columns */
#define A_STRIDE    80
#define B_STRIDE    1200
#define MAX_RANK    21
#define MAX_COLUMNS 4096

static float *random_matrix(size_t n)
{
  float *x = guarded_alloc(n * sizeof *x);
  fill_random(x, n);
  return x;
}

/* Groups: rows 7, 1, 4 with two parts; row 8 with three; row 0 with one of rank 1. */
static const uint32_t rows_of[] = {7, 1, 4, 8, 0};
static const struct lls_adapted_rows shapes[] = {
    {.n_parts = 2,
     .scale = 1,
     .n_rows = 3,
     .rows = rows_of,
     .parts = {{.rank = MAX_RANK, .first_output = 0, .outputs = 520},
               {.rank = 4, .first_output = 700, .outputs = 400}}},
    {.n_parts = 3,
     .scale = -0.5F,
     .n_rows = 1,
     .rows = rows_of + 3,
     .parts = {{.rank = 8, .first_output = 0, .outputs = 3},
               {.rank = 16, .first_output = 3, .outputs = 1000},
               {.rank = 5, .first_output = 1003, .outputs = 97}}},
    {.n_parts = 1,
     .scale = 2,
     .n_rows = 1,
     .rows = rows_of + 4,
     .parts = {{.rank = 1, .first_output = 1099, .outputs = 1}}},
};
#define N_GROUPS (sizeof shapes / sizeof *shapes)

static void check_part(const struct lls_device *d, const struct lls_low_rank *p,
                       double scale, const float *x, const float *before, const float *y)
{
  for (uint32_t o = 0; o < p->outputs; o++) {
    double wanted = (double)before[p->first_output + o], size = fabs(wanted);
    for (uint32_t k = 0; k < p->rank; k++) {
      double t = 0, magnitude = 0,
             b = scale * (double)((const float *)p->b)[(size_t)k * B_STRIDE + o];
      for (uint32_t i = 0; i < INPUTS; i++) {
        double product =
            (double)x[i] * (double)((const float *)p->a)[(size_t)k * A_STRIDE + i];
        t += product;
        magnitude += fabs(product);
      }
      wanted += t * b;
      size += magnitude * fabs(b);
    }
    assert_near(d, "adapt", o, (double)y[p->first_output + o], wanted, EPSILON * size);
  }
}

/* Makes each part a share of a matrix of its own. */
static void make_groups(struct lls_adapted_rows groups[N_GROUPS])
{
  memcpy(groups, shapes, sizeof shapes);
  for (size_t g = 0; g < N_GROUPS; g++)
    for (uint32_t i = 0; i < groups[g].n_parts; i++) {
      struct lls_low_rank *p = &groups[g].parts[i];
      p->a_stride = A_STRIDE;
      p->b_stride = B_STRIDE;
      p->a = random_matrix((p->rank - 1) * (size_t)A_STRIDE + INPUTS);
      p->b = random_matrix((p->rank - 1) * (size_t)B_STRIDE + p->outputs);
    }
}

static void free_groups(struct lls_adapted_rows groups[N_GROUPS])
{
  for (size_t g = 0; g < N_GROUPS; g++)
    for (uint32_t i = 0; i < groups[g].n_parts; i++) {
      guarded_free((void *)(uintptr_t)groups[g].parts[i].a);
      guarded_free((void *)(uintptr_t)groups[g].parts[i].b);
    }
}

static void check_groups(const struct lls_device *d,
                         const struct lls_adapted_rows groups[N_GROUPS], const float *x,
                         const float *before, const float *y)
{
  bool changed[ROWS] = {false};
  for (size_t g = 0; g < N_GROUPS; g++)
    for (uint32_t r = 0; r < groups[g].n_rows; r++) {
      size_t row = groups[g].rows[r];
      changed[row] = true;
      for (uint32_t i = 0; i < groups[g].n_parts; i++)
        check_part(d, &groups[g].parts[i], (double)groups[g].scale, x + row * INPUTS,
                   before + row * OUTPUTS, y + row * OUTPUTS);
    }
  for (size_t row = 0; row < ROWS; row++)
    if (!changed[row])
      assert_memory_equal(y + row * OUTPUTS, before + row * OUTPUTS, OUTPUTS * sizeof *y);
}

/* Computes one row alone, and compares it with what it was among others. */
static void check_alone(struct lls_device *d, const struct lls_adapted_rows *group,
                        const float *x, const float *before, const float *y, float *t)
{
  struct lls_adapted_rows alone = *group;
  float *again = guarded_alloc(ROWS * OUTPUTS * sizeof *again);
  uint32_t row = group->rows[1];
  memcpy(again, before, ROWS * OUTPUTS * sizeof *again);
  alone.rows = &row;
  alone.n_rows = 1;
  d->ops->adapt(d, &alone, 1, x, INPUTS, t, again, OUTPUTS);
  assert_memory_equal(again + row * OUTPUTS, y + row * OUTPUTS, OUTPUTS * sizeof *y);
  guarded_free(again);
}

static void adapt(struct lls_device *device)
{
  struct lls_adapted_rows groups[N_GROUPS];
  float *x = random_matrix(ROWS * INPUTS), *before = random_matrix(ROWS * OUTPUTS);
  float *y = guarded_alloc(ROWS * OUTPUTS * sizeof *y);
  float *t = guarded_alloc((3 * (MAX_RANK + 4) + 29 + 1) * sizeof *t);
  make_groups(groups);
  memcpy(y, before, ROWS * OUTPUTS * sizeof *y);
  device->ops->adapt(device, groups, N_GROUPS, x, INPUTS, t, y, OUTPUTS);
  check_groups(device, groups, x, before, y);
  check_alone(device, &groups[0], x, before, y, t);
  free_groups(groups);
  guarded_free(x);
  guarded_free(before);
  guarded_free(y);
  guarded_free(t);
}

static void test_adapt(void **state)
{
  (void)state;
  each_level(1, ROWS, MAX_COLUMNS, adapt);
  each_level(3, ROWS, MAX_COLUMNS, adapt);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_adapt)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
