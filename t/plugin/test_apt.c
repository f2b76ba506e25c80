/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Apt-Serve's plan after the greedy choice (test_apt_greedy.c): iteration type, forms,
 * demotion, memory.
 */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct bed_options defaults = {
    .scheduler = {"apt", NULL},
    .cache = {"hybrid", NULL},
    .block_tokens = 16,
    .device_units = 100,
    .max_tokens = 1024,
    .max_sequences = 32,
    .max_context = 512,
    .max_requests = 64,
    .audit_every = 1,
};

static struct lls_cache_info info_of(struct bed *bed, const struct lls_live *r)
{
  struct lls_cache_info info = {.size = sizeof info};
  bed->c->info(bed->cache_self, &r->view, &info);
  return info;
}

/* Prompts run as long as their waiting times add up to more than the running
 * requests'. */
static void test_iteration_type(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  submit(&bed, 32, 20);
  expect_plan(&bed, "0:32");
  struct lls_live *late = submit(&bed, 32, 20);
  late->view.arrival_ns = late->view.last_token_ns = bed.now_ns + LLS_NS_PER_S;
  expect_plan(&bed, "0:1"); /* it has not waited yet */
  late->view.last_token_ns = bed.now_ns - LLS_NS_PER_S;
  expect_plan(&bed, "1:32");
  expect_plan(&bed, "0:1 1:1");
  bed_finish(&bed, 100);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  bed_close(&bed);
}

/* If not all fit in KV form, and hidden form costs next to nothing. */
static void test_forms(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("watermark", "0", "rho", "0.000001");
  o.device_units = 30;
  assert_int_equal(bed_open(&bed, &o), 0);
  struct lls_live *a = submit(&bed, 128, 5), *b = submit(&bed, 128, 5);
  bed.now_ns += LLS_NS_PER_S / 10;
  expect_plan(&bed, "0:128 1:128"); /* 16 units each as K and V, 8 hidden */
  assert_int_equal(info_of(&bed, a).form + info_of(&bed, b).form,
                   LLS_FORM_KV + LLS_FORM_HIDDEN);
  bed_finish(&bed, 50);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  bed_close(&bed);
}

/* Hidden form is converted to KV in place as soon as there is memory. */
static void test_upgrade(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters =
      POLICY_PARAMETERS("watermark", "0", "rho", "0.000001", "upgrade", "room");
  o.device_units = 30;
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 128, 3);
  struct lls_live *b = submit(&bed, 128, 30);
  bed.now_ns += LLS_NS_PER_S / 10;
  expect_plan(&bed, "0:128 1:128"); /* 16 and 8 units of 30 */
  assert_int_equal(info_of(&bed, b).form, LLS_FORM_HIDDEN);
  for (int i = 0; i < 4; i++)
    bed_step(&bed);
  assert_int_equal(info_of(&bed, b).form, LLS_FORM_KV);
  assert_int_equal(bed.preempted_recompute, 0);
  bed_finish(&bed, 50);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  bed_close(&bed);
}

/* If hidden form is free all requests use it, whatever memory there is: those in time,
 * those beyond their limit, and one that returns. */
static void test_free_hidden_form_is_taken(void **state)
{
  (void)state;
  static const char *const modes[] = {"separate", "chunked"};
  for (size_t i = 0; i < 2; i++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.scheduler.parameters = POLICY_PARAMETERS("rho", "0", "mode", modes[i]);
    assert_int_equal(bed_open(&bed, &o), 0);
    struct lls_live *late = submit(&bed, 128, 5);
    bed.now_ns += 3 * LLS_NS_PER_S;
    struct lls_live *in_time = submit(&bed, 128, 5);
    bed.now_ns += LLS_NS_PER_S / 10;
    bed_step(&bed);
    assert_int_equal(info_of(&bed, late).form, LLS_FORM_HIDDEN);
    assert_int_equal(info_of(&bed, in_time).form, LLS_FORM_HIDDEN);
    expect_plan(&bed, "0:1 1:1");
    assert_int_equal(info_of(&bed, late).device_units, 9); /* units of 129 tokens */
    bed_finish(&bed, 50);
    assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
    bed_close(&bed);
  }
}

