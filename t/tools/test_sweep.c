/* SPDX-License-Identifier: Apache-2.0 */
/* Grids, repeats, resuming, the search for a rate, and the plot, with a fake run whose
 * attainment is a known function of its options. */
#include "t/tap.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>

#include "t/folder.h"
#include "tools/report/report.h"
#include "tools/sweep/grid.h"
#include "tools/sweep/made_by.h"
#include "tools/sweep/plot_data.h"
#include "tools/sweep/results.h"

#define KNEE 7.3 /* the highest rate that keeps the attainment */

struct bench {
  struct lls_workload_options workload;
  struct lls_sweep_options sweep;
  struct lls_bound_options bound[2];
  struct lls_runner runner;
  const struct folder *folder;
  const char *plugin; /* build of the swept plugin; NULL: "old" */
};

static json_t *quantiles_of(double rate)
{
  json_t *list = json_array();
  for (int i = 0; i <= 100; i++)
    json_array_append_new(list, json_real(rate * i));
  return list;
}

static json_t *made_by(void *context, struct lls_error *err)
{
  const struct bench *b = context;
  json_t *out = lls_made_by("test_sweep", b->bound, 1, err);
  json_object_set_new(out, "plugin", json_string(b->plugin != NULL ? b->plugin : "old"));
  return out;
}

/* The number of tenants multiplies the knee, and seeds 5 to 7 shift it. */
static double attained(const struct bench *b, double rate)
{
  double tenants = b->workload.tenants > 1 ? (double)b->workload.tenants : 1;
  double moved = b->workload.seed > 0 ? 0.3 * ((double)b->workload.seed - 6) : 0;
  return rate <= tenants * (KNEE + moved) ? 1.0 : 0.5;
}

static int run(void *context, const char *path, json_t *made, struct lls_error *err)
{
  struct bench *b = context;
  double rate = atof(b->workload.request_rate);
  if (b->workload.num_prompts == 13)
    return lls_fail(err, -EIO, "13 is not run");
  double seed = (double)b->workload.seed;
  json_t *list = quantiles_of(rate * (1 + seed));
  json_t *result =
      json_pack("{s:O, s:f, s:f, s:f, s:{s:f}, s:{s:O, s:O}}", "made_by", made,
                "request_rate", rate + 0.001 * seed, "request_throughput", rate + seed,
                "mean_normalised_latency_ms", 10 * rate, "slo_attainment", "all",
                attained(b, rate), "quantiles", "ttft_ms", list, "tpot_ms", list);
  json_object_update_new(
      result, json_pack("{s:s, s:{s:s}, s:s, s:i, s:{s:[ff]}}", "model_id", "opt-0",
                        "machine", "device", "simulated", "workload", "made up",
                        "num_prompts", 7, "slos", "ttft_ms", 500.0, 1000.0));
  int rc = lls_report_write(result, path, err);
  json_decref(result);
  json_decref(list);
  return rc;
}

static void open_bench(struct bench *b, const struct folder *folder, int argc,
                       char *const *argv)
{
  struct lls_error err = {0};
  *b = (struct bench){.folder = folder};
  b->bound[0] = (struct lls_bound_options){&lls_workload_option_group, &b->workload};
  b->bound[1] = (struct lls_bound_options){&lls_sweep_option_group, &b->sweep};
  b->runner = (struct lls_runner){.made_by = made_by,
                                  .run = run,
                                  .context = b,
                                  .bound = b->bound,
                                  .n = 2,
                                  .quiet = true};
  assert_int_equal(lls_options_default(b->bound, 2, &err), 0);
  if (lls_options_parse(b->bound, 2, argc, argv, &err) != 0)
    fail_msg("%s", err.text);
  assert_int_equal(lls_option_set(b->bound, 2, "result-dir", folder->path, &err), 0);
}

#define OPEN(b, ...)                                                                     \
  open_bench(b, *state, sizeof((char *[]){"t", __VA_ARGS__}) / sizeof(char *),           \
             (char *[]){"t", __VA_ARGS__})

static void close_bench(struct bench *b)
{
  lls_options_release(b->bound, 2);
}

/* Runs a sweep; `text` gets its output. */
static int sweep(struct bench *b, char *text, size_t size, struct lls_error *err)
{
  FILE *out = fmemopen(text, size, "w");
  *err = (struct lls_error){0};
  int rc = lls_sweep(&b->sweep, &b->runner, out, err);
  fclose(out);
  return rc;
}

