/* SPDX-License-Identifier: Apache-2.0 */
/* The workload that options produce from rows: arrivals, selection, classes, SLOs,
 * batches; and the issuer. */
#include "t/tools/workload.h"

#include <math.h>

#include "t/folder.h"
#include "tools/workload/issue.h"

static void assert_near(double value, double expected, double tolerance)
{
  if (!(fabs(value - expected) <= tolerance))
    fail_msg("%g is not %g +- %g", value, expected, tolerance);
}

/* The bytes of a workload as its CSV has them. */
static char *bytes_of(const struct folder *f, const char *line)
{
  struct lls_workload w = built(line);
  struct lls_error err = {0};
  char path[128];
  snprintf(path, sizeof path, "%s/workload.csv", f->path);
  assert_int_equal(lls_workload_write(&w, path, &err), 0);
  lls_workload_free(&w);
  FILE *file = fopen(path, "r");
  char *text = calloc(1, 1 << 20);
  assert_non_null(text);
  assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
  fclose(file);
  return text;
}

#define MANY                                                                             \
  "--dataset-name random --random-range-ratio 0.5 --num-prompts 500 --request-rate 8 "   \
  "--burstiness 0.3 --realtime-share 0.5 --best-effort-share 0.4 --tenants 3 "           \
  "--slo-ttft 1s --slo-ttft-scale 0.5..1.5 --slo-tbt 100ms --slo-tbt-scale 0.5|1|2 "

static void test_same_seed_same_bytes(void **state)
{
  const struct folder *f = *state;
  char *a = bytes_of(f, MANY "--seed 5"), *b = bytes_of(f, MANY "--seed 5");
  char *c = bytes_of(f, MANY "--seed 6");
  assert_string_equal(a, b);
  assert_string_not_equal(a, c);
  free(a);
  free(b);
  free(c);
}

static void test_a_written_workload_reads_back(void **state)
{
  const struct folder *f = *state;
  char again[256];
  char *a = bytes_of(f, MANY);
  snprintf(again, sizeof again, "--trace %s/workload.csv", f->path);
  char *b = bytes_of(f, again);
  assert_string_equal(a, b);
  free(a);
  free(b);
}

static void test_lengths_do_not_move_with_the_rate(void **state)
{
  (void)state;
  struct lls_workload slow = built(MANY "--request-rate 1");
  struct lls_workload fast = built(MANY "--request-rate 100 --burstiness 5");
  for (uint32_t i = 0; i < slow.n_items; i++) {
    assert_int_equal(slow.items[i].prompt_tokens, fast.items[i].prompt_tokens);
    assert_int_equal(slow.items[i].slo.ttft_ns, fast.items[i].slo.ttft_ns);
  }
  lls_workload_free(&slow);
  lls_workload_free(&fast);
}

static double cv_of(const struct lls_workload *w)
{
  double mean = 0, squares = 0;
  int64_t before = 0;
  for (uint32_t i = 0; i < w->n_items; i++) {
    double gap = (double)(w->items[i].arrival_ns - before), d = gap - mean;
    mean += d / (i + 1);
    squares += d * (gap - mean);
    before = w->items[i].arrival_ns;
  }
  return sqrt(squares / w->n_items) / mean;
}

static void test_arrivals(void **state)
{
  (void)state;
  const struct {
    const char *line;
    double cv, tolerance;
  } cases[] = {
      {"--request-rate 10", 1, 0.03},
      {"--request-rate 10 --cv 5", 5, 0.7},
      {"--request-rate 10 --burstiness 4", 0.5, 0.02},
      {"--request-rate 10 --arrivals uniform", 0, 1e-6},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char line[256];
    snprintf(line, sizeof line, "--num-prompts 20000 %s", cases[i].line);
    struct lls_workload w = built(line);
    assert_int_equal(w.last_arrival_ns, 2000 * LLS_NS_PER_S); /* n / rate, exactly */
    assert_near(cv_of(&w), cases[i].cv, cases[i].tolerance);
    lls_workload_free(&w);
  }
  struct lls_workload w = built("--num-prompts 50");
  assert_int_equal(w.last_arrival_ns, 0);
  lls_workload_free(&w);
  w = built("--request-rate 2 --duration 60s");
  assert_true(w.n_items > 100 && w.n_items <= 120);
  assert_true(w.last_arrival_ns < 60 * LLS_NS_PER_S);
  lls_workload_free(&w);
}