/* A step takes a millisecond, plus hidden_ns for each token in hidden form. */
static int64_t hidden_ns;
static int64_t hidden_costs(void *context, const struct lls_iteration_shape *shape)
{
  (void)context;
  return LLS_NS_PER_S / 1000 + hidden_ns * (int64_t)shape->hidden_tokens;
}

/* 1,600 tokens of X fit, twice as many as of K and V. Up to 625 ns a token a step with
 * all of them takes less than twice as long, so all use hidden form. */
static void test_hidden_form_that_pays(void **state)
{
  (void)state;
  for (hidden_ns = 600; hidden_ns <= 650; hidden_ns += 50) {
    struct bed bed;
    assert_int_equal(bed_open(&bed, &defaults), 0);
    bed.cost.iteration_ns = hidden_costs;
    struct lls_live *r = submit(&bed, 128, 5);
    bed.now_ns += LLS_NS_PER_S / 10;
    expect_plan(&bed, "0:128");
    assert_int_equal(info_of(&bed, r).form,
                     hidden_ns == 600 ? LLS_FORM_HIDDEN : LLS_FORM_KV);
    bed_finish(&bed, 50);
    bed_close(&bed);
  }
}

static void test_hidden_off_is_kv_only(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters =
      POLICY_PARAMETERS("watermark", "0", "rho", "0", "hidden", "off");
  o.device_units = 30;
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 128, 5);
  submit(&bed, 128, 5);
  bed.now_ns += LLS_NS_PER_S / 10;
  expect_plan(&bed, "0:128");
  bed_finish(&bed, 50);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  bed_close(&bed);
}

/* A request that has waited too long gives way to one that can still be in time. */
static void test_demotion(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 20;
  for (int max_wait = 0; max_wait < 2; max_wait++) {
    o.scheduler.parameters = POLICY_PARAMETERS("watermark", "0", "hidden", "off",
                                               "max_wait", max_wait ? "2s" : "0s");
    assert_int_equal(bed_open(&bed, &o), 0);
    submit(&bed, 128, 5);
    bed.now_ns += 3 * LLS_NS_PER_S;
    submit(&bed, 128, 5);
    bed.now_ns += LLS_NS_PER_S / 10;
    expect_plan(&bed, max_wait ? "0:128" : "1:128");
    bed_finish(&bed, 50);
    bed_close(&bed);
  }
}

/* A request that has waited too long is admitted if a fifth of the memory stays free,
 * or alone. */
static void test_violated_reserve(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 20;
  for (int reserve = 0; reserve < 2; reserve++) {
    o.scheduler.parameters =
        POLICY_PARAMETERS("hidden", "off", "violated_reserve", reserve ? "0.2" : "0");
    assert_int_equal(bed_open(&bed, &o), 0);
    submit(&bed, 10, 3); /* 2 units */
    expect_plan(&bed, "0:10");
    submit(&bed, 128, 3); /* 16 units, of 18 that are free */
    bed.now_ns += 3 * LLS_NS_PER_S;
    expect_plan(&bed, reserve ? "0:1" : "1:128");
    bed_finish(&bed, 50);
    assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
    bed_close(&bed);
  }
}

/* ---- who has nothing to lose ------------------------------------------------------- */

/* Fills the memory with one request of `tokens` tokens, then another arrives that does
 * not fit in addition. Is the first one paused for it? */
static bool gives_way(const char *late_share, uint32_t tokens, int64_t first_after_ns,
                      const char *mode)
{
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 30;
  o.scheduler.parameters = POLICY_PARAMETERS("hidden", "off", "late_share", late_share,
                                             "violated_reserve", "0", "mode", mode);
  assert_int_equal(bed_open(&bed, &o), 0);
  struct lls_live *a = submit(&bed, 32, 150);
  bed.now_ns += first_after_ns;
  while (a->view.generated_tokens < tokens)
    bed_step(&bed);
  struct lls_live *b = submit(&bed, 200, 5); /* 26 units */
  b->view.arrival_ns = b->view.last_token_ns = bed.now_ns - LLS_NS_PER_S / 2;
  bed_step(&bed);
  bool gave_way = a->view.state == LLS_WAITING;
  assert_int_equal(gave_way, planned(&bed, bed_number(&bed, b->view.id)) == 200);
  bed_finish(&bed, 600);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  bed_close(&bed);
  return gave_way;
}

