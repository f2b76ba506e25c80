/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llmserve-profile: measures this machine's engine over sampled steps and copies, fits
 * the cost model to three quarters of them, writes a profile for llmserve-sim, and
 * prints the fit's error on the quarter that was held out. The exit status is as
 * llmserve-sim's.
 */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/progress_bar.h"
#include "core/device/devices.h"
#include "core/device/quantised.h"
#include "core/assembly/options.h"
#include "tools/cli/cli.h"
#include "tools/profile/cores.h"
#include "tools/profile/learn.h"
#include "tools/profile/report.h"
#include "core/cost/find.h"
#include "core/plugin/crash.h"
#include "kernels/builtin.h"

#define EXIT_USAGE 2

struct options {
  const char *config, *set, *output, *steps, *like, *served;
  int64_t time, seed;
  bool cpu_time, quiet;
  bool help, version;
};

static const struct lls_param params[] = {
    LLS_PARAM_STRING(struct options, config, "",
                     "the configuration that is served (also -c): its model, engine and "
                     "cache are measured",
                     .flags = LLS_OPTION_FILE),
    LLS_PARAM_STRING(struct options, set, "",
                     "settings that count before the file's, as SECTION.KEY=VALUE",
                     .flags = LLS_OPTION_LIST),
    LLS_PARAM_STRING(struct options, output, "profile.ini", "the profile to write",
                     .flags = LLS_OPTION_FILE),
    LLS_PARAM_STRING(struct options, steps, "",
                     "write the measured steps there too, a line of CSV each",
                     .flags = LLS_OPTION_FILE),
    LLS_PARAM_STRING(struct options, like, "",
                     "a profile of this kind of device, as llmserve-sim's --profile: "
                     "what steps leave open keeps its values"),
    LLS_PARAM_STRING(struct options, served, "",
                     "measure nothing, but learn the profile from the steps that a busy "
                     "server tells of: what GET /admin/history answered",
                     .flags = LLS_OPTION_FILE),
    LLS_PARAM_DURATION(struct options, time, "1min", 1e9, 86400e9, "how long to measure"),
    LLS_PARAM_BOOL(struct options, cpu_time, "false",
                   "measure processor time: for an engine of one thread, on a machine "
                   "that does other things at the same time"),
    LLS_PARAM_INT(struct options, seed, "0", 0, 9e15, "", "of the steps measured"),
    LLS_PARAM_BOOL(struct options, quiet, "false", "show no progress"),
    LLS_PARAM_BOOL(struct options, help, "false", "show this"),
    LLS_PARAM_BOOL(struct options, version, "false", "show the version"),
};

static const struct lls_option_group group = {
    .title = "Options",
    .table = {.params = params,
              .n = sizeof params / sizeof *params,
              .size = sizeof(struct options)},
};

struct tool {
  struct options options;
  struct lls_config config;
  bool configured;
  struct lls_model_config model;
  struct lls_device *device;
  struct lls_engine *engine;
  struct lls_cost_shape shape;
  struct lls_shape_limits limits;
  struct lls_bench_engine bench;
  struct lls_profile_steps steps;
  struct lls_profile profile, like;
};

static int64_t cpu_ns(void *context)
{
  struct timespec t;
  (void)context;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * LLS_NS_PER_S + t.tv_nsec;
}

/* ---- setting up -------------------------------------------------------------------- */

#define MAX_SETTINGS 64

static int load_config(struct tool *t, struct lls_error *err)
{
  const char *lines = t->options.set, *line;
  const char *settings[MAX_SETTINGS];
  struct lls_config_errors errors = {0};
  size_t n = 0, length;
  int rc;
  for (; n < MAX_SETTINGS && (line = lls_option_next(&lines, &length)) != NULL; n++)
    settings[n] = strndup(line, length);
  if (n == MAX_SETTINGS && lls_option_next(&lines, &length) != NULL)
    rc = lls_fail(err, -EINVAL, "--set: expected at most %d settings", MAX_SETTINGS);
  else
    rc = lls_config_load_with(t->options.config[0] != '\0' ? t->options.config : NULL,
                              settings, n, &t->config, &errors);
  t->configured = rc == 0;
  if (errors.n > 0)
    lls_fail(err, rc, "%s", errors.list[0].error.text);
  lls_config_errors_free(&errors);
  for (size_t i = 0; i < n; i++)
    free((char *)settings[i]);
  return rc;
}