static void test_a_ramp_speeds_up(void **state)
{
  (void)state;
  struct lls_workload w = built(
      "--num-prompts 1000 --arrivals uniform --request-rate 1 --ramp-up-strategy linear "
      "--ramp-up-start-rps 1 --ramp-up-end-rps 11");
  double first = (double)(w.items[1].arrival_ns - w.items[0].arrival_ns) / LLS_NS_PER_S;
  double last =
      (double)(w.items[999].arrival_ns - w.items[998].arrival_ns) / LLS_NS_PER_S;
  assert_near(first, 1, 0.02);
  assert_near(last, 1 / 11.0, 0.01);
  lls_workload_free(&w);
}

static void test_trace_times_scale_to_a_rate(void **state)
{
  (void)state;
  struct lls_workload w = from_file("azure.csv", "--arrivals trace --request-rate 3");
  assert_int_equal(w.last_arrival_ns, LLS_NS_PER_S);
  assert_near((double)w.items[1].arrival_ns, 1e9 * 0.5000001 / 1.75, 2);
  lls_workload_free(&w);
  w = from_file("azure.csv", "--time-scale 2");
  assert_int_equal(w.last_arrival_ns, INT64_C(3500000000));
  lls_workload_free(&w);
}

static void test_selection(void **state)
{
  (void)state;
  char line[LINE_MAX_LEN];
  snprintf(line, sizeof line, "--dataset-path %s --num-prompts 10",
           source_path("t/data/traces/lengths.csv"));
  struct lls_workload w = built(line);
  assert_int_equal(w.n_items, 10);
  lls_workload_free(&w);
  strcat(line, " --no-oversample --disable-shuffle --max-input-len 1000");
  w = built(line);
  assert_int_equal(w.n_items, 2);
  assert_int_equal(w.items[0].prompt_tokens, 74);
  lls_workload_free(&w);
  w = from_file("azure.csv", "--num-prompts 2 --output-len 9 --input-lengths fixed:20");
  assert_int_equal(w.n_items, 2);
  assert_int_equal(w.items[1].prompt_tokens, 20);
  assert_int_equal(w.items[1].output_tokens, 9);
  assert_int_equal(w.items[1].max_new_tokens, 16);
  lls_workload_free(&w);
}

static void test_prefixes_are_shared(void **state)
{
  (void)state;
  struct lls_workload w =
      built("--dataset-name prefix_repetition --num-prompts 20 "
            "--prefix-repetition-num-prefixes 1 --prefix-repetition-prefix-len 30 "
            "--prefix-repetition-suffix-len 10");
  int32_t a[40], b[40];
  assert_int_equal(w.items[3].prompt_tokens, 40);
  lls_item_fill(&w, &w.items[3], 5, 5000, a);
  lls_item_fill(&w, &w.items[9], 5, 5000, b);
  assert_memory_equal(a, b, 30 * sizeof *a);
  assert_memory_not_equal(a + 30, b + 30, 10 * sizeof *a);
  for (int i = 0; i < 40; i++)
    assert_true(a[i] >= 5 && a[i] < 5000);
  lls_workload_free(&w);
}

static void test_classes_have_their_shares(void **state)
{
  (void)state;
  struct lls_workload w =
      built("--num-prompts 20000 --realtime-share 0.6 --best-effort-share 0.3 "
            "--best-effort-priority 5 --slo-ttft 400ms --slo-tpot 200ms "
            "--slo-class realtime:ttft=300,tbt=100 best_effort:completion=60000");
  unsigned count[3] = {0};
  for (uint32_t i = 0; i < w.n_items; i++) {
    const struct lls_item *item = &w.items[i];
    const struct lls_slo *slo = &item->slo;
    count[item->request_class]++;
    if (item->request_class == LLS_CLASS_REALTIME)
      assert_true(slo->ttft_ns == 300000000 && slo->tbt_ns == 100000000 &&
                  slo->tpot_ns == 200000000 && slo->completion_ns == LLS_NEVER);
    else if (item->request_class == LLS_CLASS_BEST_EFFORT)
      assert_true(slo->ttft_ns == LLS_NEVER &&
                  slo->completion_ns == INT64_C(60000000000) && item->priority == 5);
    else
      assert_true(slo->ttft_ns == 400000000 && slo->tpot_ns == 200000000);
  }
  assert_near(count[LLS_CLASS_REALTIME], 12000, 5 * sqrt(20000 * 0.24));
  assert_near(count[LLS_CLASS_BEST_EFFORT], 6000, 5 * sqrt(20000 * 0.21));
  lls_workload_free(&w);
}