/* P99 tolerates one gap in a hundred and one: from the 102nd token on, not before, and
 * not if no gap may be late. */
static void test_who_has_a_gap_to_spare_gives_way(void **state)
{
  (void)state;
  static const char *const modes[] = {"separate", "chunked"};
  for (int i = 0; i < 2; i++) {
    assert_false(gives_way("0.01", 101, 0, modes[i]));
    assert_true(gives_way("0.01", 102, 0, modes[i]));
    assert_false(gives_way("0", 102, 0, modes[i]));
    assert_true(gives_way("0.1", 12, 0, modes[i]));
  }
}

/* A request that has missed its first token's deadline can no longer be in time. */
static void test_who_is_lost_gives_way(void **state)
{
  (void)state;
  assert_true(gives_way("0.01", 3, 2 * LLS_NS_PER_S, "separate"));
  assert_true(gives_way("0.01", 3, 2 * LLS_NS_PER_S, "chunked"));
  assert_false(gives_way("0", 3, 2 * LLS_NS_PER_S, "separate"));
}

/* A pause is used up once: after it a request stays, until its next hundred tokens. */
static void test_a_pause_is_spent_once(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 40;
  o.scheduler.parameters = POLICY_PARAMETERS("hidden", "off", "violated_reserve", "0",
                                             "watermark", "0", "late_share", "0.01");
  assert_int_equal(bed_open(&bed, &o), 0);
  struct lls_live *a = submit(&bed, 32, 300);
  uint32_t pauses[3] = {0, 0, 0}; /* for each hundred tokens */
  while (a->view.generated_tokens < 250 && bed.finished[LLS_FINISH_LENGTH] < 30) {
    bool was_running = a->view.state == LLS_DECODING;
    if (bed.in->waiting.n == 0 && was_running) {
      struct lls_live *b = submit(&bed, 300, 2); /* 38 units */
      b->view.arrival_ns = b->view.last_token_ns = bed.now_ns - LLS_NS_PER_S / 2;
    }
    bed_step(&bed);
    if (was_running && a->view.state == LLS_WAITING) {
      pauses[a->view.generated_tokens / 100]++;
      bed.now_ns += 2 * LLS_NS_PER_S;
    }
  }
  assert_int_equal(pauses[0], 0);
  assert_int_equal(pauses[1], 1);
  assert_true(pauses[2] <= 1);
  bed_close(&bed);
}

/* ---- the bound of a pause ---------------------------------------------------------- */

/* Two answers outgrow the memory while new requests arrive for half a minute: returns
 * the longest time between two of their tokens. */
static int64_t longest_pause(const char *max_stall, const char *mode)
{
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 50;
  o.scheduler.parameters = POLICY_PARAMETERS("hidden", "off", "watermark", "0",
                                             "max_stall", max_stall, "mode", mode);
  assert_int_equal(bed_open(&bed, &o), 0);
  const struct lls_live *two[] = {submit(&bed, 60, 300), submit(&bed, 60, 300)};
  const uint32_t slots[] = {two[0]->view.slot, two[1]->view.slot};
  int64_t last[2] = {0}, longest = 0;
  bool alive[2] = {true, true};
  for (int step = 0; alive[0] || alive[1]; step++) {
    assert_true(step < 3000);
    if (step < 300 && bed.in->waiting.n < 3)
      submit(&bed, 60, 2);
    bed.now_ns += LLS_NS_PER_S / 10;
    bed_step(&bed);
    for (int i = 0; i < 2; i++) {
      alive[i] = alive[i] && bed.by_slot[slots[i]] == two[i];
      if (!alive[i] || two[i]->view.generated_tokens == 0)
        continue;
      if (last[i] > 0 && two[i]->view.last_token_ns - last[i] > longest)
        longest = two[i]->view.last_token_ns - last[i];
      last[i] = two[i]->view.last_token_ns;
    }
  }
  bed_finish(&bed, 200);
  bed_close(&bed);
  return longest;
}