static int read_like(struct tool *t, struct lls_error *err)
{
  char *path;
  if (t->options.like[0] == '\0')
    return 0;
  int rc = lls_find_profile(t->options.like, &path, err);
  if (rc < 0)
    return rc;
  rc = lls_profile_read(path, &t->like, err);
  free(path);
  return rc;
}

/* Reads the model's shape, and opens the device without an engine. */
static int open_device(struct tool *t, struct lls_engine_options *engine,
                       struct lls_error *err)
{
  int rc = lls_generator_config_read(t->config.model.path, &t->model, err);
  if (rc < 0)
    return rc;
  struct lls_device_options device = lls_device_options_of(&t->config, &t->model);
  *engine = lls_engine_options_of(&t->config, &t->model);
  /* a profile has the rate of a copy of all layers; states are a group of their own */
  engine->groups = t->model.recurrent.conv_width > 0 ? 2 : 1;
  engine->keeps_states = true;
  lls_cost_shape_init(&t->shape, &t->model,
                      lls_weight_number_bytes(engine->weights, t->model.dtype),
                      (double)lls_dtype_bytes(engine->cache_element), 1);
  /* why `auto` chose no GPU; not printed, since the profile has the device's name */
  struct lls_error why_not;
  return lls_device_create(lls_device_choice_of(&t->config, &t->model),
                           &lls_builtin_devices, &device, &t->device, &why_not, err);
}

static int use_cpu_time(struct tool *t, struct lls_engine_options *engine,
                        struct lls_error *err)
{
  engine->clock = cpu_ns;
  if (t->config.engine.threads != 1)
    return lls_fail(err, -EINVAL,
                    "--cpu-time: expected an engine of one thread (engine.threads=1)");
  return t->device->is_host ? 0
                            : lls_fail(err, -EINVAL,
                                       "--cpu-time: expected an engine on the CPU "
                                       "(engine.device=cpu)");
}

static int open_engine(struct tool *t, struct lls_error *err)
{
  /* for measuring copies, if no host memory is configured */
  const size_t host_bytes = 64u << 20;
  struct lls_engine_options engine;
  struct lls_progress loading;
  int rc = open_device(t, &engine, err);
  if (rc == 0 && t->options.cpu_time)
    rc = use_cpu_time(t, &engine, err);
  if (rc < 0)
    return rc;
  if (engine.pool.host_memory == 0)
    engine.pool.host_memory = host_bytes;
  lls_progress_begin(&loading, !t->options.quiet, "llmserve-profile");
  engine.progress = lls_progress_weights;
  engine.progress_context = &loading;
  rc = lls_engine_create(&engine, &t->model, t->device, &t->engine, err);
  lls_progress_end(&loading);
  if (rc < 0)
    return rc;
  const struct lls_engine_caps *caps = lls_engine_caps(t->engine);
  const struct lls_pool_shape *pool = lls_engine_pool_shape(t->engine);
  t->limits = (struct lls_shape_limits){
      .max_rows = caps->max_step_tokens,
      .max_sequences = caps->max_sequences,
      .max_context = caps->max_context,
      .cache_tokens = (uint32_t)lls_pool_tokens(pool, pool->device_units),
      .block_tokens = pool->block_tokens,
  };
  return lls_bench_engine_init(&t->bench, t->engine, err);
}

static void close_all(struct tool *t)
{
  lls_profile_steps_free(&t->steps);
  lls_profile_free(&t->like);
  lls_bench_engine_free(&t->bench);
  lls_engine_destroy(t->engine);
  if (t->device != NULL)
    t->device->ops->destroy(t->device);
  if (t->configured)
    lls_config_free(&t->config);
}

/* ---- copies ------------------------------------------------------------------------ */

