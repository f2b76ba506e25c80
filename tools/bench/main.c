/* SPDX-License-Identifier: Apache-2.0 */
/* llmserve-bench. Exit status 0: done; 1: a run failed, or none of its requests was
 * answered; 2: wrong usage. */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/bench/bench.h"
#include "tools/report/metrics.h"
#include "tools/workload/build.h"
#include "tools/sweep/made_by.h"
#include "tools/sweep/sweep.h"

#define EXIT_USAGE 2
#define LATE_MS    10 /* p99 lateness of the client itself that causes a warning */

static const char usage[] =
    "Usage: llmserve-bench [OPTION]...\n"
    "Sends a workload to an OpenAI-compatible server and reports what came back, with "
    "the\n"
    "options and the JSON keys of vLLM's `bench serve` and some more.\n"
    "\n"
    "  llmserve-bench --dataset-name random --num-prompts 200 --request-rate 4\n"
    "  llmserve-bench --trace azure.csv --time-scale 2 --slo-ttft 1s --json\n"
    "  llmserve-bench --base-url http://10.0.0.7:8000 --max-concurrency 30 --sweep "
    "seed=1..5\n"
    "  llmserve-bench --goodput ttft:500 tpot:50 --find-rate 0.9\n"
    "\n"
    "The environment's OPENAI_API_KEY is sent as the key where --header has no "
    "Authorization.\n";

/* options of group SWEEP do not affect a single run */
enum { BENCH, WORKLOAD, SWEEP, N_GROUPS };

struct tool {
  struct lls_bench_options bench;
  struct lls_workload_options workload;
  struct lls_sweep_options sweep;
  struct lls_bound_options bound[N_GROUPS];
};

static const char *backend_name(const struct tool *tool)
{
  static const char *const names[] = {"openai", "vllm", "openai-chat"};
  return names[tool->bench.backend];
}

static bool progress_wanted(const struct tool *tool)
{
  return !tool->bench.disable_tqdm && !tool->bench.quiet && !tool->bench.json;
}

/* ---- one run ----------------------------------------------------------------------- */

struct run {
  struct lls_bench bench;
  struct lls_workload workload;
  struct lls_report *report;
  struct lls_load_result load;
  double rate;
  char date[32];
};

static struct lls_report_header header_of(const struct tool *tool, const struct run *run)
{
  const struct lls_bench_options *o = &tool->bench;
  const struct lls_workload_options *w = &tool->workload;
  bool by_rate =
      w->arrivals != LLS_ARRIVALS_TRACE && (w->trace[0] == '\0' || !isnan(run->rate));
  return (struct lls_report_header){
      .tool = "llmserve-bench " PACKAGE_VERSION,
      .date = run->date,
      .backend = backend_name(tool),
      .endpoint_type = backend_name(tool),
      .label = o->label[0] != '\0' ? o->label : NULL,
      .model_id = strcmp(o->model, "auto") != 0 ? o->model : run->bench.model,
      .tokenizer_id = w->tokenizer[0] != '\0' ? w->tokenizer : NULL,
      .metadata = o->metadata,
      .request_rate = isnan(run->rate) && w->trace[0] == '\0' ? INFINITY : run->rate,
      .burstiness = !by_rate       ? NAN
                    : isnan(w->cv) ? w->burstiness
                                   : 1 / (w->cv * w->cv),
      .max_concurrency =
          o->max_concurrency == LLS_NEVER ? 0 : (uint32_t)o->max_concurrency,
  };
}

/* Sends the first --num-warmups items one after the other; their report is
 * discarded. */
static int warm_up(const struct tool *tool, struct run *run, struct lls_error *err)
{
  struct lls_workload few = run->workload;
  struct lls_report *report;
  const struct lls_report_options options = {0};
  struct lls_load_result ignored;
  if (tool->bench.num_warmups == 0)
    return 0;
  if (few.n_items > (uint64_t)tool->bench.num_warmups)
    few.n_items = (uint32_t)tool->bench.num_warmups;
  int rc = lls_report_create(&few, &options, &report, err);
  if (rc < 0)
    return rc;
  rc = lls_bench_load(&run->bench, &few, 1, report, false, &ignored, err);
  lls_report_destroy(report);
  return rc;
}

