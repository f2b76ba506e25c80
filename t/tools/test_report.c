/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run small enough to calculate by hand. Times in ms from the beginning:
 *
 *   r0  0 .. 100 (first), 120, 140, 200          4 tokens, tenant 1, realtime, 10 in
 *   r1  50 .. 350                                1 token,  tenant 2, realtime, 20 in
 *   r2  100 .. 200, then the server broke off    1 token,  tenant 1, best effort, 30 in
 *   r3  100, cancelled by the load at 150        no token, tenant 2, best effort, 40 in
 */
#include "t/tools/workload.h"

#include <errno.h>
#include <math.h>

#include "t/folder.h"
#include "tools/report/histogram.h"
#include "tools/report/metrics.h"

#define MS INT64_C(1000000)

static const char trace[] =
    "arrival_s,prompt_tokens,output_tokens,class,tenant,ttft_ms,tbt_ms,completion_ms\n"
    "0,10,4,realtime,1,100,50,250\n"
    "0.04,20,1,realtime,2,200,50,400\n"
    "0.1,30,5,best_effort,1,,,1000\n"
    "0.1,40,5,best_effort,2,,,1000\n";

struct run {
  struct lls_workload workload;
  struct lls_report *report;
};

static void follow(struct lls_report *report, const struct lls_workload *w, int i,
                   int64_t start_ms, int64_t scheduled_ms, const int64_t *tokens_ms,
                   enum lls_outcome_status status, int64_t end_ms)
{
  struct lls_track track;
  lls_report_begin(report, &track, &w->items[i], start_ms * MS);
  track.outcome.first_scheduled_ns = scheduled_ms < 0 ? LLS_NEVER : scheduled_ms * MS;
  for (; *tokens_ms >= 0; tokens_ms++)
    assert_int_equal(lls_report_tokens(report, &track, *tokens_ms * MS, 1), 0);
  if (status == LLS_OUTCOME_FAILED)
    strcpy(track.outcome.error, "connection lost");
  lls_report_end(report, &track, status, end_ms * MS);
}

static void make_run(struct run *run, const struct folder *f,
                     const struct lls_report_options *options)
{
  struct lls_error err = {0};
  char line[256];
  folder_write_text(f, "trace.csv", trace);
  snprintf(line, sizeof line, "--trace %s/trace.csv", f->path);
  run->workload = built(line);
  if (lls_report_create(&run->workload, options, &run->report, &err) != 0)
    fail_msg("%s", err.text);
  const struct lls_workload *w = &run->workload;
  follow(run->report, w, 0, 0, 10, (const int64_t[]){100, 120, 140, 200, -1},
         LLS_OUTCOME_COMPLETED, 200);
  follow(run->report, w, 1, 50, 100, (const int64_t[]){350, -1}, LLS_OUTCOME_COMPLETED,
         350);
  follow(run->report, w, 2, 100, -1, (const int64_t[]){200, -1}, LLS_OUTCOME_FAILED, 210);
  follow(run->report, w, 3, 100, -1, (const int64_t[]){-1}, LLS_OUTCOME_CANCELLED, 150);
}

static void end_run(struct run *run)
{
  lls_report_destroy(run->report);
  lls_workload_free(&run->workload);
}

static void assert_close(double value, double expected)
{
  if (!(fabs(value - expected) <= 1e-9 * fmax(1, fabs(expected))))
    fail_msg("%.17g is not %.17g", value, expected);
}

static void assert_met(const struct lls_met *met, uint32_t met_count, uint32_t n)
{
  assert_int_equal(met->met, met_count);
  assert_int_equal(met->n, n);
}

