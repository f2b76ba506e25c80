/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that attend to X directly (absorb.c): which rows do, and that their logits equal
 * the reference's in f32 and in bf16, mixed with sequences in KV form, dropped, and
 * changing form.
 */
#include "core/engine/engine_internal.h"
#include "t/rules.h"

static const struct drive_options f32 = {.weights = LLS_WEIGHTS_F32,
                                         .cache_element = LLS_F32};

/* Runs a sequence in hidden form alone: `rows` tokens after `context` cached ones. */
static void step(struct drive_model *m, struct sequence *s, struct units *units,
                 uint32_t rows)
{
  const struct reference_prompt *p = &m->reference->prompts[0];
  struct lls_engine_result result;
  struct lls_error err = {0};
  sequence_grow(s, units, s->cached + rows, m->engine->pool_shape.block_tokens);
  struct lls_engine_sequence sequence = {.tokens = p->tokens + s->cached,
                                         .n_tokens = rows,
                                         .context = s->cached,
                                         .table = &s->table,
                                         .sampling = &drive_greedy};
  const struct lls_engine_batch batch = {.n_sequences = 1, .sequences = &sequence};
  int rc = lls_engine_submit(m->engine, &batch, &err);
  if (rc == 0)
    rc = lls_engine_wait(m->engine, &result, &err);
  if (rc != 0)
    fail_msg("%s", lls_error_text(&err, rc));
  s->cached += rows;
}

/* Is a chunk of `rows` tokens absorbed, in a sequence that began with four tokens? */
static bool absorbed(const char *model, const struct drive_options *o, uint32_t rows)
{
  struct drive_model m = {0};
  struct units units;
  struct sequence s;
  drive_open(&m, model, o);
  units_init(&units, m.engine->pool_shape.device_units,
             lls_form_units(&m.engine->pool_shape, LLS_FORM_KV));
  sequence_init(&s);
  s.hidden = true;
  step(&m, &s, &units, 4);
  step(&m, &s, &units, rows);
  bool yes = m.engine->sequences[0].absorbed;
  assert_int_equal(yes, m.engine->sequences[0].n_restored == 0);
  assert_int_equal(yes, m.engine->scratch_used == 0);
  drive_close(&m);
  return yes;
}

/* The model's heads have 16 dims. */
static void test_fewer_rows_than_head_dim(void **state)
{
  (void)state;
  struct drive_options two = f32;
  two.ranks = 2;
  assert_true(absorbed("opt", &f32, 1));
  assert_true(absorbed("opt", &f32, 15));
  assert_true(absorbed("opt", &two, 1));
  assert_false(absorbed("opt", &f32, 16));
}

/* Models with rotated K, or with weights in codes, still restore K and V. */
static void test_others_restore(void **state)
{
  (void)state;
  const struct drive_options int8 = {.weights = LLS_WEIGHTS_INT8,
                                     .cache_element = LLS_F32};
  assert_false(absorbed("neox", &f32, 1));
  assert_false(absorbed("opt", &int8, 1));
}

/* Prompts without scratch are absorbed whatever their length. */
static void test_without_scratch(void **state)
{
  static const struct rule_case cases[] = {
      {"absorbed, whole prompts", {.chunk = WHOLE, .hidden = true}},
      {"absorbed, chunks of 17, dropped",
       {.chunk = 17, .stagger = 2, .preempt = 5, .hidden = true, .convert = 9}},
  };
  struct drive_options o = f32;
  o.threads = 3;
  struct drive_model m = {0};
  drive_open(&m, *state, &o);
  m.engine->pool_shape.scratch_blocks = 0;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    print_message("# %s, %s: worst error of a logit %.2g\n", (const char *)*state,
                  cases[i].what, rule_check(&m, *state, &cases[i]));
  drive_close(&m);
}

/* Ranks with a share of X each sum up scores; a step has more rows than are absorbed at
 * a time, and sequences in KV form. */
static void test_ranks(void **state)
{
  static const struct rule_case cases[] = {
      {"absorbed by ranks, one by one", {.chunk = 1, .hidden = true}},
      {"absorbed by ranks, chunks of 13, mixed, dropped",
       {.chunk = 13, .stagger = 2, .preempt = 5, .hidden = true, .convert = 9}},
  };
  struct drive_options o = f32;
  for (o.ranks = 2; o.ranks <= 4; o.ranks += 2) {
    o.threads = o.ranks == 2 ? 2 : 1;
    struct drive_model m = {0};
    drive_open(&m, *state, &o);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
      print_message("# %u ranks, %s: worst error of a logit %.2g\n", o.ranks,
                    cases[i].what, rule_check(&m, *state, &cases[i]));
    drive_close(&m);
  }
}

/* Weights and X in bf16. */
static void test_bf16(void **state)
{
  static const struct drive_rule rules[] = {
      {.chunk = 1, .hidden = true},
      {.chunk = 13, .stagger = 3, .preempt = 7, .hidden = true, .convert = 9},
  };
  const struct drive_options o = {.weights = LLS_WEIGHTS_BF16, .cache_element = LLS_BF16};
  struct drive_model m = {0};
  drive_open(&m, *state, &o);
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    assert_true(drive_run(&m, &rules[i]).worst_relative <= 2e-2);
  drive_close(&m);
}

int main(void)
{
  /* opt-350m has its norms after the layers */
  static char opt[] = "opt", late[] = "opt-350m-like";
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fewer_rows_than_head_dim),
      cmocka_unit_test(test_others_restore),
      {"without scratch", test_without_scratch, NULL, NULL, opt},
      {"without scratch, normed late", test_without_scratch, NULL, NULL, late},
      {"ranks", test_ranks, NULL, NULL, opt},
      {"bf16", test_bf16, NULL, NULL, opt},
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