static int prepare(const struct tool *tool, struct run *run, struct lls_error *err)
{
  const struct lls_bench_options *o = &tool->bench;
  bool limited = o->max_concurrency != LLS_NEVER;
  const struct lls_report_options options = {
      .goodput = o->goodput,
      .shown = o->percentile_metrics,
      .max_concurrency = limited ? (uint32_t)o->max_concurrency : 0,
      .per_token = true,
      .percentiles = o->metric_percentiles,
      .warm_up_ns = o->warm_up,
      .keep_gaps = o->save_detailed};
  int rc = lls_rate_parse(tool->workload.request_rate, &run->rate, err);
  if (rc == 0)
    rc = lls_workload_build(&tool->workload, &run->workload, err);
  if (rc == 0)
    rc = lls_report_create(&run->workload, &options, &run->report, err);
  return rc;
}

static void release(struct run *run)
{
  lls_report_destroy(run->report);
  lls_workload_free(&run->workload);
}

/* Sends the whole workload and fills the report. */
static int send_all(const struct tool *tool, struct run *run, bool progress,
                    struct lls_error *err)
{
  int64_t limit = tool->bench.max_concurrency;
  int rc = lls_bench_reach(&run->bench, err);
  if (rc == 0)
    rc = warm_up(tool, run, err);
  time_t now = time(NULL);
  struct tm tm;
  strftime(run->date, sizeof run->date, "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
  if (rc == 0)
    rc = lls_bench_load(&run->bench, &run->workload,
                        limit == LLS_NEVER ? 0 : (uint32_t)limit, run->report, progress,
                        &run->load, err);
  return rc;
}

static json_t *result_of(const struct tool *tool, const struct run *run, json_t *made_by,
                         struct lls_error *err)
{
  struct lls_report_header header = header_of(tool, run);
  json_t *result = lls_report_json(run->report, &header, tool->bench.save_detailed);
  if (result == NULL) {
    lls_fail(err, -ENOMEM, "no memory for the result");
    return NULL;
  }
  json_object_set(result, "made_by", made_by);
  json_object_set_new(result, "client_cpu_s", json_real(run->load.client_cpu_s));
  json_object_set_new(result, "client_cpu_share",
                      json_real(run->load.client_cpu_s / run->load.elapsed_s));
  json_object_set_new(result, "connections",
                      json_integer((json_int_t)run->load.connections));
  return result;
}

static int write_result(const struct tool *tool, const struct run *run, const char *path,
                        json_t *made_by, struct lls_error *err)
{
  json_t *result = result_of(tool, run, made_by, err);
  if (result == NULL)
    return -ENOMEM;
  bool append = tool->bench.append_result && tool->bench.result_filename[0] != '\0';
  int rc =
      append ? lls_report_append(result, path, err) : lls_report_write(result, path, err);
  json_decref(result);
  return rc;
}

static uint32_t answered(const struct run *run, double *p99_lateness_ms)
{
  struct lls_metrics metrics;
  if (lls_report_metrics(run->report, &metrics) < 0)
    return 0;
  *p99_lateness_ms = metrics.lateness.percentiles[2];
  return metrics.completed + metrics.cancelled;
}

/* Describes the origin of a result: the options, and the server that runs now. */
static json_t *made_by(void *context, struct lls_error *err)
{
  const struct tool *tool = context;
  struct lls_bench bench;
  json_t *out = lls_made_by("llmserve-bench", tool->bound, SWEEP, err);
  if (out == NULL || lls_bench_open(&bench, &tool->bench, &tool->workload, err) < 0) {
    json_decref(out);
    return NULL;
  }
  json_t *server =
      lls_bench_reach(&bench, err) == 0 ? lls_bench_server(&bench, err) : NULL;
  lls_bench_close(&bench);
  if (server != NULL && json_object_set_new(out, "server", server) == 0)
    return out;
  json_decref(out);
  return NULL;
}

/* For --sweep and other multiple runs: one run, in a separate process. */
static int run_to(void *context, const char *path, json_t *made, struct lls_error *err)
{
  const struct tool *tool = context;
  struct run run = {0};
  double lateness;
  int rc = prepare(tool, &run, err);
  if (rc == 0)
    rc = lls_bench_open(&run.bench, &tool->bench, &tool->workload, err);
  if (rc == 0) {
    rc = send_all(tool, &run, false, err);
    if (rc == 0 && answered(&run, &lateness) == 0)
      rc = lls_fail(err, -EIO, "no request was answered");
    if (rc == 0)
      rc = write_result(tool, &run, path, made, err);
    lls_bench_close(&run.bench);
  }
  release(&run);
  return rc;
}

/* ---- a run by itself --------------------------------------------------------------- */

static void result_path(const struct tool *tool, const struct run *run, char *out,
                        size_t size)
{
  const struct lls_bench_options *o = &tool->bench;
  char rate[32], limit[32] = "", model[256];
  const char *slash = strrchr(run->bench.model, '/');
  snprintf(model, sizeof model, "%s", slash != NULL ? slash + 1 : run->bench.model);
  snprintf(rate, sizeof rate, "%.6g", isnan(run->rate) ? INFINITY : run->rate);
  if (o->max_concurrency != LLS_NEVER)
    snprintf(limit, sizeof limit, "-concurrency%lld", (long long)o->max_concurrency);
  if (o->result_filename[0] != '\0')
    snprintf(out, size, "%s/%s", tool->sweep.result_dir, o->result_filename);
  else
    snprintf(out, size, "%s/%s-%sqps%s-%s-%s.json", tool->sweep.result_dir,
             o->label[0] != '\0' ? o->label : backend_name(tool), rate, limit, model,
             run->date);
}

/* Describes the origin of a result: the options, and the server that answered, unless
 * it has stopped meanwhile. */
static json_t *made_by_run(const struct tool *tool, struct run *run,
                           struct lls_error *err)
{
  json_t *made = lls_made_by("llmserve-bench", tool->bound, SWEEP, err);
  json_t *server = made != NULL ? lls_bench_server(&run->bench, NULL) : NULL;
  if (server != NULL)
    json_object_set_new(made, "server", server);
  return made;
}

static int save(const struct tool *tool, struct run *run, struct lls_error *err)
{
  const struct lls_bench_options *o = &tool->bench;
  const char *plot = tool->sweep.plot;
  char path[4096];
  if (!o->save_result && !o->save_detailed && o->result_filename[0] == '\0' &&
      plot[0] == '\0')
    return 0;
  if (mkdir(tool->sweep.result_dir, 0777) != 0 && errno != EEXIST)
    return lls_fail(err, -errno, "%s: cannot be made: %s", tool->sweep.result_dir,
                    strerror(errno));
  result_path(tool, run, path, sizeof path);
  json_t *made = made_by_run(tool, run, err);
  int rc = made != NULL ? write_result(tool, run, path, made, err) : -EIO;
  json_decref(made);
  const struct lls_plot_source source = {.path = path, .name = ""};
  if (rc == 0 && plot[0] != '\0')
    rc = lls_plot(&source, 1, plot, err);
  return rc;
}

static int print_json(const struct tool *tool, struct run *run, struct lls_error *err)
{
  json_t *made = made_by_run(tool, run, err);
  json_t *result = made != NULL ? result_of(tool, run, made, err) : NULL;
  int rc = result == NULL ? -EIO
           : json_dumpf(result, stdout, JSON_COMPACT) < 0
               ? lls_fail(err, -EIO, "the result cannot be written")
               : 0;
  if (rc == 0)
    putchar('\n');
  json_decref(result);
  json_decref(made);
  return rc;
}

/* Prints to standard output: the table, the result with --json, nothing with
 * --quiet. */
static int print(const struct tool *tool, struct run *run, struct lls_error *err)
{
  struct lls_report_header header = header_of(tool, run);
  if (tool->bench.json)
    return print_json(tool, run, err);
  if (tool->bench.quiet)
    return 0;
  int rc = lls_report_print(run->report, &header, stdout);
  return rc < 0 ? lls_fail(err, rc, "no memory for the report") : 0;
}

static int report(const struct tool *tool, struct run *run, struct lls_error *err)
{
  double lateness = 0;
  bool any = answered(run, &lateness) > 0;
  int rc = print(tool, run, err);
  if (rc < 0)
    return rc;
  if (lateness > LATE_MS && tool->bench.max_concurrency == LLS_NEVER)
    fprintf(
        stderr,
        "llmserve-bench: it was late itself: 1 %% of the requests were sent %.0f ms or "
        "more after their time (client CPU %.0f %%)\n",
        lateness, 100 * run->load.client_cpu_s / run->load.elapsed_s);
  rc = save(tool, run, err);
  return rc == 0 && !any ? lls_fail(err, -EIO, "no request was answered") : rc;
}

/* Prints the load that would be sent, without sending it. */
static int show_load(struct run *run, struct lls_error *err)
{
  const struct lls_workload *w = &run->workload;
  struct lls_text request = {0};
  uint64_t in = 0, out = 0;
  for (uint32_t i = 0; i < w->n_items; i++) {
    in += w->items[i].prompt_tokens;
    out += w->items[i].output_tokens;
  }
  printf("%u requests in %.1f s, %llu prompt tokens, %llu answer tokens\n", w->n_items,
         (double)w->last_arrival_ns / LLS_NS_PER_S, (unsigned long long)in,
         (unsigned long long)out);
  int rc = lls_bench_request(&run->bench, w, &w->items[0], &request, err);
  if (rc == 0)
    printf("%s\n", request.data);
  lls_text_free(&request);
  return rc;
}

/* Does a single run. An error before anything is sent counts as wrong usage. */
static int run_alone(const struct tool *tool)
{
  struct run run = {0};
  struct lls_error err = {0};
  const char *plot = tool->sweep.plot;
  int status = 0, rc = plot[0] != '\0' ? lls_plot_check(plot, &err) : 0;
  if (rc == 0)
    rc = prepare(tool, &run, &err);
  if (rc == 0)
    rc = lls_bench_open(&run.bench, &tool->bench, &tool->workload, &err);
  run.bench.looks = plot[0] != '\0';
  if (rc < 0) {
    status = EXIT_USAGE;
  } else {
    rc = tool->bench.dry_run ? show_load(&run, &err)
                             : send_all(tool, &run, progress_wanted(tool), &err);
    if (rc == 0 && !tool->bench.dry_run)
      rc = report(tool, &run, &err);
    lls_bench_close(&run.bench);
    status = rc < 0 ? 1 : 0;
  }
  if (rc < 0)
    fprintf(stderr, "llmserve-bench: %s\n", lls_error_text(&err, rc));
  release(&run);
  return status;
}

/* ---- the command line -------------------------------------------------------------- */

static int run_many(struct tool *tool)
{
  struct lls_error err = {0};
  const struct lls_runner runner = {.made_by = made_by,
                                    .run = run_to,
                                    .context = tool,
                                    .bound = tool->bound,
                                    .n = N_GROUPS,
                                    .quiet = !progress_wanted(tool)};
  int rc = lls_sweep(&tool->sweep, &runner, stdout, &err);
  if (rc == 0)
    return 0;
  fprintf(stderr, "llmserve-bench: %s\n", lls_error_text(&err, rc));
  return rc == -EINVAL ? EXIT_USAGE : 1;
}

static int run_tool(struct tool *tool)
{
  if (tool->bench.help) {
    fputs(usage, stdout);
    lls_options_help(tool->bound, N_GROUPS, stdout);
    return 0;
  }
  if (tool->bench.version) {
    puts("llmserve-bench " PACKAGE_VERSION);
    return 0;
  }
  return lls_sweep_wanted(&tool->sweep) ? run_many(tool) : run_alone(tool);
}

/* Allows as many connections as the system does. */
static void raise_limit(void)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
  struct tool tool;
  struct lls_error err = {0};
  tool.bound[BENCH] = (struct lls_bound_options){&lls_bench_option_group, &tool.bench};
  tool.bound[WORKLOAD] =
      (struct lls_bound_options){&lls_workload_option_group, &tool.workload};
  tool.bound[SWEEP] = (struct lls_bound_options){&lls_sweep_option_group, &tool.sweep};
  signal(SIGPIPE, SIG_IGN);
  raise_limit();
  int status = EXIT_USAGE, rc = lls_options_default(tool.bound, N_GROUPS, &err);
  if (rc == 0) {
    rc = lls_options_parse(tool.bound, N_GROUPS, argc, argv, &err);
    if (rc == 0)
      status = run_tool(&tool);
    lls_options_release(tool.bound, N_GROUPS);
  }
  if (rc < 0)
    fprintf(stderr, "llmserve-bench: %s\n", lls_error_text(&err, rc));
  return status;
}