/* AccelGen: the mean prompt time of the length group, times a scale. */
static void test_deadlines_follow_the_group(void **state)
{
  (void)state;
  struct lls_workload w =
      from_file("own.csv", "--slo-ttft 100ms --slo-ttft-per-token 1ms "
                           "--slo-group-tokens 150 --slo-tbt 10ms "
                           "--slo-tbt-scale 2 --slo-ttft-scale 0.5..0.5");
  assert_int_equal(w.items[0].slo.ttft_ns, 400000001); /* its own */
  assert_int_equal(w.items[1].slo.ttft_ns, LLS_NEVER); /* best effort */
  assert_int_equal(w.items[2].slo.tbt_ns, 20000000);
  lls_workload_free(&w);
  w = from_file("azure.csv",
                "--slo-ttft 100ms --slo-ttft-per-token 1ms --slo-ttft-scale 2");
  assert_int_equal(w.items[0].slo.ttft_ns, 2 * (100 + (374 + 396) / 2) * 1000000);
  assert_int_equal(w.items[2].slo.ttft_ns, 2 * (100 + 879) * 1000000);
  lls_workload_free(&w);
}

static void test_tenants_are_skewed(void **state)
{
  (void)state;
  struct lls_workload w = built("--num-prompts 20000 --tenants 3 --tenant-skew 1");
  unsigned count[4] = {0};
  assert_int_equal(w.n_tenants, 3);
  for (uint32_t i = 0; i < w.n_items; i++)
    count[w.items[i].tenant]++;
  double sum = 1 + 1 / 2.0 + 1 / 3.0;
  assert_int_equal(count[0], 0);
  assert_near(count[1], 20000 / sum, 5 * sqrt(20000 * 0.25));
  assert_near(count[3], 20000 / sum / 3, 5 * sqrt(20000 * 0.15));
  lls_workload_free(&w);
}