static void test_a_pause_is_bounded(void **state)
{
  (void)state;
  static const char *const modes[] = {"separate", "chunked"};
  for (int i = 0; i < 2; i++) {
    int64_t without = longest_pause("0", modes[i]), with = longest_pause("3s", modes[i]);
    print_message("# %s: longest pause %.1f s, with max_stall = 3 s %.1f s\n", modes[i],
                  (double)without * 1e-9, (double)with * 1e-9);
    assert_true(without > 10 * LLS_NS_PER_S);
    assert_true(with < 5 * LLS_NS_PER_S);
  }
}

/* ---- the paper's text -------------------------------------------------------------- */

/* In a decode iteration a request in hidden form has more value in KV form: it starts
 * again. */
static void test_another_form_is_a_new_start(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 30;
  for (int literal = 0; literal < 2; literal++) {
    o.scheduler.parameters = POLICY_PARAMETERS(
        "watermark", "0", "rho", "0.0001", "upgrade", "never", "decode_mode",
        literal ? "literal" : "incumbent", "violated_reserve", "0", "max_stall", "0");
    assert_int_equal(bed_open(&bed, &o), 0);
    submit(&bed, 128, 4);
    struct lls_live *b = submit(&bed, 128, 8);
    bed.now_ns += LLS_NS_PER_S / 10;
    expect_plan(&bed, "0:128 1:128"); /* one of them in hidden form */
    uint32_t hidden = info_of(&bed, b).form == LLS_FORM_HIDDEN;
    bed_finish(&bed, 50);
    assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
    assert_int_equal(hidden, 1);
    assert_int_equal(bed.preempted_recompute > 0, literal);
    bed_close(&bed);
  }
}

static void test_n_without_the_violated(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  for (int excludes = 0; excludes < 2; excludes++) {
    o.scheduler.parameters =
        POLICY_PARAMETERS("rho", "0.001", "n_excludes_violated", excludes ? "on" : "off");
    assert_int_equal(bed_open(&bed, &o), 0);
    submit(&bed, 32, 5);
    bed.now_ns += 3 * LLS_NS_PER_S;
    submit(&bed, 32, 5);
    bed_step(&bed);
    bed_stats(&bed);
    assert_float_equal(bed_figure(&bed, "n_rho"), excludes ? 0.001 : 0.002, 1e-9);
    bed_finish(&bed, 50);
    bed_close(&bed);
  }
}

/* A prompt longer than a step is cut, and continues before others begin. */
static void test_prompt_longer_than_a_step(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_tokens", "100");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 250, 5);
  submit(&bed, 20, 5);
  bed.now_ns += LLS_NS_PER_S / 10;
  bed_finish(&bed, 50);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  bed_close(&bed);
}

/* Between its pieces those decodes run whose waiting times add up to more than its
 * own. */
static void test_decodes_between_pieces(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_tokens", "100");
  assert_int_equal(bed_open(&bed, &o), 0);
  struct lls_live *a = submit(&bed, 32, 5), *b = submit(&bed, 32, 5);
  expect_plan(&bed, "0:32 1:32");
  struct lls_live *cut = submit(&bed, 250, 5);
  cut->view.last_token_ns = bed.now_ns - LLS_NS_PER_S;
  expect_plan(&bed, "2:100");
  a->view.last_token_ns = b->view.last_token_ns = bed.now_ns - LLS_NS_PER_S;
  cut->view.last_token_ns = bed.now_ns - LLS_NS_PER_S * 3 / 2;
  expect_plan(&bed, "0:1 1:1"); /* 2 s against 1.5 s */
  expect_plan(&bed, "2:100");
  expect_plan(&bed, "2:50");
  bed_finish(&bed, 50);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
  bed_close(&bed);
}

/* Prompts in pieces together with decodes, in one budget. */
static void test_chunked(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("mode", "chunked", "chunk_tokens", "64");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 10, 20);
  expect_plan(&bed, "0:10");
  submit(&bed, 100, 20);
  expect_plan(&bed, "0:1 1:63");
  expect_plan(&bed, "0:1 1:37");
  expect_plan(&bed, "0:1 1:1");
  bed_finish(&bed, 50);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  bed_close(&bed);
}

/* The form depends on the free memory, not on all memory, in which K and V always
 * fit. */
