/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multi-head latent attention of the CUDA device against the CPU's: the rows that its
 * products make, in the sizes of DeepSeek-V3 and in odd ones, and attention to latents.
 */
#define PAIR_COLUMNS 32768
#include "t/kernel/pair_attention.h"

/* ---- rows -------------------------------------------------------------------------- */

#define MOST_HEADS 20

struct sizes {
  uint32_t heads, nope, rope, rank, value, n_rows;
};

struct numbers {
  float *q, *kv, *x, *keys, *values, *norm;
};

/* One matrix for each head. */
static struct lls_experts *heads_of(struct lls_device *d, const float *numbers,
                                    uint32_t heads, uint32_t outputs, uint32_t inputs)
{
  struct lls_weight *weights[MOST_HEADS];
  struct lls_experts *out;
  enum lls_weight_format format =
      d->activation_type == LLS_BF16 ? LLS_WEIGHTS_BF16 : LLS_WEIGHTS_F32;
  for (uint32_t i = 0; i < heads; i++) {
    const struct lls_tensor_view view =
        view_of(numbers + (size_t)i * outputs * inputs, outputs, inputs);
    assert_int_equal(d->ops->weight_create(d, &view, NULL, 1, format, &weights[i], NULL),
                     0);
  }
  assert_int_equal(d->ops->experts_create(d, weights, heads, &out, NULL), 0);
  return out;
}

/* rows (n_rows, (heads + 1) (rank + rope)), values (n_rows, heads value) */
static void rows_on(struct lls_device *d, const struct sizes *s, const struct numbers *m,
                    float *rows, float *values)
{
  uint32_t width = s->rank + s->rope, each = s->nope + s->rope, n = s->n_rows;
  uint32_t of_row = (s->heads + 1) * width, padded = n + 8;
  struct lls_latent_shape shape = {.heads = s->heads,
                                   .nope = s->nope,
                                   .rope = s->rope,
                                   .rank = s->rank,
                                   .value = s->value,
                                   .epsilon = 1e-6f};
  const struct lls_tensor_view view = view_of(m->norm, 1, s->rank);
  float *norm;
  assert_int_equal(d->ops->vector_create(d, &view, &norm, NULL), 0);
  struct lls_experts *keys = heads_of(d, m->keys, s->heads, s->rank, s->nope),
                     *of_values = heads_of(d, m->values, s->heads, s->value, s->rank);
  void *q = pair_buffer(d, padded, s->heads * each), *kv = pair_buffer(d, padded, width),
       *x = pair_buffer(d, padded, s->heads * width),
       *to = pair_buffer(d, padded, of_row),
       *y = pair_buffer(d, padded, s->heads * s->value);
  void *const buffers[] = {norm, q, kv, x, to, y};
  shape.norm = norm;
  pair_fill(d, m->q, n, s->heads * each, q);
  pair_fill(d, m->kv, n, width, kv);
  pair_fill(d, m->x, n, s->heads * width, x);
  pair_begin(d, NULL, n);
  d->ops->latent_rows(d, &shape, keys, q, kv, to);
  d->ops->latent_values(d, &shape, of_values, x, y);
  pair_get(d, to, (size_t)n * of_row, rows);
  pair_get(d, y, (size_t)n * s->heads * s->value, values);
  pair_end(d);
  d->ops->experts_destroy(d, keys);
  d->ops->experts_destroy(d, of_values);
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    pair_release(d, buffers[i]);
}

static void check_sizes(const struct pair *p, const struct sizes *s)
{
  uint32_t width = s->rank + s->rope, each = s->nope + s->rope, n = s->n_rows;
  size_t of_rows = (size_t)n * (s->heads + 1) * width;
  size_t of_values = (size_t)n * s->heads * s->value;
  const struct numbers m = {
      .q = pair_random(p, (size_t)n * s->heads * each, random_float),
      .kv = pair_random(p, (size_t)n * width, random_float),
      .x = pair_random(p, (size_t)n * s->heads * width, random_float),
      .keys = pair_random(p, (size_t)s->heads * s->rank * s->nope, random_float),
      .values = pair_random(p, (size_t)s->heads * s->value * s->rank, random_float),
      .norm = pair_random(p, s->rank, random_float),
  };
  float *rows[2], *values[2];
  for (int i = 0; i < 2; i++) {
    rows[i] = malloc(of_rows * sizeof **rows);
    values[i] = malloc(of_values * sizeof **values);
    rows_on(i == 0 ? p->cpu : p->cuda, s, &m, rows[i], values[i]);
  }
  double sum = 1e-6 * s->rank, e = pair_epsilon(p);
  pair_compare(p, "latent rows", rows[1], rows[0], of_rows, 2 * e, sum + 1e-5);
  pair_compare(p, "latent values", values[1], values[0], of_values, e, sum + 1e-5);
  for (int i = 0; i < 2; i++) {
    free(rows[i]);
    free(values[i]);
  }
  free(m.q);
  free(m.kv);
  free(m.x);
  free(m.keys);
  free(m.values);
  free(m.norm);
}

