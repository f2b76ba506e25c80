/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of latent attention: no token that a row leaves out has a larger score, in
 * double, than one that it chooses; of equal tokens the first ones are chosen; and
 * attention to chosen tokens has the bits of attention to a sequence of these alone.
 */
#include "t/kernel/attention_int8.h"

#define INDEX_HEADS 5
#define INDEX_DIM   16
#define HEAD_DIM    40
#define HEADS       3

struct indexed {
  struct batch b;
  struct lls_index_shape index;
  float *q, *weights; /* (rows of all sequences, ...) */
  uint32_t *tokens;   /* (rows, chosen) */
  float *out;         /* (rows, heads head_dim) */
};

static void open_indexed(struct indexed *x, struct lls_device *device, uint32_t chosen,
                         bool bf16, bool int8, uint32_t block_tokens)
{
  const struct shape shape = {
      .kv_heads = 1,
      .group = HEADS,
      .head_dim = HEAD_DIM,
      .block_tokens = block_tokens,
      .element = bf16 ? LLS_BF16 : LLS_F32,
      .int8 = int8,
      .latent = true,
  };
  *x = (struct indexed){.index = {INDEX_HEADS, INDEX_DIM, chosen}};
  open_batch(&x->b, device, &shape, 2000);
  x->q = malloc(sizeof(float) * MAX_ROWS * INDEX_HEADS * INDEX_DIM);
  x->weights = malloc(sizeof(float) * MAX_ROWS * INDEX_HEADS);
  x->tokens = guarded_alloc(sizeof(uint32_t) * MAX_ROWS * chosen);
  x->out = malloc(sizeof(float) * MAX_ROWS * x->b.out_columns);
  fill_random(x->q, MAX_ROWS * INDEX_HEADS * INDEX_DIM);
  fill_random(x->weights, MAX_ROWS * INDEX_HEADS);
}

static void close_indexed(struct indexed *x)
{
  close_batch(&x->b);
  free(x->q);
  free(x->weights);
  free(x->out);
  guarded_free(x->tokens);
}

/* Caches the rows of all sequences behind their contexts, chooses and attends. */
static void run_indexed(struct indexed *x)
{
  struct batch *b = &x->b;
  struct lls_step_sequence sequences[MAX_SEQUENCES];
  struct lls_attention_shape attention = b->attention;
  uint32_t row_sequence[MAX_ROWS], rows = 0;
  float *qkv = malloc(sizeof(float) * MAX_ROWS * b->columns);
  write_contexts(b);
  if (b->shape.int8)
    quantise_contexts(b);
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    const struct sequence *s = &b->sequences[i];
    sequences[i] = (struct lls_step_sequence){
        .kv = s->list, .first_row = rows, .n_rows = s->n_rows, .context = s->context};
    memcpy(qkv + rows * b->columns, s->qkv + s->context * b->columns,
           sizeof(float) * s->n_rows * b->columns);
    for (uint32_t r = 0; r < s->n_rows; r++)
      row_sequence[rows++] = i;
  }
  const struct lls_device_ops *ops = b->device->ops;
  const struct lls_device_step step = {.n_rows = rows,
                                       .n_sequences = b->n_sequences,
                                       .sequence = row_sequence,
                                       .sequences = sequences};
  assert_int_equal(ops->step_begin(b->device, b->pool, &step), 0);
  ops->cache_write(b->device, &attention, LAYER, qkv);
  ops->choose(b->device, &attention, &x->index, LAYER, x->q, x->weights, x->tokens);
  attention.chosen = x->tokens;
  attention.n_chosen = x->index.chosen;
  ops->attention(b->device, &attention, LAYER, qkv, x->out);
  assert_int_equal(ops->step_end(b->device, NULL), 0);
  free(qkv);
}

static const float *key_of(const struct batch *b, const struct sequence *s, uint32_t t)
{
  return s->qkv + t * b->columns + HEADS * HEAD_DIM;
}