static void test_counts_and_latencies(void **state)
{
  struct run run;
  make_run(&run, *state, &(struct lls_report_options){0});
  struct lls_metrics m;
  assert_int_equal(lls_report_metrics(run.report, &m), 0);
  assert_int_equal(m.issued, 4);
  assert_int_equal(m.completed, 2);
  assert_int_equal(m.failed, 1);
  assert_int_equal(m.cancelled, 1);
  assert_close(m.duration_s, 0.35);
  assert_int_equal(m.prompt_tokens, 30);
  assert_int_equal(m.output_tokens, 5);
  assert_int_equal(m.max_tokens_per_s, 6);
  assert_int_equal(m.max_concurrent, 4);
  assert_close(m.ttft.mean, 200); /* mean of 100 and 300 */
  assert_close(m.ttft.median, 200);
  assert_close(m.ttft.std, 100);
  assert_close(m.ttft.percentiles[1], 280); /* p90, linear */
  assert_int_equal(m.tpot.n, 1);
  assert_close(m.tpot.mean, 100 / 3.0);
  assert_close(m.e2el.mean, 250);       /* 200 and 300 */
  assert_close(m.normalised.mean, 175); /* 50 and 300 */
  assert_int_equal(m.itl.n, 3);
  assert_close(m.itl.mean, 100 / 3.0);
  assert_close(m.itl.std, sqrt(2 * pow(40 / 3.0, 2) / 3 + pow(80 / 3.0, 2) / 3));
  assert_close(m.itl.max, 60);
  assert_close(m.queueing.mean, 30); /* 10 and 50 */
  assert_close(m.queueing_share, 60 / 500.0);
  assert_close(m.lateness.max, 10);
  end_run(&run);
}

/* Two emissions of several tokens: 40 ms for 4 of them, 30 ms for 1. */
static void test_gaps_by_token(void **state)
{
  for (int untold = 0; untold < 2; untold++) {
    struct run run;
    struct lls_track track;
    struct lls_metrics m;
    make_run(&run, *state, &(struct lls_report_options){.per_token = true});
    lls_report_begin(run.report, &track, &run.workload.items[0], 0);
    lls_report_tokens(run.report, &track, 100 * MS, 1);
    lls_report_tokens(run.report, &track, 140 * MS, 4);
    lls_report_tokens(run.report, &track, 170 * MS, 1);
    track.outcome.untold = untold == 1;
    lls_report_end(run.report, &track, LLS_OUTCOME_COMPLETED, 170 * MS);
    assert_int_equal(lls_report_metrics(run.report, &m), 0);
    assert_int_equal(m.itl.n, 5);
    assert_int_equal(m.itl_per_token.n, untold == 1 ? 0 : 8); /* r0's 20, 20 and 60 too */
    if (untold == 0)
      assert_close(m.itl_per_token.mean, (20 + 20 + 60 + 4 * 10 + 30) / 8.0);
    end_run(&run);
  }
}

static void test_the_tables_lines_are_chosen(void **state)
{
  struct run run;
  struct lls_error err = {0};
  struct lls_report *none;
  static char text[8192];
  make_run(&run, *state, &(struct lls_report_options){.shown = "ttft,itl"});
  FILE *out = fmemopen(text, sizeof text, "w");
  assert_int_equal(lls_report_print(run.report, &(struct lls_report_header){0}, out), 0);
  fclose(out);
  assert_non_null(strstr(text, "Mean TTFT"));
  assert_non_null(strstr(text, "Mean ITL"));
  assert_null(strstr(text, "Mean TPOT"));
  assert_null(strstr(text, "Mean E2EL"));
  assert_int_equal(lls_report_create(&run.workload,
                                     &(struct lls_report_options){.shown = "ttft,speed"},
                                     &none, &err),
                   -EINVAL);
  assert_non_null(strstr(err.text, "--percentile-metrics"));
  end_run(&run);
}

/*
 * A closed loop of 20 over 100 s: one more each second until 20 run, each lasting 20 s,
 * the last sent at 79 s. 19 run from 18 s on, until the last requests end without
 * successors.
 */
static void ramp(struct lls_report *report, const struct lls_workload *w)
{
  struct lls_track track;
  for (int i = 0; i < 80; i++) {
    lls_report_begin(report, &track, &w->items[i], i * 1000 * MS);
    lls_report_tokens(report, &track, (i * 1000 + 500) * MS, 1);
    for (int token = 1; token < 11; token++)
      lls_report_tokens(report, &track, (i * 1000 + 500 + 1950 * token) * MS, 1);
    lls_report_end(report, &track, LLS_OUTCOME_COMPLETED, (i + 20) * 1000 * MS);
  }
}