/* DeepSeek-V3's numbers of a head for few and many rows, the tests' small models, and
 * numbers that cannot be read 16 bytes at a time. */
static void latent_rows(const struct pair *p)
{
  static const struct sizes sizes[] = {
      {3, 128, 64, 512, 128, 1}, {2, 128, 64, 512, 128, 5}, {2, 64, 32, 128, 64, 40},
      {4, 12, 8, 16, 20, 6},     {20, 7, 2, 9, 5, 3},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    check_sizes(p, &sizes[i]);
}

/* ---- attention --------------------------------------------------------------------- */

/* Latents of 512 with 64 rotated numbers, and small ones. */
static void latent_attention(const struct pair *p)
{
  static const struct pair_shape shapes[] = {
      {.group = 4, .head_dim = 24, .rank = 16, .rotary = 8},
      {.group = 5, .head_dim = 576, .rank = 512, .rotary = 64},
      {.group = 2, .head_dim = 21, .rank = 15, .rotary = 6},
      {.group = 3, .head_dim = 64, .rank = 48, .rotary = 16, .int8 = true},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    struct pair_shape shape = shapes[i];
    shape.kv_heads = 1;
    shape.block_tokens = 16;
    shape.element = p->numbers;
    pair_batch_mixed(p, &shape);
  }
}

/* With tensor cores: decodes and prompts, of heads whose rows do and do not fill a block.
 */
static void latent_tensor_cores(const struct pair *p)
{
  static const struct pair_shape shapes[] = {
      {.group = 20, .head_dim = 576, .rank = 512, .rotary = 64, .block_tokens = 16},
      {.group = 12, .head_dim = 288, .rank = 256, .rotary = 32, .block_tokens = 31},
      {.group = 25, .head_dim = 320, .rank = 256, .rotary = 64, .block_tokens = 16},
  };
  if (p->numbers == LLS_F32) /* not by tensor cores */
    return;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    struct pair_shape shape = shapes[i];
    shape.kv_heads = 1;
    shape.element = LLS_BF16;
    struct pair_batch *b = pair_batch_open(p, &shape);
    pair_batch_add(b, 70, 1, true);
    pair_batch_add(b, 0, 11, false);
    pair_batch_add(b, 95, 5, false);
    pair_batch_add(b, 33, 1, true);
    pair_batch_check(b);
    pair_batch_close(b);
  }
}

/* A context that is split among blocks, whose parts have different largest scores: of
 * some rows that are one item, and of a row of more heads than a block has. */
static void latent_parts(const struct pair *p)
{
  static const uint32_t groups[] = {20, 72}, rows[] = {3, 1};
  if (p->numbers == LLS_F32)
    return;
  for (int i = 0; i < 2; i++) {
    const struct pair_shape shape = {.kv_heads = 1,
                                     .group = groups[i],
                                     .head_dim = 288,
                                     .rank = 256,
                                     .rotary = 32,
                                     .block_tokens = 16,
                                     .element = LLS_BF16};
    struct pair_batch *b = pair_batch_open(p, &shape);
    b->heads.attention.scale *= 10;
    pair_batch_add(b, 1100, rows[i], true);
    pair_batch_check(b);
    pair_batch_clear(b);
    pair_batch_add(b, 40, 2, false);
    pair_batch_check(b);
    pair_batch_close(b);
  }
}

static void latent_decodes(const struct pair *p)
{
  const struct pair_shape shape = {.kv_heads = 1,
                                   .group = 3,
                                   .head_dim = 288,
                                   .rank = 256,
                                   .rotary = 32,
                                   .block_tokens = 16,
                                   .element = LLS_BF16};
  if (p->numbers == LLS_BF16)
    pair_decode_repeatedly(p, &shape);
}

PAIR_TEST(latent_tensor_cores)
PAIR_TEST(latent_parts)
PAIR_TEST(latent_decodes)
PAIR_TEST(latent_rows)
PAIR_TEST(latent_attention)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_latent_rows),         cmocka_unit_test(test_latent_attention),
      cmocka_unit_test(test_latent_tensor_cores), cmocka_unit_test(test_latent_parts),
      cmocka_unit_test(test_latent_decodes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
