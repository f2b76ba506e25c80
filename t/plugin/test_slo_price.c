/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines and the duration of steps: the cost of chunks includes the cached part of
 * their prompts, with every scheduler that fills steps up to a time
 * (llmserve/policy/room.h), and a deadline that cannot be kept does not slow other
 * requests down.
 */
#include "t/tap.h"

#include "t/plugin/script.h"

#define MS INT64_C(1000000)

static const struct bed_options defaults = {
    .cache = {"paged", NULL},
    .block_tokens = 16,
    .device_units = 4000,
    .max_tokens = 4096,
    .max_sequences = 128,
    .max_context = 2048,
    .max_requests = 128,
    .prefill_ns = MS / 10,
    .audit_every = 1,
};

static const struct harness_policy within_50ms[] = {
    {"worth", POLICY_PARAMETERS("margin", "0")},
    {"accelgen",
     POLICY_PARAMETERS("budget", "model", "margin", "0", "s_pf", "500", "t_pf", "50ms")},
    {"sarathi", POLICY_PARAMETERS("slo", "50ms")},
};

/* ---- prefixes ---------------------------------------------------------------------- */

enum { STEMS = 3, STEM = 960, NEW = 300, COMEBACKS = 7 };

/* A hundred tokens take ten milliseconds, and one more for every hundred before them. */
static int64_t with_context_ns(void *context, const struct lls_iteration_shape *shape)
{
  (void)context;
  int64_t ns = shape->n_decodes * MS / 10;
  for (uint32_t i = 0; i < shape->n_chunks; i++)
    ns += shape->chunks[i].tokens * (MS / 10 + shape->chunks[i].context * MS / 10000);
  return ns;
}

/* Duration of the last step by this estimate. */
static int64_t step_ns(const struct bed *bed, const struct lls_live *const *all,
                       uint32_t n)
{
  struct lls_chunk_shape chunks[STEMS + COMEBACKS];
  struct lls_iteration_shape shape = {.chunks = chunks};
  for (uint32_t i = 0; i < n; i++) {
    uint32_t tokens = planned(bed, i);
    if (tokens == 1)
      shape.n_decodes++;
    else if (tokens > 1)
      chunks[shape.n_chunks++] = (struct lls_chunk_shape){
          .tokens = tokens, .context = all[i]->view.cached_tokens - tokens};
  }
  return with_context_ns(NULL, &shape);
}

/* Prompts return with their whole conversation and more, while streams with a gap
 * deadline run. */
static void agents_come_back(const struct harness_policy *scheduler)
{
  struct bed bed;
  struct bed_options o = defaults;
  const struct lls_live *all[STEMS + COMEBACKS];
  static int32_t tokens[STEMS][STEM + NEW];
  o.scheduler = *scheduler;
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.cost.iteration_ns = with_context_ns;
  bed.next.slo = (struct lls_slo){60000 * MS, 50 * MS, LLS_NEVER, LLS_NEVER};
  for (uint32_t i = 0; i < STEMS; i++) {
    for (uint32_t k = 0; k < STEM + NEW; k++)
      tokens[i][k] = (int32_t)(2 + dice_next(&bed.dice) % (BED_VOCABULARY - 2));
    all[i] = bed_submit(&bed, tokens[i], STEM, 200);
  }
  for (int i = 0; i < 12; i++)
    bed_step(&bed);
  for (uint32_t i = 0; i < COMEBACKS; i++)
    all[STEMS + i] = bed_submit(&bed, tokens[i % STEMS], STEM + NEW - 20 * i, 200);
  int64_t longest = 0;
  for (int i = 0; i < 20; i++) {
    bed_step(&bed);
    int64_t ns = step_ns(&bed, all, STEMS + COMEBACKS);
    longest = ns > longest ? ns : longest;
  }
  if (longest > 50 * MS || longest < 45 * MS)
    fail_msg("%s: a step of %d us for a gap of 50 ms", scheduler->name,
             (int)(longest / 1000));
  for (uint32_t i = 0; i < STEMS + COMEBACKS; i++)
    assert_true(all[i]->view.generated_tokens > 0);
  bed_finish(&bed, 1000);
  bed_close(&bed);
}

static void test_prefixes_are_priced(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof within_50ms / sizeof *within_50ms; i++)
    agents_come_back(&within_50ms[i]);
}

/* ---- deadlines that nothing could keep --------------------------------------------- */

static const struct harness_policy by_deadline[] = {
    {"worth", POLICY_PARAMETERS("margin", "0")},
    {"accelgen",
     POLICY_PARAMETERS("budget", "model", "margin", "0", "s_pf", "500", "t_pf", "50ms")},
    {"accelgen", POLICY_PARAMETERS("s_pf", "500", "t_pf", "50ms")},
    {"bros", NULL},
    {"edf", NULL},
};

enum { CLIENTS = 60 };

/* Returns the steps until all requests have ended, every twelfth of which has this
 * deadline. */
static uint32_t steps_until_done(const struct harness_policy *scheduler,
                                 const struct lls_slo *slo)
{
  struct bed bed;
  struct bed_options o = defaults;
  const struct lls_slo usual = {4000 * MS, 50 * MS, LLS_NEVER, LLS_NEVER};
  o.scheduler = *scheduler;
  o.audit_every = 0;
  assert_int_equal(bed_open(&bed, &o), 0);
  for (uint32_t i = 0; i < CLIENTS; i++) {
    bed.next.slo = i % 12 == 0 ? *slo : usual;
    submit(&bed, 400, 20);
    bed_step(&bed);
  }
  bed_finish(&bed, 2000);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], CLIENTS);
  uint32_t steps = bed.step;
  bed_close(&bed);
  return steps;
}

static void test_absurd_deadlines_bind_nobody(void **state)
{
  (void)state;
  static const struct lls_slo absurd[] = {
      {4000 * MS, 0, LLS_NEVER, LLS_NEVER},         {4000 * MS, 1, LLS_NEVER, LLS_NEVER},
      {4000 * MS, LLS_NEVER, 1, LLS_NEVER},         {1, 50 * MS, LLS_NEVER, LLS_NEVER},
      {LLS_NEVER, LLS_NEVER, LLS_NEVER, 1},         {1, 1, 1, 1},
      {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX},
  };
  const struct lls_slo none = {4000 * MS, 50 * MS, LLS_NEVER, LLS_NEVER};
  for (size_t k = 0; k < sizeof by_deadline / sizeof *by_deadline; k++) {
    uint32_t usual = steps_until_done(&by_deadline[k], &none);
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
      uint32_t steps = steps_until_done(&by_deadline[k], &absurd[i]);
      if (steps > usual + usual / 4)
        fail_msg("%s: %u steps, where it took %u without deadline %d",
                 by_deadline[k].name, steps, usual, (int)i);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_prefixes_are_priced),
      cmocka_unit_test(test_absurd_deadlines_bind_nobody),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