static int median_copy(struct tool *t, uint32_t blocks, double *ns, struct lls_error *err)
{
  double times[15];
  const size_t n = sizeof times / sizeof *times;
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < n; i++)
    rc = lls_bench_copy(&t->bench, blocks, &times[i], err);
  *ns = lls_median(times, n);
  return rc;
}

/* Latency and bandwidth of the line through copies of few blocks and of many. */
static int measure_copies(struct tool *t, struct lls_profile_link *out,
                          struct lls_error *err)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(t->engine);
  uint32_t most =
      pool->host_units < pool->device_units ? pool->host_units : pool->device_units;
  double few_ns, many_ns, bytes = (double)lls_form_bytes(pool, LLS_FORM_KV);
  most /= lls_form_units(pool, LLS_FORM_KV);
  if (most < 2)
    return 0;
  most = most < 128 ? most : 128;
  int rc = median_copy(t, 1, &few_ns, err);
  if (rc == 0)
    rc = median_copy(t, most, &many_ns, err);
  if (rc < 0)
    return rc;
  double block_ns = fmax(many_ns - few_ns, 1) / (most - 1);
  out->bandwidth = bytes / block_ns;
  out->latency = llround(fmax(few_ns - block_ns, 0));
  return 0;
}

/* ---- steps ------------------------------------------------------------------------- */

static int run_rounds(struct tool *t, struct lls_profile_steps *out,
                      struct lls_error *err)
{
  const struct lls_profile_rounds_options o = {.time_ns = t->options.time,
                                               .seed = (uint64_t)t->options.seed,
                                               .quiet = t->options.quiet};
  return lls_profile_rounds(&t->bench, &t->limits, &o, out, err);
}

/* Did other processes disturb the measurements? They cannot with --cpu-time. */
static bool disturbed(const struct tool *t)
{
  return !t->options.cpu_time && lls_cores_disturbed(t->steps.lost, t->steps.noise);
}

/* Measures once more, and keeps the less disturbed of both. */
static int run_again(struct tool *t, struct lls_error *err)
{
  struct lls_profile_steps again = {0};
  fprintf(stderr,
          "llmserve-profile: other processes had the cores for %.0f %% of the time in "
          "which this one was to run (noise: %.0f %%): measuring once more\n",
          100 * t->steps.lost, 100 * (t->steps.noise - 1));
  int rc = run_rounds(t, &again, err);
  bool better = rc == 0 && again.lost + again.noise < t->steps.lost + t->steps.noise;
  if (better) {
    struct lls_profile_steps first = t->steps;
    t->steps = again;
    again = first;
  }
  lls_profile_steps_free(&again);
  return rc;
}

/* ---- fitting ----------------------------------------------------------------------- */

/* The share of the device's memory for weights, buffers and cache, at least the lower
 * limit of a profile. On a GPU this memory is already taken. */
static double memory_share(const struct tool *t, size_t total, size_t available)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(t->engine);
  size_t taken = lls_engine_weight_bytes(t->engine) + lls_engine_buffer_bytes(t->engine) +
                 pool->device_units * lls_unit_bytes(pool);
  const double digits = 1e6; /* that a profile has: rounded up, so that it all fits */
  double share = (double)(t->device->has_own_memory ? taken : available) / (double)total;
  return fmax(fmin(ceil(share * digits) / digits, 1), LLS_PROFILE_LEAST_MEMORY);
}

/* used: number of steps that the profile was fitted to */
static int write_profile(struct tool *t, size_t used, const char *comment,
                         struct lls_error *err)
{
  size_t total, available;
  char name[256];
  int rc = t->device->ops->memory(t->device, &total, &available);
  if (rc < 0)
    return rc;
  t->device->ops->identify(t->device, name, sizeof name);
  t->profile.device.name = name;
  t->profile.device.memory = (int64_t)total;
  /* without an engine: the value that fits the server */
  t->profile.efficiency.memory =
      t->engine != NULL ? memory_share(t, total, available) : 1;
  rc = lls_profile_write(t->options.output, &t->profile, comment, err);
  struct lls_cost_rates rates;
  lls_cost_rates_init(&rates, &t->profile, &t->shape);
  if (rc == 0)
    lls_profile_print_fit(&t->steps, used, &rates);
  if (rc == 0 && t->options.steps[0] != '\0')
    rc = lls_profile_write_steps(t->options.steps, &t->steps, used, &rates, err);
  t->profile.device.name = NULL;
  return rc;
}