static void test_the_steady_part_of_a_run(void **state)
{
  (void)state;
  struct lls_workload w = built("--num-prompts 80 --input-len 3 --output-len 11");
  const struct lls_report_options limits[] = {{.max_concurrency = 20}, {0}};
  for (size_t i = 0; i < 2; i++) {
    struct lls_report *report;
    struct lls_error err;
    struct lls_metrics m;
    assert_int_equal(lls_report_create(&w, &limits[i], &report, &err), 0);
    ramp(report, &w);
    assert_int_equal(lls_report_metrics(report, &m), 0);
    /* An open load: 190 + 60 * 20 request seconds in 79 s are 17.6 at a time. */
    assert_close(m.steady.from_s, i == 0 ? 18 : 17);
    assert_close(m.steady.to_s, i == 0 ? 81 : 79);
    assert_int_equal(m.steady.requests, i == 0 ? 62 : 63);
    assert_close(m.steady.mean_ttft_ms, 500);
    assert_close(m.steady.mean_tpot_ms, 1950);
    assert_close(m.steady.request_throughput, i == 0 ? 61 / 63.0 : 59 / 62.0);
    /* the last comes at 79 s; who came up to 59 s has ended by then */
    assert_close(m.classes[LLS_CLASS_NONE].request_throughput, 60 / 79.0);
    assert_close(m.classes[LLS_CLASS_NONE].output_throughput, 660 / 79.0);
    lls_report_destroy(report);
  }
  lls_workload_free(&w);
}

static void test_a_short_run_has_no_steady_part(void **state)
{
  struct run run;
  struct lls_metrics m;
  make_run(&run, *state, &(struct lls_report_options){0});
  assert_int_equal(lls_report_metrics(run.report, &m), 0);
  assert_true(m.steady.to_s == 0);
  end_run(&run);
}

/* Best-effort requests: one failed, one was cancelled; none had ended when the last
 * arrived. */
static void test_classes(void **state)
{
  struct run run;
  struct lls_metrics m;
  make_run(&run, *state, &(struct lls_report_options){0});
  assert_int_equal(lls_report_metrics(run.report, &m), 0);
  const struct lls_class_metrics *rt = &m.classes[LLS_CLASS_REALTIME];
  assert_close(rt->normalised.mean, 175);
  assert_close(rt->ttft.mean, 200);
  assert_int_equal(rt->tpot.n, 1);
  assert_true(rt->request_throughput == 0);
  assert_int_equal(m.classes[LLS_CLASS_BEST_EFFORT].normalised.n, 0);
  end_run(&run);
}

static void test_attainment_is_of_all_issued(void **state)
{
  struct run run;
  make_run(&run, *state, &(struct lls_report_options){0});
  struct lls_metrics m;
  assert_int_equal(lls_report_metrics(run.report, &m), 0);
  const struct lls_attainment *rt = &m.by_class[LLS_CLASS_REALTIME];
  assert_met(&rt->ttft, 1, 2); /* 100 <= 100, 300 > 200 */
  assert_met(&rt->tbt, 1, 2);  /* p99 of 20, 20, 60 is 59.2 > 50; one token passes */
  assert_met(&rt->completion, 2, 2);
  assert_met(&rt->all, 0, 2);
  assert_met(&m.by_class[LLS_CLASS_BEST_EFFORT].all, 0, 1); /* the failed one */
  assert_met(&m.all.all, 0, 3);
  assert_met(&m.all.completion, 2, 3);
  assert_int_equal(rt->deadlines, 5); /* two first tokens, three gaps */
  assert_int_equal(rt->deadlines_met, 3);
  struct lls_attainment tenant = lls_report_tenant(run.report, 1);
  assert_int_equal(tenant.issued, 2); /* r0 and the failed one */
  assert_met(&tenant.ttft, 1, 1);
  tenant = lls_report_tenant(run.report, 2);
  assert_int_equal(tenant.issued, 1);
  assert_met(&tenant.ttft, 0, 1);
  size_t n;
  const struct lls_report_outcome *o = lls_report_outcomes(run.report, &n);
  assert_int_equal(n, 4);
  assert_int_equal(o[0].gap_p99_ns, 59200000);
  end_run(&run);
}

static void test_goodput_takes_the_given_limits(void **state)
{
  struct run run;
  make_run(&run, *state,
           &(struct lls_report_options){.goodput = "ttft:150\ne2el:1000\ntpot:40"});
  struct lls_metrics m;
  assert_int_equal(lls_report_metrics(run.report, &m), 0);
  assert_met(&m.all.all, 1, 3);
  assert_int_equal(m.all.good_tokens, 4);
  end_run(&run);
  make_run(&run, *state, &(struct lls_report_options){.goodput = "tpot:1\nitl_max:59.9"});
  assert_int_equal(lls_report_metrics(run.report, &m), 0);
  assert_met(&m.all.all, 1, 3); /* one token has a TPOT of 0 */
  end_run(&run);
}

