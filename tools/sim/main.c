/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llmserve-sim: a workload through the real loop and the real plugins on a simulated
 * device. Exit status 0; 1 if the run failed; 2 for a command line or configuration that
 * is wrong.
 */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plugin/crash.h"
#include "tools/report/report.h"
#include "tools/sim/made_by.h"
#include "tools/sim/options.h"
#include "tools/sim/replay.h"
#include "tools/sim/run.h"
#include "tools/sweep/made_by.h"
#include "tools/sweep/sweep.h"
#include "tools/workload/workload.h"

#define EXIT_USAGE 2

static const char usage[] =
    "Usage: llmserve-sim [OPTION]...\n"
    "Runs a trace or a synthetic load against the policies of a configuration, on a\n"
    "device that computes nothing and whose time is a cost model's. The same command\n"
    "gives the same bytes, if predictor retrieval does without its thread\n"
    "(predictor.retrieval.async=off).\n"
    "\n"
    "  llmserve-sim -c policy.ini --model opt-13b --profile a100-40g \\\n"
    "    --dataset-name random --request-rate 3 --json out.json\n"
    "  llmserve-sim --policies fcfs.ini,sarathi.ini --sweep request-rate=1..4:0.5 \\\n"
    "    --result-dir runs --plot runs.svg ...\n";

/* options of group SWEEP do not affect a single run */
enum { SIM, WORKLOAD, SWEEP, N_GROUPS };

struct tool {
  struct lls_sim_tool_options sim;
  struct lls_workload_options workload;
  struct lls_sweep_options sweep;
  struct lls_bound_options bound[N_GROUPS];
};

/* Replaces -c FILE by --config FILE. */
static void spell_out(int argc, char **argv)
{
  static char config[] = "--config";
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "-c") == 0)
      argv[i] = config;
}

static double rate_of(const struct lls_workload *w)
{
  double seconds = (double)w->last_arrival_ns * 1e-9;
  return seconds > 0 && w->n_items > 1 ? (w->n_items - 1) / seconds : INFINITY;
}

static int write_json(const struct tool *t, const struct lls_sim_result *result,
                      const struct lls_report_header *header, const char *path,
                      json_t *made_by, struct lls_error *err)
{
  json_t *json = lls_report_json(result->report, header, t->sim.save_detailed);
  if (json == NULL || json_object_set(json, "machine", result->machine) < 0 ||
      json_object_set(json, "made_by", made_by) < 0 ||
      (result->decisions != NULL &&
       json_object_set(json, "decisions", result->decisions) < 0)) {
    json_decref(json);
    return lls_fail(err, -ENOMEM, "no memory for the report");
  }
  int rc = lls_report_write(json, path, err);
  json_decref(json);
  return rc;
}

/* Prints the table to the terminal and writes the JSON to path. */
static int write_report(const struct tool *t, const struct lls_workload *w,
                        const struct lls_sim_result *result, const char *path,
                        json_t *made_by, struct lls_error *err)
{
  static const char *const backends[] = {[LLS_SIM_DEVICE_SIM] = "sim",
                                         [LLS_SIM_DEVICE_CPU] = "cpu",
                                         [LLS_SIM_DEVICE_CUDA] = "cuda"};
  const struct lls_sim_tool_options *o = &t->sim;
  const struct lls_report_header header = {
      .tool = "llmserve-sim",
      .backend = backends[o->device],
      .label = o->label[0] != '\0' ? o->label : NULL,
      .model_id = json_string_value(json_object_get(result->machine, "model")),
      .metadata = o->metadata,
      .request_rate = rate_of(w),
      .burstiness = NAN,
      .max_concurrency = (uint32_t)o->max_concurrency,
  };
  int rc = o->quiet || lls_sweep_wanted(&t->sweep)
               ? 0
               : lls_report_print(result->report, &header, stdout);
  if (rc < 0)
    return lls_fail(err, rc, "cannot print the report");
  return path[0] != '\0' ? write_json(t, result, &header, path, made_by, err) : 0;
}

static json_t *made_by(void *context, struct lls_error *err)
{
  const struct tool *t = context;
  json_t *out = lls_made_by("llmserve-sim", t->bound, SWEEP, err);
  if (out == NULL || lls_sim_made_by(&t->sim, out, err) == 0)
    return out;
  json_decref(out);
  return NULL;
}