static bool exists(const struct bench *b, const char *name)
{
  char path[256];
  snprintf(path, sizeof path, "%s/%s.json", b->folder->path, name);
  return access(path, F_OK) == 0;
}

/* The same without stderr, for runs that fail. */
static int silently(struct bench *b, char *text, size_t size, struct lls_error *err)
{
  int stderr_before = dup(STDERR_FILENO);
  assert_non_null(freopen("/dev/null", "w", stderr));
  int rc = sweep(b, text, size, err);
  dup2(stderr_before, STDERR_FILENO);
  close(stderr_before);
  return rc;
}

/* Puts a number that no run produces into a result, to detect whether the result is
 * shown again. */
static void mark(const struct bench *b, const char *name)
{
  char path[256];
  struct lls_error err;
  snprintf(path, sizeof path, "%s/%s.json", b->folder->path, name);
  json_t *result = lls_result_read(path, &err);
  json_object_set_new(result, "request_throughput", json_real(4321));
  assert_int_equal(lls_report_write(result, path, &err), 0);
  json_decref(result);
}

static int add(struct lls_grid *grid, const char *text)
{
  struct lls_error err;
  return lls_grid_add(grid, text, strlen(text), &err);
}

/* Writes every value of an axis, each followed by a space. */
static const char *values_of(const char *text, char *buffer, size_t size)
{
  struct lls_grid grid = {0};
  buffer[0] = '\0';
  if (add(&grid, text) < 0)
    return "refused";
  for (size_t i = 0; i < lls_grid_points(&grid); i++)
    snprintf(buffer + strlen(buffer), size - strlen(buffer), "%s ",
             lls_grid_value(&grid, i, 0));
  lls_grid_free(&grid);
  return buffer;
}