static double score_of(const struct indexed *x, const struct sequence *s, uint32_t row,
                       uint32_t token)
{
  const float *key = key_of(&x->b, s, token) + HEAD_DIM - INDEX_DIM;
  double sum = 0;
  for (uint32_t h = 0; h < INDEX_HEADS; h++) {
    const float *q = x->q + (row * INDEX_HEADS + h) * INDEX_DIM;
    double dot = 0;
    for (uint32_t d = 0; d < INDEX_DIM; d++)
      dot += (double)q[d] * (s->int8[token] ? key[d] : cached(&x->b, false, key[d]));
    sum += fmax(dot, 0) * (double)x->weights[row * INDEX_HEADS + h];
  }
  return sum;
}

static void check_choice(const struct indexed *x, const struct sequence *s, uint32_t row,
                         uint32_t position)
{
  const uint32_t *tokens = x->tokens + row * x->index.chosen;
  double least = INFINITY, most = -INFINITY;
  for (uint32_t t = 0, i = 0; t <= position; t++) {
    bool taken = i < x->index.chosen && tokens[i] == t;
    double score = score_of(x, s, row, t);
    i += taken;
    if (taken)
      least = fmin(least, score);
    else
      most = fmax(most, score);
    if (t == position) /* they ascend, and the row sees all of them */
      assert_int_equal(i, x->index.chosen);
  }
  if (least < most - 1e-3)
    fail_msg("row %u chose a score of %g, and left out %g", row, least, most);
}

/* A sequence of the chosen tokens alone, whose last row has the query. */
static void check_bits(const struct indexed *x, const struct sequence *s, uint32_t row,
                       uint32_t position)
{
  const uint32_t *tokens = x->tokens + row * x->index.chosen;
  uint32_t n = x->index.chosen;
  struct batch alone;
  float out[HEADS * HEAD_DIM];
  open_batch(&alone, x->b.device, &x->b.shape, 200);
  add_sequence(&alone, n - 1, 1, false);
  float *qkv = alone.sequences[0].qkv;
  for (uint32_t i = 0; i < n; i++)
    memcpy(qkv + i * alone.columns + HEADS * HEAD_DIM, key_of(&x->b, s, tokens[i]),
           sizeof(float) * HEAD_DIM);
  memcpy(qkv + (n - 1) * alone.columns, s->qkv + position * x->b.columns,
         sizeof(float) * HEADS * HEAD_DIM);
  write_contexts(&alone);
  run_all(&alone, out);
  assert_memory_equal(out, x->out + row * x->b.out_columns, sizeof out);
  close_batch(&alone);
}

static void choices(struct lls_device *device)
{
  static const uint32_t chosen[] = {1, 8, 20, 70};
  for (size_t i = 0; i < 3 * sizeof chosen / sizeof *chosen; i++) {
    struct indexed x;
    open_indexed(&x, device, chosen[i / 3], i % 3 == 1, i % 3 == 2, i % 4 ? 16 : 5);
    add_sequence(&x.b, 300, 1, false);
    add_sequence(&x.b, 0, 90, true);
    add_sequence(&x.b, random_between(10, 80), 20, false);
    run_indexed(&x);
    for (uint32_t s = 0, row = 0; s < x.b.n_sequences; s++)
      for (uint32_t r = 0; r < x.b.sequences[s].n_rows; r++, row++) {
        uint32_t position = x.b.sequences[s].context + r;
        if (position < x.index.chosen)
          continue;
        check_choice(&x, &x.b.sequences[s], row, position);
        if (r % 7 == 0 && i % 3 != 2) /* blocks of its own have steps of their own */
          check_bits(&x, &x.b.sequences[s], row, position);
      }
    close_indexed(&x);
  }
}

static void test_choices(void **state)
{
  (void)state;
  each_level(2, MAX_ROWS, 4096, choices);
}

/* All scores are 0. */
static void equals(struct lls_device *device)
{
  struct indexed x;
  open_indexed(&x, device, 30, false, false, 16);
  add_sequence(&x.b, 200, 1, false);
  memset(x.weights, 0, sizeof(float) * INDEX_HEADS);
  run_indexed(&x);
  for (uint32_t i = 0; i < 30; i++)
    assert_int_equal(x.tokens[i], i);
  close_indexed(&x);
}

static void test_equals(void **state)
{
  (void)state;
  each_level(1, MAX_ROWS, 4096, equals);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_choices),
      cmocka_unit_test(test_equals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