static int simulate(void *context, const char *path, json_t *made, struct lls_error *err)
{
  const struct tool *t = context;
  struct lls_sim_tool_options options = t->sim;
  struct lls_workload w;
  struct lls_sim_result result;
  options.one_of_many = lls_sweep_wanted(&t->sweep);
  if (strcmp(t->workload.dataset_name, "decisions") == 0)
    options.history = t->workload.trace;
  int rc = lls_workload_build(&t->workload, &w, err);
  if (rc < 0)
    return rc;
  if (t->sim.write_lengths[0] != '\0')
    rc = lls_workload_write_lengths(&w, t->sim.write_lengths, err);
  if (rc == 0)
    rc = lls_sim_run(&options, &w, &result, err);
  if (rc == 0) {
    rc = write_report(t, &w, &result, path, made, err);
    lls_sim_result_free(&result);
  }
  lls_workload_free(&w);
  return rc;
}

/* Treats --policies A,B as --sweep config=A,B, before any other swept option. */
static int sweep_policies(struct tool *t, struct lls_error *err)
{
  char *lines;
  if (t->sim.policies[0] == '\0')
    return 0;
  if (asprintf(&lines, "config=%s%s%s", t->sim.policies,
               t->sweep.sweep[0] != '\0' ? "\n" : "", t->sweep.sweep) < 0)
    return lls_fail(err, -ENOMEM, "no memory");
  free((char *)t->sweep.sweep);
  t->sweep.sweep = lines;
  return 0;
}

/* Replays a decision log: prints where the schedulers diverge, and writes this as JSON
 * to the file of --json. */
static int replay(const struct tool *t, struct lls_error *err)
{
  json_t *json = NULL;
  int rc = lls_sim_replay(&t->sim, &json, err);
  if (rc == 0 && t->sim.json[0] != '\0')
    rc = lls_report_write(json, t->sim.json, err);
  json_decref(json);
  return rc;
}

/* Runs one workload. Errors of the plot that can be found early are reported before the
 * run. */
static int run_one(struct tool *t, struct lls_error *err)
{
  bool plot = t->sweep.plot[0] != '\0';
  if (plot && t->sim.json[0] == '\0')
    return lls_fail(err, -EINVAL, "--plot of one run is drawn from its --json");
  int rc = plot ? lls_plot_check(t->sweep.plot, err) : 0;
  json_t *made = rc == 0 ? made_by(t, err) : NULL;
  if (made == NULL)
    return rc < 0 ? rc : -EINVAL;
  rc = simulate(t, t->sim.json, made, err);
  json_decref(made);
  const struct lls_plot_source source = {.path = t->sim.json, .name = ""};
  return rc == 0 && plot ? lls_plot(&source, 1, t->sweep.plot, err) : rc;
}

static int run_all(struct tool *t, struct lls_error *err)
{
  if (t->sim.replay[0] != '\0')
    return replay(t, err);
  int rc = sweep_policies(t, err);
  if (rc < 0)
    return rc;
  const struct lls_runner runner = {.made_by = made_by,
                                    .run = simulate,
                                    .context = t,
                                    .bound = t->bound,
                                    .n = N_GROUPS,
                                    .quiet = t->sim.quiet,
                                    .no_table = t->sim.quiet,
                                    .at_once = t->sim.device == LLS_SIM_DEVICE_SIM};
  return lls_sweep_wanted(&t->sweep) ? lls_sweep(&t->sweep, &runner, stdout, err)
                                     : run_one(t, err);
}

static int start(struct tool *t, struct lls_error *err)
{
  if (t->sim.version) {
    puts("llmserve-sim " PACKAGE_VERSION);
    return 0;
  }
  if (!t->sim.help)
    return run_all(t, err);
  fputs(usage, stdout);
  lls_options_help(t->bound, N_GROUPS, stdout);
  return 0;
}

int main(int argc, char **argv)
{
  struct tool t;
  struct lls_error err = {0};
  lls_crash_install();
  lls_crash_may_exit(); /* the tool itself may exit at any time, a plugin may not */
  t.bound[SIM] = (struct lls_bound_options){&lls_sim_option_group, &t.sim};
  t.bound[WORKLOAD] = (struct lls_bound_options){&lls_workload_option_group, &t.workload};
  t.bound[SWEEP] = (struct lls_bound_options){&lls_sweep_option_group, &t.sweep};
  spell_out(argc, argv);
  int rc = lls_options_default(t.bound, N_GROUPS, &err);
  if (rc == 0) {
    rc = lls_options_parse(t.bound, N_GROUPS, argc, argv, &err);
    if (rc == 0)
      rc = start(&t, &err);
    lls_options_release(t.bound, N_GROUPS);
  }
  if (rc == 0)
    return EXIT_SUCCESS;
  fprintf(stderr, "llmserve-sim: %s\n", lls_error_text(&err, rc));
  return rc == -EINVAL || rc == -ERANGE || rc == -ENOENT ? EXIT_USAGE : EXIT_FAILURE;
}