static void test_bad_options_are_named(void **state)
{
  (void)state;
  const char *const bad[][2] = {
      {"--request-rate fast", "--request-rate: expected requests per second"},
      {"--request-rate 0", "--request-rate"},
      {"--arrivals trace", "--arrivals trace: the requests have no times"},
      {"--slo-class realtime:ttft=x", "--slo-class: expected"},
      {"--slo-class purple:ttft=1", "--slo-class: expected"},
      {"--slo-ttft-scale 2..1", "--slo-ttft-scale: expected"},
      {"--realtime-share 0.7 --best-effort-share 0.7", "at most 1 together, found 1.4"},
      {"--ramp-up-strategy wild", "--ramp-up-strategy"},
      {"--input-lengths normal:3", "--input-lengths: 'normal:3'"},
      {"--batch-size 4 --batch-input-lengths x", "--batch-input-lengths: 'x'"},
      {"--tokenizer /nowhere", "/nowhere"},
      {"--request-rate 1 --duration 1ns", "no request arrives within --duration"},
      {"--min-len 5000", "no request has a length"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct lls_workload w;
    struct lls_error err;
    if (build(bad[i][0], &w, &err) == 0)
      fail_msg("taken: %s", bad[i][0]);
    if (strstr(err.text, bad[i][1]) == NULL)
      fail_msg("%s: '%s'", bad[i][0], err.text);
  }
}

/* ---- the issuer -------------------------------------------------------------------- */

static void test_open_loop_keeps_to_the_clock(void **state)
{
  (void)state;
  struct lls_workload w = from_file("azure.csv", "");
  struct lls_issuer *issuer;
  int64_t wake;
  assert_int_equal(lls_issuer_create(&w, 0, &issuer), 0);
  assert_ptr_equal(lls_issuer_next(issuer, 0, &wake), &w.items[0]);
  assert_null(lls_issuer_next(issuer, 0, &wake));
  assert_int_equal(wake, 500000100);
  assert_ptr_equal(lls_issuer_next(issuer, 2 * LLS_NS_PER_S, &wake), &w.items[1]);
  assert_ptr_equal(lls_issuer_next(issuer, 2 * LLS_NS_PER_S, &wake), &w.items[2]);
  assert_null(lls_issuer_next(issuer, 2 * LLS_NS_PER_S, &wake));
  assert_int_equal(wake, LLS_NEVER);
  for (int i = 0; i < 3; i++) {
    assert_false(lls_issuer_done(issuer));
    lls_issuer_ended(issuer, &w.items[i], 0);
  }
  assert_true(lls_issuer_done(issuer));
  lls_issuer_destroy(issuer);
  lls_workload_free(&w);
}

static void test_closed_loop_waits_for_ends(void **state)
{
  (void)state;
  struct lls_workload w = built("--num-prompts 5");
  struct lls_issuer *issuer;
  int64_t wake;
  assert_int_equal(lls_issuer_create(&w, 2, &issuer), 0);
  assert_non_null(lls_issuer_next(issuer, 0, &wake));
  assert_non_null(lls_issuer_next(issuer, 0, &wake));
  assert_null(lls_issuer_next(issuer, 99, &wake));
  assert_int_equal(wake, LLS_NEVER);
  lls_issuer_ended(issuer, &w.items[1], 99);
  assert_ptr_equal(lls_issuer_next(issuer, 99, &wake), &w.items[2]);
  lls_issuer_destroy(issuer);
  lls_workload_free(&w);
}

/* BROS: a batch is sent when the previous one has ended, until all other requests have
 * arrived. */
static void test_batches_follow_each_other(void **state)
{
  (void)state;
  struct lls_workload w = from_file("azure.csv", "--batch-size 2 --batch-count 4");
  struct lls_issuer *issuer;
  const struct lls_item *a, *b, *c;
  int64_t wake;
  assert_int_equal(w.n_items, 3 + 8);
  assert_int_equal(lls_issuer_create(&w, 0, &issuer), 0);
  a = lls_issuer_next(issuer, 0, &wake);
  b = lls_issuer_next(issuer, 0, &wake);
  c = lls_issuer_next(issuer, 0, &wake);
  assert_int_equal(a->batch, 1);
  assert_int_equal(b->batch, 1);
  assert_int_equal(a->request_class, LLS_CLASS_BEST_EFFORT);
  assert_int_equal(c->batch, 0);
  lls_issuer_ended(issuer, a, 1);
  assert_null(lls_issuer_next(issuer, 1, &wake)); /* its half is not enough */
  lls_issuer_ended(issuer, b, 1);
  a = lls_issuer_next(issuer, 1, &wake);
  assert_int_equal(a->batch, 2);
  b = lls_issuer_next(issuer, 1, &wake);
  assert_int_equal(lls_issuer_next(issuer, 3 * LLS_NS_PER_S, &wake)->batch, 0);
  assert_int_equal(lls_issuer_next(issuer, 3 * LLS_NS_PER_S, &wake)->batch, 0);
  lls_issuer_ended(issuer, a, 1);
  lls_issuer_ended(issuer, b, 1);
  assert_null(lls_issuer_next(issuer, 3 * LLS_NS_PER_S, &wake)); /* no third */
  for (int i = 0; i < 3; i++)
    lls_issuer_ended(issuer, &w.items[i], 0);
  assert_true(lls_issuer_done(issuer));
  lls_issuer_destroy(issuer);
  lls_workload_free(&w);
}

static void test_batches_by_the_clock(void **state)
{
  (void)state;
  struct lls_workload w = from_file("azure.csv", "--batch-size 2 --batch-period 1s");
  assert_int_equal(w.n_items, 3 + 4); /* at 0 and 1 s; the last arrival is at 1.75 s */
  for (uint32_t i = 0; i < w.n_items; i++)
    assert_int_equal(w.items[i].batch, 0);
  lls_workload_free(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(test_same_seed_same_bytes),
      IN_FOLDER(test_a_written_workload_reads_back),
      cmocka_unit_test(test_lengths_do_not_move_with_the_rate),
      cmocka_unit_test(test_arrivals),
      cmocka_unit_test(test_a_ramp_speeds_up),
      cmocka_unit_test(test_trace_times_scale_to_a_rate),
      cmocka_unit_test(test_selection),
      cmocka_unit_test(test_prefixes_are_shared),
      cmocka_unit_test(test_classes_have_their_shares),
      cmocka_unit_test(test_deadlines_follow_the_group),
      cmocka_unit_test(test_tenants_are_skewed),
      cmocka_unit_test(test_bad_options_are_named),
      cmocka_unit_test(test_open_loop_keeps_to_the_clock),
      cmocka_unit_test(test_closed_loop_waits_for_ends),
      cmocka_unit_test(test_batches_follow_each_other),
      cmocka_unit_test(test_batches_by_the_clock),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