static void test_chunked_lets_hidden_form_in(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("watermark", "0", "rho", "0.001", "mode",
                                             "chunked", "upgrade", "never");
  o.device_units = 30;
  assert_int_equal(bed_open(&bed, &o), 0);
  struct lls_live *a = submit(&bed, 128, 20);
  bed.now_ns += LLS_NS_PER_S / 10;
  expect_plan(&bed, "0:128"); /* 16 units as K and V */
  assert_int_equal(info_of(&bed, a).form, LLS_FORM_KV);
  struct lls_live *b = submit(&bed, 128, 5);
  b->view.arrival_ns = b->view.last_token_ns = bed.now_ns - LLS_NS_PER_S / 10;
  expect_plan(&bed, "0:1 1:128");
  assert_int_equal(info_of(&bed, b).form, LLS_FORM_HIDDEN);
  bed_finish(&bed, 50);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  bed_close(&bed);
}

/* A decode's new form is planned between the choice of prompts and their start: at the
 * start the choice of prompts still stands. */
static void test_chunked_beside_literal_decodes(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters =
      POLICY_PARAMETERS("watermark", "0", "rho", "0.001", "mode", "chunked",
                        "decode_mode", "literal", "upgrade", "never");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 96, 5);
  bed.now_ns += LLS_NS_PER_S / 10;
  expect_plan(&bed, "0:96");
  submit(&bed, 16, 5); /* the denser of both */
  bed.now_ns += LLS_NS_PER_S / 10;
  expect_plan(&bed, "0:1 1:16");
  submit(&bed, 32, 5);
  bed.now_ns += LLS_NS_PER_S / 10;
  expect_plan(&bed, "0:1 1:1 2:32");
  bed_finish(&bed, 50);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
  bed_close(&bed);
}

/* With demotion a request could wait forever. With decay its value grows without bound,
 * so it is served in bounded time: here a request that was late from the start, against
 * new requests that fill the memory. */
static void test_no_starvation_under_decay(void **state)
{
  (void)state;
  uint32_t waited[2];
  for (int decay = 0; decay < 2; decay++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.device_units = 20;
    o.scheduler.parameters = POLICY_PARAMETERS("watermark", "0", "hidden", "off",
                                               "violated", decay ? "decay" : "demote");
    assert_int_equal(bed_open(&bed, &o), 0);
    struct lls_live *old = submit(&bed, 128, 2);
    bed.now_ns += 2 * LLS_NS_PER_S;
    for (waited[decay] = 0;
         old->view.first_scheduled_ns == LLS_NEVER && waited[decay] < 500;
         ++waited[decay]) {
      if (bed.in->waiting.n < 3)
        submit(&bed, 128, 2);
      bed.now_ns += LLS_NS_PER_S / 10;
      bed_step(&bed);
    }
    bed_finish(&bed, 100);
    bed_close(&bed);
  }
  print_message("# steps until it ran: demote %u of at most 500, decay %u\n", waited[0],
                waited[1]);
  assert_true(waited[1] <= 10);
  assert_true(waited[0] == 500);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_iteration_type),
      cmocka_unit_test(test_forms),
      cmocka_unit_test(test_upgrade),
      cmocka_unit_test(test_free_hidden_form_is_taken),
      cmocka_unit_test(test_hidden_form_that_pays),
      cmocka_unit_test(test_hidden_off_is_kv_only),
      cmocka_unit_test(test_demotion),
      cmocka_unit_test(test_violated_reserve),
      cmocka_unit_test(test_who_has_a_gap_to_spare_gives_way),
      cmocka_unit_test(test_who_is_lost_gives_way),
      cmocka_unit_test(test_a_pause_is_spent_once),
      cmocka_unit_test(test_a_pause_is_bounded),
      cmocka_unit_test(test_another_form_is_a_new_start),
      cmocka_unit_test(test_n_without_the_violated),
      cmocka_unit_test(test_prompt_longer_than_a_step),
      cmocka_unit_test(test_decodes_between_pieces),
      cmocka_unit_test(test_chunked),
      cmocka_unit_test(test_chunked_lets_hidden_form_in),
      cmocka_unit_test(test_chunked_beside_literal_decodes),
      cmocka_unit_test(test_no_starvation_under_decay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