/* Until the last arrival (100 ms): r0's prompt and first token, 10 + 2. */
static void test_fairness_is_of_service_while_requests_arrive(void **state)
{
  struct run run;
  make_run(&run, *state, &(struct lls_report_options){0});
  struct lls_metrics m;
  assert_int_equal(lls_report_metrics(run.report, &m), 0);
  assert_close(m.jain_fairness, 0.5);
  assert_close(m.service_difference, 12);
  end_run(&run);
}

static void test_warm_up_is_left_out(void **state)
{
  struct run run;
  make_run(&run, *state, &(struct lls_report_options){.warm_up_ns = 40 * MS});
  struct lls_metrics m;
  assert_int_equal(lls_report_metrics(run.report, &m), 0);
  assert_int_equal(m.issued, 3);
  assert_int_equal(m.itl.n, 0);
  assert_close(m.ttft.mean, 300);
  end_run(&run);
}

static void test_bad_limits_are_refused(void **state)
{
  (void)state;
  struct lls_workload w = built("--num-prompts 1");
  const struct lls_report_options bad[] = {
      {.goodput = "ttft"},     {.goodput = "ttft:x"},
      {.goodput = "colour:3"}, {.goodput = "ttft:1\ntpot:-1"},
      {.percentiles = "99,x"}, {.percentiles = "100"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct lls_report *report;
    struct lls_error err = {0};
    if (lls_report_create(&w, &bad[i], &report, &err) == 0)
      fail_msg("case %zu was taken", i);
    assert_non_null(strstr(err.text, "expected"));
  }
  lls_workload_free(&w);
}

/* ---- the engine -------------------------------------------------------------------- */

static void test_engine_numbers_are_by_time(void **state)
{
  struct run run;
  make_run(&run, *state, &(struct lls_report_options){.memory_units = 100});
  lls_report_step(run.report, &(struct lls_report_step){.begin_ns = 0,
                                                        .duration_ns = 10 * MS,
                                                        .plan_ns = 1000,
                                                        .requests = 4,
                                                        .decodes = 3,
                                                        .prefill_tokens = 7,
                                                        .used_units = 20,
                                                        .filled_units = 10});
  lls_report_step(run.report, &(struct lls_report_step){.begin_ns = 10 * MS,
                                                        .duration_ns = 30 * MS,
                                                        .plan_ns = 3000,
                                                        .requests = 8,
                                                        .decodes = 8,
                                                        .used_units = 60,
                                                        .filled_units = 60});
  lls_report_preemption(run.report, LLS_PREEMPT_SWAP);
  lls_report_bytes(run.report, LLS_COPY_DEVICE_TO_HOST, 4096);
  json_t *json =
      lls_report_json(run.report, &(struct lls_report_header){.tool = "t"}, false);
  json_t *engine = json_object_get(json, "engine");
  assert_close(json_real_value(json_object_get(engine, "mean_batch")), 7);
  assert_close(json_real_value(json_object_get(engine, "mean_batch_by_step")), 6);
  assert_close(json_real_value(json_object_get(engine, "occupancy")), 0.5);
  assert_close(json_real_value(json_object_get(engine, "max_occupancy")), 0.6);
  assert_close(json_real_value(json_object_get(engine, "fragmentation")), 0.05);
  assert_close(json_real_value(json_object_get(engine, "mean_plan_us")), 2);
  assert_close(json_real_value(json_object_get(engine, "plan_share")), 1e-4);
  assert_int_equal(json_integer_value(json_object_get(engine, "preemptions_swap")), 1);
  assert_int_equal(json_integer_value(json_object_get(engine, "bytes_device_to_host")),
                   4096);
  json_decref(json);
  end_run(&run);
}

/* Three iterations, at 10, 110 and 260 ms. The first two requests may take 100 ms to
 * their first token. The gap of 150 ms is too long for the second, which allows 100 ms,
 * but not for the first. The third has no deadlines. */
static void test_a_late_token_makes_its_iteration_late(void **state)
{
  const struct folder *f = *state;
  struct lls_error err = {0};
  struct run run;
  char line[256];
  folder_write_text(f, "deadlines.csv",
                    "arrival_s,prompt_tokens,output_tokens,ttft_ms,tbt_ms\n"
                    "0,8,3,100,200\n0,8,3,100,100\n0,8,3,100,100\n0,8,3,,\n");
  snprintf(line, sizeof line, "--trace %s/deadlines.csv", f->path);
  run.workload = built(line);
  assert_int_equal(lls_report_create(&run.workload, &(struct lls_report_options){0},
                                     &run.report, &err),
                   0);
  struct lls_track tracks[4];
  for (int i = 0; i < 4; i++)
    lls_report_begin(run.report, &tracks[i], &run.workload.items[i], 0);
  for (const int64_t *ms = (const int64_t[]){10, 110, 260, -1}; *ms >= 0; ms++)
    for (int i = 0; i < 4; i++)
      assert_int_equal(lls_report_tokens(run.report, &tracks[i], *ms * MS, 1), 0);
  for (int i = 0; i < 4; i++)
    lls_report_end(run.report, &tracks[i], LLS_OUTCOME_COMPLETED, 260 * MS);
  lls_report_step(run.report, &(struct lls_report_step){.duration_ns = 10 * MS});
  json_t *json =
      lls_report_json(run.report, &(struct lls_report_header){.tool = "t"}, false);
  json_t *engine = json_object_get(json, "engine");
  assert_close(json_real_value(json_object_get(engine, "iterations_in_time")), 2. / 3);
  json_decref(json);
  end_run(&run);
}

/* Expects these values in the bins of a timeline's list. */
static void expect_bins(json_t *timeline, const char *name, size_t n,
                        const double *wanted)
{
  json_t *list = json_object_get(timeline, name);
  assert_int_equal(json_array_size(list), n);
  for (size_t i = 0; i < n; i++)
    assert_close(json_real_value(json_array_get(list, i)), wanted[i]);
}

/* Bins are of 100 ms: a step of 250 ms from 50 ms on is half of one and all of the next
 * two. */
static void test_a_long_step_is_in_all_its_bins(void **state)
{
  struct run run;
  make_run(&run, *state, &(struct lls_report_options){.memory_units = 100});
  lls_report_step(run.report, &(struct lls_report_step){.begin_ns = 50 * MS,
                                                        .duration_ns = 250 * MS,
                                                        .plan_ns = LLS_NEVER,
                                                        .requests = 4,
                                                        .decodes = 3,
                                                        .waiting = 2,
                                                        .prefill_tokens = 500,
                                                        .used_units = 20});
  json_t *json =
      lls_report_json(run.report, &(struct lls_report_header){.tool = "t"}, false);
  json_t *timeline = json_object_get(json, "timeline");
  expect_bins(timeline, "busy", 4, (double[]){0.5, 1, 1, 0});
  expect_bins(timeline, "batch", 4, (double[]){4, 4, 4, 0});
  expect_bins(timeline, "decodes", 4, (double[]){3, 3, 3, 0});
  expect_bins(timeline, "waiting", 4, (double[]){2, 2, 2, 0});
  expect_bins(timeline, "units", 4, (double[]){20, 20, 20, 0});
  expect_bins(timeline, "prefill_tokens_per_s", 4, (double[]){1000, 2000, 2000, 0});
  json_decref(json);
  end_run(&run);
}

/* ---- output ------------------------------------------------------------------------ */

static void test_the_json_has_vllms_keys(void **state)
{
  static const char *const keys[] = {"date",
                                     "endpoint_type",
                                     "backend",
                                     "label",
                                     "model_id",
                                     "tokenizer_id",
                                     "num_prompts",
                                     "request_rate",
                                     "burstiness",
                                     "max_concurrency",
                                     "duration",
                                     "completed",
                                     "failed",
                                     "total_input_tokens",
                                     "total_output_tokens",
                                     "request_throughput",
                                     "request_goodput",
                                     "output_throughput",
                                     "total_token_throughput",
                                     "max_output_tokens_per_s",
                                     "max_concurrent_requests",
                                     "mean_ttft_ms",
                                     "median_ttft_ms",
                                     "std_ttft_ms",
                                     "p99_ttft_ms",
                                     "p95.5_tpot_ms",
                                     "mean_itl_ms",
                                     "p99_e2el_ms",
                                     "input_lens",
                                     "output_lens",
                                     "ttfts",
                                     "itls",
                                     "start_times",
                                     "errors",
                                     "colour"};
  struct run run;
  make_run(&run, *state,
           &(struct lls_report_options){.percentiles = "95.5", .keep_gaps = true});
  const struct lls_report_header header = {.tool = "t",
                                           .date = "d",
                                           .endpoint_type = "e",
                                           .backend = "b",
                                           .label = "l",
                                           .model_id = "m",
                                           .tokenizer_id = "k",
                                           .metadata = "colour=blue",
                                           .request_rate = INFINITY,
                                           .burstiness = 1};
  json_t *json = lls_report_json(run.report, &header, true);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (json_object_get(json, keys[i]) == NULL)
      fail_msg("no %s", keys[i]);
  assert_string_equal(json_string_value(json_object_get(json, "request_rate")), "inf");
  json_t *itls = json_object_get(json, "itls");
  assert_int_equal(json_array_size(json_array_get(itls, 0)), 3);
  assert_close(json_real_value(json_array_get(json_array_get(itls, 0), 2)), 0.06);
  assert_string_equal(
      json_string_value(json_array_get(json_object_get(json, "errors"), 2)),
      "connection lost");
  json_decref(json);
  end_run(&run);
}

static void test_the_table_is_printed(void **state)
{
  struct run run;
  make_run(&run, *state, &(struct lls_report_options){0});
  static char text[16384];
  FILE *out = fmemopen(text, sizeof text, "w");
  const struct lls_report_header header = {.request_rate = NAN};
  assert_int_equal(lls_report_print(run.report, &header, out), 0);
  fclose(out);
  static const char *const lines[] = {
      "============ Serving Benchmark Result ============\n",
      "Successful requests:                     2         \n",
      ("Failed requests:                         1         \n"
       "  connection lost:                       1         \n"),
      "Benchmark duration (s):                  0.35      \n",
      "Request throughput (req/s):              5.71      \n",
      "---------------Time to First Token----------------\n",
      "P99 TTFT (ms):                           298.00    \n",
      "realtime: completion (%):                100.00    \n",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (strstr(text, lines[i]) == NULL)
      fail_msg("no '%s' in\n%s", lines[i], text);
  end_run(&run);
}

static void test_a_result_is_written_whole(void **state)
{
  const struct folder *f = *state;
  struct lls_error err = {0};
  char path[128];
  json_t *json = json_pack("{s:i}", "x", 1);
  snprintf(path, sizeof path, "%s/result.json", f->path);
  assert_int_equal(lls_report_write(json, path, &err), 0);
  json_t *back = json_load_file(path, 0, NULL);
  assert_true(json_equal(json, back));
  assert_true(lls_report_write(json, "/nowhere/result.json", &err) < 0);
  assert_non_null(strstr(err.text, "/nowhere/result.json: cannot be written"));
  json_decref(back);
  json_decref(json);
}

static void test_the_histogram_is_close(void **state)
{
  (void)state;
  static struct lls_report_histogram h;
  for (int64_t i = 1; i <= 100000; i++)
    lls_report_histogram_add(&h, i * 1237);
  for (int p = 1; p <= 100; p++) {
    double value = lls_report_histogram_percentile(&h, p),
           expected = p / 100.0 * 100000 * 1237;
    if (fabs(value / expected - 1) > 1.0 / 64)
      fail_msg("p%d is %g, not %g", p, value, expected);
  }
  assert_close(h.mean, 1237 * 50000.5);
  static struct lls_report_histogram edge;
  lls_report_histogram_add(&edge, INT64_MAX);
  lls_report_histogram_add(&edge, -5);
  assert_close(lls_report_histogram_percentile(&edge, 0), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(test_counts_and_latencies),
      IN_FOLDER(test_gaps_by_token),
      IN_FOLDER(test_the_tables_lines_are_chosen),
      cmocka_unit_test(test_the_steady_part_of_a_run),
      IN_FOLDER(test_a_short_run_has_no_steady_part),
      IN_FOLDER(test_classes),
      IN_FOLDER(test_attainment_is_of_all_issued),
      IN_FOLDER(test_goodput_takes_the_given_limits),
      IN_FOLDER(test_fairness_is_of_service_while_requests_arrive),
      IN_FOLDER(test_warm_up_is_left_out),
      cmocka_unit_test(test_bad_limits_are_refused),
      IN_FOLDER(test_engine_numbers_are_by_time),
      IN_FOLDER(test_a_late_token_makes_its_iteration_late),
      IN_FOLDER(test_a_long_step_is_in_all_its_bins),
      IN_FOLDER(test_the_json_has_vllms_keys),
      IN_FOLDER(test_the_table_is_printed),
      IN_FOLDER(test_a_result_is_written_whole),
      cmocka_unit_test(test_the_histogram_is_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