static void test_ranges_with_units(void **state)
{
  char text[512];
  (void)state;
  assert_string_equal(values_of("gap=100ms..200ms:50ms", text, sizeof text),
                      "100ms 150ms 200ms ");
  assert_string_equal(values_of("gap=1..2s:500ms", text, sizeof text), "1s 1.5s 2s ");
  assert_string_equal(values_of("gap=1min..2min:30s", text, sizeof text),
                      "1min 1.5min 2min ");
  assert_string_equal(values_of("gap=10ms..12", text, sizeof text), "10ms 11ms 12ms ");
  assert_string_equal(values_of("m=512MiB..1.5GiB:512MiB", text, sizeof text),
                      "0.5GiB 1GiB 1.5GiB ");
  assert_string_equal(values_of("path=../a,../b", text, sizeof text), "../a ../b ");
  const char *const wrong[] = {"gap=1ms..2GiB", "gap=1ms..2ms:1GiB", "gap=1foo..2bar",
                               "gap=1..2..3",   "gap=2s..1s",        "gap=1s..2s:0ms",
                               "gap=1..2:",     "gap=1ms..nan"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_string_equal(values_of(wrong[i], text, sizeof text), "refused");
}

static void test_axes(void **state)
{
  (void)state;
  struct lls_grid grid = {0};
  char name[128];
  assert_int_equal(add(&grid, "request-rate=1,2.5,inf"), 0);
  assert_int_equal(add(&grid, "seed=3..5"), 0);
  assert_int_equal(add(&grid, "cv=0.5..1.5:0.25"), 0);
  assert_int_equal(lls_grid_points(&grid), 3 * 3 * 5);
  lls_grid_name(&grid, 0, name, sizeof name);
  assert_string_equal(name, "request-rate=1_seed=3_cv=0.5");
  lls_grid_name(&grid, 44, name, sizeof name);
  assert_string_equal(name, "request-rate=inf_seed=5_cv=1.5");
  lls_grid_name_but(&grid, 16, 1, name, sizeof name);
  assert_string_equal(name, "request-rate=2.5_cv=0.75");
  lls_grid_free(&grid);
  assert_int_equal(add(&grid, "trace=/a/b c.csv,d.csv"), 0);
  lls_grid_name(&grid, 0, name, sizeof name);
  assert_string_equal(name, "trace=b-c.csv");
  /* adding 1 to it changes nothing */
  assert_int_equal(add(&grid, "far=1e300..1e300"), 0);
  assert_int_equal(lls_grid_points(&grid), 2);
  const char *const bad[] = {
      "",         "seed",   "=1",      "seed=",         "x=1,",      "x=,1",
      "x=1..2:0", "x=4..1", "trace=3", "x=1..1e9:1e-3", "x=1..2:inf"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (add(&grid, bad[i]) == 0)
      fail_msg("'%s' was taken", bad[i]);
  lls_grid_free(&grid);
}

static void test_a_grid_is_run_and_resumed(void **state)
{
  struct bench b;
  struct lls_error err;
  static char text[16384], again[16384];
  OPEN(&b, "--sweep", "request-rate=2,10", "num-prompts=5,6", "--jobs", "3");
  assert_true(lls_sweep_wanted(&b.sweep));
  if (sweep(&b, text, sizeof text, &err) != 0)
    fail_msg("%s", err.text);
  assert_true(exists(&b, "request-rate=2_num-prompts=5"));
  assert_true(exists(&b, "request-rate=10_num-prompts=6"));
  assert_non_null(strstr(text, "request-rate=2_num-prompts=6"));
  assert_non_null(strstr(text, "100.0"));
  assert_null(strstr(text, "already"));
  mark(&b, "request-rate=2_num-prompts=5");
  assert_int_equal(sweep(&b, again, sizeof again, &err), 0);
  assert_non_null(strstr(again, "4321"));
  assert_non_null(strstr(again, "4 of 4 runs were there already\n"));
  close_bench(&b);
}

/* A result is shown again only if everything that produced it is unchanged. */
static void test_old_results_are_not_shown_as_new(void **state)
{
  static char *const runs[][6] = {
      {"--sweep", "request-rate=2,10", "--num-prompts", "5"},
      {"--sweep", "request-rate=2,10", "--num-prompts", "6"}, /* another option */
      {"--sweep", "request-rate=2,10", "--num-prompts", "6", "--trace", "trace.csv"},
  };
  struct bench b;
  struct lls_error err;
  static char text[16384];
  char trace[128];
  snprintf(trace, sizeof trace, "%s/trace.csv", ((const struct folder *)*state)->path);
  folder_write_text(*state, "trace.csv", "prompt_tokens,output_tokens\n1,1\n");
  for (int i = 0; i < 5; i++) { /* the same trace, another text of it, another plugin */
    open_bench(&b, *state, i == 0 || i == 1 ? 5 : 7,
               i < 2 ? (char *[]){"t", runs[i][0], runs[i][1], runs[i][2], runs[i][3]}
                     : (char *[]){"t", runs[2][0], runs[2][1], runs[2][2], runs[2][3],
                                  "--trace", trace});
    b.plugin = i == 4 ? "new" : "old";
    if (i == 3)
      folder_write_text(*state, "trace.csv", "prompt_tokens,output_tokens\n2,2\n");
    assert_int_equal(sweep(&b, text, sizeof text, &err), 0);
    if (strstr(text, "4321") != NULL || strstr(text, "already") != NULL ||
        (strstr(text, "2 results in ") != NULL) != (i > 0))
      fail_msg("%d: %s", i, text);
    mark(&b, "request-rate=2");
    close_bench(&b);
  }
}

/* After a failed run an older result of its point is not shown either. */
static void test_a_failed_run_shows_no_older_one(void **state)
{
  struct bench b;
  struct lls_error err;
  static char text[16384];
  OPEN(&b, "--sweep", "seed=1,2", "--num-prompts", "12", "--request-rate", "1");
  assert_int_equal(sweep(&b, text, sizeof text, &err), 0);
  close_bench(&b);
  OPEN(&b, "--sweep", "seed=1,2", "--num-prompts", "13", "--request-rate", "1");
  assert_int_equal(silently(&b, text, sizeof text, &err), -EIO);
  assert_non_null(strstr(text, "seed=1                                   failed"));
  assert_true(exists(&b, "seed=1")); /* but the older result is not lost */
  close_bench(&b);
}

static void test_a_failed_run_does_not_stop_the_others(void **state)
{
  struct bench b;
  struct lls_error err;
  static char text[16384];
  OPEN(&b, "--sweep", "num-prompts=12..14", "--request-rate", "1");
  assert_int_equal(silently(&b, text, sizeof text, &err), -EIO);
  assert_string_equal(err.text, "1 of 3 runs failed");
  assert_true(exists(&b, "num-prompts=12"));
  assert_false(exists(&b, "num-prompts=13"));
  assert_true(exists(&b, "num-prompts=14"));
  assert_non_null(strstr(text, "num-prompts=13                           failed"));
  close_bench(&b);
}

static void test_bad_sweeps_run_nothing(void **state)
{
  const char *const bad[][2] = {{"trace=a/x.csv,b/x.csv", "the same result file"},
                                {"sizes=1", "unknown option --sizes"},
                                {"seed=1,x", "--seed: expected"},
                                {"seed", "--sweep: expected"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct bench b;
    struct lls_error err;
    static char text[4096];
    OPEN(&b, "--sweep", (char *)bad[i][0]);
    assert_int_equal(sweep(&b, text, sizeof text, &err), -EINVAL);
    if (strstr(err.text, bad[i][1]) == NULL)
      fail_msg("%s", err.text);
    assert_false(exists(&b, "seed=1"));
    close_bench(&b);
  }
}

static void test_repeats_have_intervals(void **state)
{
  struct bench b;
  struct lls_error err;
  static char text[16384];
  OPEN(&b, "--num-runs", "5", "--seed", "3", "--request-rate", "1");
  assert_int_equal(sweep(&b, text, sizeof text, &err), 0);
  assert_true(exists(&b, "seed=3"));
  assert_true(exists(&b, "seed=7"));
  assert_non_null(strstr(text, "all runs"));
  assert_non_null(strstr(text, "6.00")); /* mean of 4 .. 8 req/s */
  assert_non_null(strstr(text, "95 % from"));
  close_bench(&b);
}

/* The final bracket contains the knee, and is not wider than requested. */
static void test_the_highest_rate_is_found(void **state)
{
  struct bench b;
  struct lls_error err;
  static char text[16384];
  double low, high;
  OPEN(&b, "--find-rate", "0.9", "--find-rate-low", "1", "--find-rate-tolerance", "0.01");
  if (sweep(&b, text, sizeof text, &err) != 0)
    fail_msg("%s", err.text);
  const char *found = strstr(text, "90 % is attained up to ");
  assert_non_null(found);
  assert_int_equal(
      sscanf(found, "90 %% is attained up to %lf req/s, and not at %lf", &low, &high), 2);
  assert_true(low <= KNEE && high >= KNEE && high - low <= 0.0101 * high);
  close_bench(&b);
  OPEN(&b, "--find-rate", "0.9", "--find-rate-low", "8");
  assert_int_equal(sweep(&b, text, sizeof text, &err), 0);
  assert_non_null(strstr(text, "90 % is not attained at 8 req/s"));
  close_bench(&b);
  OPEN(&b, "--find-rate", "0.4", "--find-rate-high", "30");
  assert_int_equal(sweep(&b, text, sizeof text, &err), 0);
  assert_non_null(strstr(text, "40 % is still attained at 30 req/s"));
  close_bench(&b);
}

/* One search for each point; its seeds give an interval. */
static void test_the_highest_rates_of_several(void **state)
{
  struct bench b;
  struct lls_error err;
  static char text[65536];
  char path[128];
  OPEN(&b, "--find-rate", "0.9", "--sweep", "tenants=1,2", "--num-runs", "3", "--seed",
       "5", "--find-rate-low", "1", "--find-rate-tolerance", "0.01", "--jobs", "4");
  if (sweep(&b, text, sizeof text, &err) != 0)
    fail_msg("%s", err.text);
  double mean[2], low[2], high[2], not_at[2];
  for (int i = 0; i < 2; i++) {
    char line[64];
    snprintf(line, sizeof line, "\ntenants=%d    ", i + 1);
    const char *row = strstr(text, line);
    assert_non_null(row);
    assert_int_equal(
        sscanf(row, " %*s %lf %lf %lf %lf", &mean[i], &low[i], &high[i], &not_at[i]), 4);
    assert_true(low[i] <= mean[i] && mean[i] <= high[i]);
  }
  assert_true(fabs(mean[0] - KNEE) < 0.5); /* seeds 5 to 7 shift the knee: see run() */
  assert_true(mean[1] > 1.9 * mean[0]);
  assert_non_null(strstr(text, "highest rate at which 90 % of all requests"));
  snprintf(path, sizeof path, "%s/find-rate.json", ((const struct folder *)*state)->path);
  json_t *found = lls_result_read(path, &err);
  json_t *second = json_array_get(json_object_get(found, "points"), 1);
  assert_string_equal(json_string_value(json_object_get(second, "point")), "tenants=2");
  assert_int_equal(json_array_size(json_object_get(second, "attained")), 3);
  assert_true(fabs(lls_result_number(second, "mean") - mean[1]) < 0.01 * mean[1]);
  json_decref(found);
  assert_int_equal(sweep(&b, text, sizeof text, &err), 0);
  assert_non_null(strstr(text, "runs were there already"));
  close_bench(&b);
  OPEN(&b, "--find-rate", "0.9", "--sweep", "request-rate=1,2");
  assert_int_equal(sweep(&b, text, sizeof text, &err), -EINVAL);
  assert_non_null(strstr(err.text, "--find-rate looks for --request-rate"));
  close_bench(&b);
  OPEN(&b, "--find-rate", "0.9", "--sweep", "tenants=1", "seed=5", "num-prompts=2",
       "input-len=8", "output-len=8", "burstiness=1", "prefix-len=0");
  assert_int_equal(sweep(&b, text, sizeof text, &err), -EINVAL);
  assert_non_null(strstr(err.text, "--find-rate: at most 6 options in --sweep"));
  close_bench(&b);
}

static void test_no_table_where_none_is_wanted(void **state)
{
  struct bench b;
  struct lls_error err;
  static char text[16384];
  OPEN(&b, "--sweep", "request-rate=2,10");
  b.runner.no_table = true;
  memset(text, 0, sizeof text);
  assert_int_equal(sweep(&b, text, sizeof text, &err), 0);
  assert_string_equal(text, "");
  assert_true(exists(&b, "request-rate=2"));
  close_bench(&b);
}

static void test_bootstrap(void **state)
{
  (void)state;
  double values[100], one[] = {NAN, 5}, none[] = {NAN};
  for (int i = 0; i < 100; i++)
    values[i] = i % 2 == 0 ? 9 : 11;
  struct lls_interval interval = lls_bootstrap(values, 100);
  assert_true(interval.mean == 10);
  assert_true(fabs(interval.low - 9.8) < 0.07 && fabs(interval.high - 10.2) < 0.07);
  assert_true(fabs(interval.cv - 0.1005) < 1e-3);
  interval = lls_bootstrap(one, 2);
  assert_true(interval.mean == 5 && isnan(interval.low));
  assert_true(isnan(lls_bootstrap(none, 1).mean));
}

static const char *read_svg(const char *path)
{
  static char svg[1 << 20];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  svg[fread(svg, 1, sizeof svg - 1, file)] = '\0';
  fclose(file);
  return svg;
}

static void has_words(const char *svg, const char *const *words)
{
  for (; *words != NULL; words++)
    if (strstr(svg, *words) == NULL)
      fail_msg("no '%s' in the plot", *words);
}

static void test_the_plot_is_drawn(void **state)
{
  static const char *const words[] = {"<svg",
                                      "opt-0 on simulated, made up, 7 requests",
                                      "SLOs: TTFT 500 ms to 1 s",
                                      "Requests that met all their SLOs",
                                      "Request rate (req/s)",
                                      ">tenants=3<",
                                      "Time to first token at 9 req/s, CDF of all seeds",
                                      "Mean normalised latency",
                                      NULL};
  struct bench b;
  struct lls_error err;
  static char text[16384];
  char path[128], named[256];
  if (system("command -v gnuplot >/dev/null") != 0)
    skip_because("gnuplot is not installed");
  const char *folder = ((const struct folder *)*state)->path;
  snprintf(path, sizeof path, "%s/out.svg", folder);
  OPEN(&b, "--sweep", "request-rate=1..9:2", "tenants=1,3", "--num-runs", "2", "--plot",
       path);
  if (sweep(&b, text, sizeof text, &err) != 0)
    fail_msg("%s", err.text);
  has_words(read_svg(path), words);
  close_bench(&b);
  snprintf(named, sizeof named, "mine=%s", folder); /* from the folder alone */
  unlink(path);
  OPEN(&b, "--plot-results", named, "--plot", path);
  if (sweep(&b, text, sizeof text, &err) != 0)
    fail_msg("%s", err.text);
  has_words(read_svg(path), (const char *const[]){">mine tenants=3<", NULL});
  close_bench(&b);
}

/* Seed k's values are 1 + k times the first seed's: see run(). */
static void test_cdfs_are_of_all_seeds(void **state)
{
  struct lls_plot_runs runs;
  struct lls_error err;
  struct bench b;
  static char text[16384];
  OPEN(&b, "--sweep", "request-rate=2", "--num-runs", "3", "--seed", "1");
  assert_int_equal(sweep(&b, text, sizeof text, &err), 0);
  close_bench(&b);
  char paths[3][128];
  struct lls_plot_source sources[3];
  for (int i = 0; i < 3; i++) {
    snprintf(paths[i], sizeof paths[i], "%s/request-rate=2_seed=%d.json", b.folder->path,
             i + 1);
    sources[i] = (struct lls_plot_source){paths[i], ""};
  }
  assert_int_equal(lls_plot_read(sources, 3, &runs, &err), 0);
  /* the requested rate, not the realised one */
  assert_true(lls_plot_common_rate(&runs) == 2);
  struct lls_plot_part part = lls_plot_at(&runs, lls_plot_series(&runs, 0), 2);
  assert_int_equal(part.end - part.from, 3);
  double *values;
  assert_int_equal(lls_plot_values(&runs, part, "ttft_ms", &values), 3 * 101);
  assert_true(values[0] == 0 && values[3 * 101 - 1] == 2 * 4 * 100);
  assert_true(values[201] > 2 * 100); /* all of seed 1's are below two thirds of all */
  free(values);
  lls_plot_free(&runs);
}

static void test_without_gnuplot_nothing_is_run(void **state)
{
  struct bench b;
  struct lls_error err;
  static char text[4096];
  OPEN(&b, "--sweep", "seed=1,2", "--plot", "x.svg");
  char *path = strdup(getenv("PATH"));
  setenv("PATH", "/nowhere", 1);
  int rc = sweep(&b, text, sizeof text, &err);
  setenv("PATH", path, 1);
  free(path);
  assert_int_equal(rc, -EINVAL);
  assert_non_null(strstr(err.text, "apt-get install gnuplot-nox"));
  assert_false(exists(&b, "seed=1"));
  close_bench(&b);
}

/* Writes runs of two sides into folders; repeats by seed. */
static void write_runs_from(const struct folder *f, const char *side, const char *point,
                            const double *rates, size_t n, size_t first_seed)
{
  char path[256];
  struct lls_error err;
  snprintf(path, sizeof path, "%s-%s", f->path, side);
  mkdir(path, 0777);
  for (size_t i = 0; i < n; i++) {
    json_t *result = json_pack("{s:f, s:f}", "request_throughput", rates[i],
                               "median_ttft_ms", 100 / rates[i]);
    snprintf(path, sizeof path, "%s-%s/%sseed=%zu.json", f->path, side, point,
             first_seed + i);
    assert_int_equal(lls_report_write(result, path, &err), 0);
    json_decref(result);
  }
}

static void write_runs(const struct folder *f, const char *side, const char *point,
                       const double *rates, size_t n)
{
  write_runs_from(f, side, point, rates, n, 0);
}

static void remove_side(const struct folder *f, const char *side)
{
  struct folder below;
  snprintf(below.path, sizeof below.path, "%.50s-%s", f->path, side);
  folder_remove(&below);
}

static int compare(const struct folder *f, const char *a, const char *b, char *text,
                   size_t size, struct lls_error *err)
{
  char paths[512];
  snprintf(paths, sizeof paths, "%s-%s\n%s-%s", f->path, a, f->path, b);
  FILE *out = fmemopen(text, size, "w");
  *err = (struct lls_error){0};
  int rc = lls_compare(paths, out, err);
  fclose(out);
  return rc;
}

/* With no seed in common. */
static void test_a_winner_needs_intervals_apart(void **state)
{
  const struct folder *f = *state;
  struct lls_error err;
  static char text[16384];
  write_runs(f, "a", "", (const double[]){9.9, 10, 10.1}, 3);
  write_runs_from(f, "b", "", (const double[]){10.9, 11, 11.1}, 3, 10);
  write_runs_from(f, "c", "", (const double[]){9.5, 10, 11.2}, 3, 20);
  write_runs(f, "d", "", (const double[]){20, 21}, 2);
  assert_int_equal(compare(f, "a", "b", text, sizeof text, &err), 0);
  assert_non_null(strstr(text, "+10.0 %  B is better\nTTFT p50"));
  assert_non_null(strstr(strstr(text, "TTFT p50"), "B is better")); /* less is */
  assert_int_equal(compare(f, "b", "a", text, sizeof text, &err), 0);
  assert_null(strstr(text, "B is better"));
  assert_int_equal(compare(f, "a", "c", text, sizeof text, &err), 0);
  assert_non_null(strstr(text, "no winner"));
  assert_null(strstr(text, "is better"));
  assert_int_equal(compare(f, "a", "d", text, sizeof text, &err), 0);
  assert_non_null(strstr(text, "too few runs"));
  assert_null(strstr(text, "is better"));
  for (const char *side = "abcd"; *side != '\0'; side++)
    remove_side(f, (const char[]){*side, '\0'});
}

/* The seeds differ by far more than the sides do, but the difference is the same for
 * every seed. */
static void test_the_same_seeds_are_compared_in_pairs(void **state)
{
  const struct folder *f = *state;
  struct lls_error err;
  static char text[16384];
  write_runs(f, "a", "", (const double[]){10, 20, 30, 40}, 4);
  write_runs(f, "b", "", (const double[]){11, 21.5, 31, 41.5}, 4);
  write_runs(f, "c", "", (const double[]){12, 17, 33, 39}, 4);
  write_runs_from(f, "d", "", (const double[]){11, 21.5, 31, 41.5}, 4, 2);
  assert_int_equal(compare(f, "a", "b", text, sizeof text, &err), 0);
  /* 1.25 of 25 is 5 %; 3.182 * 0.28868 / 2 of 25 is 1.8 % */
  if (strstr(text, "  +5.0 % [+3.2, +6.8]  B is better, 4 seeds\n") == NULL)
    fail_msg("%s", text);
  assert_int_equal(compare(f, "a", "c", text, sizeof text, &err), 0);
  assert_non_null(strstr(text, "no winner, 4 seeds"));
  assert_int_equal(compare(f, "a", "d", text, sizeof text, &err), 0);
  assert_null(strstr(text, "seeds")); /* two common seeds are too few */
  for (const char *side = "abcd"; *side != '\0'; side++)
    remove_side(f, (const char[]){*side, '\0'});
}

static void test_points_are_compared_by_name(void **state)
{
  const struct folder *f = *state;
  struct lls_error err;
  static char text[16384];
  write_runs(f, "a", "rate=1_", (const double[]){1, 1, 1}, 3);
  write_runs(f, "a", "rate=2_", (const double[]){2, 2, 2}, 3);
  write_runs(f, "b", "rate=2_", (const double[]){3, 3, 3}, 3);
  write_runs(f, "b", "rate=9_", (const double[]){9, 9, 9}, 3);
  assert_int_equal(compare(f, "a", "b", text, sizeof text, &err), 0);
  assert_non_null(strstr(text, "\nrate=2\n"));
  assert_non_null(strstr(text, "+50.0 %"));
  assert_null(strstr(text, "rate=1"));
  assert_null(strstr(text, "rate=9"));
  assert_int_equal(compare(f, "a", "nothing", text, sizeof text, &err), -EINVAL);
  assert_int_equal(lls_compare("one", stdout, &err), -EINVAL);
  assert_non_null(strstr(err.text, "expected two results"));
  remove_side(f, "a");
  remove_side(f, "b");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_axes),
      cmocka_unit_test(test_ranges_with_units),
      IN_FOLDER(test_a_grid_is_run_and_resumed),
      IN_FOLDER(test_old_results_are_not_shown_as_new),
      IN_FOLDER(test_a_failed_run_shows_no_older_one),
      IN_FOLDER(test_a_failed_run_does_not_stop_the_others),
      IN_FOLDER(test_bad_sweeps_run_nothing),
      IN_FOLDER(test_repeats_have_intervals),
      IN_FOLDER(test_the_highest_rate_is_found),
      IN_FOLDER(test_the_highest_rates_of_several),
      IN_FOLDER(test_no_table_where_none_is_wanted),
      IN_FOLDER(test_a_winner_needs_intervals_apart),
      IN_FOLDER(test_the_same_seeds_are_compared_in_pairs),
      IN_FOLDER(test_points_are_compared_by_name),
      cmocka_unit_test(test_bootstrap),
      IN_FOLDER(test_the_plot_is_drawn),
      IN_FOLDER(test_cdfs_are_of_all_seeds),
      IN_FOLDER(test_without_gnuplot_nothing_is_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