static int fit(struct tool *t, struct lls_error *err)
{
  size_t used = lls_profile_set_aside(&t->steps);
  char comment[256];
  const struct lls_profile *like = t->options.like[0] != '\0' ? &t->like : NULL;
  int rc = lls_profile_fit(t->steps.points, used, &t->shape, t->limits.max_rows, like,
                           &t->profile, err);
  if (rc == 0)
    rc = measure_copies(t, &t->profile.host_link, err);
  snprintf(comment, sizeof comment, "Measured by llmserve-profile%s%s",
           like != NULL ? ", beside a profile of this kind of device."
                        : "; bandwidth and matrix are the best rates seen.",
           disturbed(t) ? " Disturbed: other processes had the cores." : "");
  return rc == 0 ? write_profile(t, used, comment, err) : rc;
}

/* ---- learning ---------------------------------------------------------------------- */

static int learn(struct tool *t, struct lls_error *err)
{
  struct lls_engine_options engine;
  size_t used = 0;
  const struct lls_profile *like = t->options.like[0] != '\0' ? &t->like : NULL;
  int rc = t->config.engine.tensor_parallel_size > 1
               ? lls_fail(err, -ENOTSUP,
                          "--served: steps of several ranks ([engine] "
                          "tensor_parallel_size) do not tell what one of them can do")
               : open_device(t, &engine, err);
  if (rc == 0)
    rc = lls_profile_learn(t->options.served, &t->shape, like, &t->steps, &used,
                           &t->profile, err);
  return rc == 0 ? write_profile(t, used,
                                 "Learnt by llmserve-profile from the steps of a server; "
                                 "of batches that it has not run it knows nothing.",
                                 err)
                 : rc;
}

static int measure(struct tool *t, struct lls_error *err)
{
  int rc = open_engine(t, err);
  if (rc == 0)
    rc = run_rounds(t, &t->steps, err);
  if (rc == 0 && disturbed(t))
    rc = run_again(t, err);
  if (rc == 0 && disturbed(t))
    fprintf(stderr,
            "llmserve-profile: still disturbed: steps are taken to be longer than they "
            "are; measure again when the machine does nothing else\n");
  return rc == 0 ? fit(t, err) : rc;
}

static int profile(struct tool *t, struct lls_error *err)
{
  if (t->options.version) {
    puts("llmserve-profile " PACKAGE_VERSION);
    return 0;
  }
  if (t->options.help) {
    puts("Usage: llmserve-profile -c CONFIGURATION [OPTION]...\n"
         "Measures the engine that a configuration serves with and writes a profile of\n"
         "it for llmserve-sim.");
    const struct lls_bound_options bound = {&group, &t->options};
    lls_options_help(&bound, 1, stdout);
    return 0;
  }
  int rc = load_config(t, err);
  if (rc == 0)
    rc = read_like(t, err);
  if (rc == 0)
    rc = t->options.served[0] != '\0' ? learn(t, err) : measure(t, err);
  return rc;
}

int main(int argc, char **argv)
{
  static char config[] = "--config";
  struct tool t = {.configured = false};
  const struct lls_bound_options bound = {&group, &t.options};
  struct lls_error err = {0};
  lls_crash_install();
  lls_crash_may_exit(); /* the tool itself may exit at any time, a plugin may not */
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "-c") == 0)
      argv[i] = config;
  int rc = lls_options_default(&bound, 1, &err);
  if (rc == 0) {
    rc = lls_options_parse(&bound, 1, argc, argv, &err);
    if (rc == 0)
      rc = profile(&t, &err);
    close_all(&t);
    lls_options_release(&bound, 1);
  }
  if (rc == 0)
    return EXIT_SUCCESS;
  fprintf(stderr, "llmserve-profile: %s\n", lls_error_text(&err, rc));
  return rc == -EINVAL || rc == -ERANGE || rc == -ENOENT ? EXIT_USAGE : EXIT_FAILURE;
}
