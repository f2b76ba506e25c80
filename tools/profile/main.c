/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llmserve-profile: measures this machine's engine over sampled steps and copies, fits
 * the cost model to three quarters of them, writes a profile for llmserve-sim, and prints
 * how far the fit is off on the quarter it has not seen. Exit status as llmserve-sim's.
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
#include "core/device/sampling.h"
#include "core/assembly/options.h"
#include "tools/cli/cli.h"
#include "tools/profile/fit.h"
#include "tools/profile/measure.h"
#include "tools/sim/find.h"

#define EXIT_USAGE 2
#define HELD_OUT   4 /* every fourth step is kept from the fit */
#define MOST_STEPS 480
#define ROUNDS     16 /* at least: the shapes are as many as leave time for them, */
#define ROUNDS_GPU 3  /* where steps take as long each time */
#define FEWEST     96 /* or so many, if half of the time is enough for one round */
#define MOST_TIMES 64 /* rounds of which a time is kept */

struct options {
  const char *config, *set, *output, *steps, *like;
  int64_t time, seed;
  bool cpu_time;
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
    LLS_PARAM_DURATION(struct options, time, "1min", 1e9, 86400e9, "how long to measure"),
    LLS_PARAM_BOOL(struct options, cpu_time, "false",
                   "measure processor time: for an engine of one thread, on a machine "
                   "that does other things at the same time"),
    LLS_PARAM_INT(struct options, seed, "0", 0, 9e15, "", "of the steps measured"),
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
  struct lls_profile_point *steps; /* (n) */
  double (*times)[MOST_TIMES];     /* (n) of each step, one a round */
  uint32_t *order;                 /* (n) of a round */
  size_t n;
  double noise; /* medians of a step's times over their least */
  struct lls_profile profile, like;
};

static int64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * LLS_NS_PER_S + t.tv_nsec;
}

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
  int rc = 0;
  for (; n < MAX_SETTINGS && (line = lls_option_next(&lines, &length)) != NULL; n++)
    settings[n] = strndup(line, length);
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

static int open_engine(struct tool *t, struct lls_error *err)
{
  const size_t host_bytes = 64u << 20; /* for copies, if none are configured */
  int rc = lls_generator_config_read(t->config.model.path, &t->model, err);
  if (rc < 0)
    return rc;
  struct lls_device_options device = lls_device_options_of(&t->config, &t->model);
  struct lls_engine_options engine = lls_engine_options_of(&t->config, &t->model);
  if (t->options.cpu_time && t->config.engine.threads != 1)
    return lls_fail(err, -EINVAL,
                    "--cpu-time: expected an engine of one thread (engine.threads=1)");
  if (t->options.cpu_time)
    engine.clock = cpu_ns;
  if (engine.pool.host_memory == 0)
    engine.pool.host_memory = host_bytes;
  struct lls_progress loading;
  lls_progress_begin(&loading, true, "llmserve-profile");
  engine.progress = lls_progress_weights;
  engine.progress_context = &loading;
  struct lls_error why_not; /* why auto is no GPU: the profile has the device's name */
  rc = lls_device_create(lls_device_choice_of(&t->config, &t->model), &device, &t->device,
                         &why_not, err);
  if (rc == 0 && t->options.cpu_time && !t->device->is_host)
    rc = lls_fail(err, -EINVAL,
                  "--cpu-time: expected an engine on the CPU "
                  "(engine.device=cpu)");
  if (rc == 0)
    rc = lls_engine_create(&engine, &t->model, t->device, &t->engine, err);
  lls_progress_end(&loading);
  if (rc < 0)
    return rc;
  lls_cost_shape_init(&t->shape, &t->model,
                      lls_weight_number_bytes(engine.weights, t->model.dtype),
                      (double)lls_dtype_bytes(engine.cache_element), 1);
  const struct lls_engine_caps *caps = lls_engine_caps(t->engine);
  const struct lls_pool_shape *pool = lls_engine_pool_shape(t->engine);
  t->limits = (struct lls_shape_limits){
      .max_rows = caps->max_step_tokens,
      .max_sequences = caps->max_sequences,
      .max_context = caps->max_context,
      .cache_tokens = pool->device_units / 2 * pool->block_tokens,
      .block_tokens = pool->block_tokens,
  };
  return lls_bench_engine_init(&t->bench, t->engine, err);
}

static void close_all(struct tool *t)
{
  for (size_t i = 0; i < t->n; i++)
    free(t->steps[i].shape.parts);
  free(t->steps);
  free(t->times);
  free(t->order);
  lls_profile_free(&t->like);
  lls_bench_engine_free(&t->bench);
  lls_engine_destroy(t->engine);
  if (t->device != NULL)
    t->device->ops->destroy(t->device);
  if (t->configured)
    lls_config_free(&t->config);
}

/* ---- measuring --------------------------------------------------------------------- */

static int draw_one(struct tool *t, struct lls_error *err)
{
  struct lls_shape drawn = {.parts =
                                calloc(t->limits.max_sequences, sizeof *drawn.parts)};
  if (drawn.parts == NULL)
    return lls_fail(err, -ENOMEM, "no memory for steps to measure");
  lls_shape_draw(&t->limits, (uint64_t)t->options.seed, t->n, &drawn);
  t->steps[t->n++].shape = drawn;
  return 0;
}

struct progress {
  struct lls_progress shown;
  int64_t began_ns, until_ns;
  size_t runs; /* of steps, in all rounds */
};

/* Measuring ends with its time, not with a number. */
static void show(struct progress *p, size_t steps, uint32_t round)
{
  char more[64];
  double share = (double)(now_ns() - p->began_ns) / (double)(p->until_ns - p->began_ns);
  snprintf(more, sizeof more, "round %u of %zu shapes", round + 1, steps);
  const struct lls_progress_state state = {.share = share < 1 ? share : 1,
                                           .n = (double)++p->runs,
                                           .unit = "steps",
                                           .more = more};
  lls_progress_show(&p->shown, &state);
}

static bool more_steps(const struct tool *t, const struct progress *p)
{
  int64_t passed_ns = now_ns() - p->began_ns;
  int64_t rounds = lls_engine_is_asynchronous(t->engine) ? ROUNDS_GPU : ROUNDS;
  int64_t share = t->n < FEWEST ? 2 : rounds;
  return t->n < MOST_STEPS && passed_ns < t->options.time / share;
}

/* The first round draws steps as it goes, until its part of the time is over. */
static int first_round(struct tool *t, struct progress *p, struct lls_error *err)
{
  int rc = 0;
  while (rc == 0 && more_steps(t, p)) {
    rc = draw_one(t, err);
    if (rc == 0)
      rc = lls_bench_step(&t->bench, &t->steps[t->n - 1].shape, &t->times[t->n - 1][0],
                          err);
    show(p, t->n, 0);
  }
  return rc;
}

static int another_round(struct tool *t, uint32_t round, struct progress *p,
                         struct lls_error *err)
{
  const uint64_t seed = (uint64_t)t->options.seed + round;
  int rc = 0;
  for (size_t i = 0; i < t->n; i++)
    t->order[i] = (uint32_t)i;
  for (size_t i = 0; rc == 0 && i < t->n; i++) { /* Fisher and Yates' shuffle */
    double at = lls_sampling_uniform(seed, (uint32_t)i) * (double)(t->n - i);
    uint32_t *other = &t->order[i + (size_t)at], next = *other;
    *other = t->order[i];
    rc = lls_bench_step(&t->bench, &t->steps[next].shape, &t->times[next][round], err);
    show(p, t->n, round);
  }
  return rc;
}

static double mean_of(const double *times, uint32_t n)
{
  double sum = 0;
  for (uint32_t i = 0; i < n; i++)
    sum += times[i];
  return sum / n;
}

/*
 * Step times are compared by the means of their lower three quarters: a neighbour on the
 * same core makes some steps 1.4 times as long, and a median would be one or the other by
 * chance. What happens now and then (the machine's host has other guests) happens to a
 * server's steps too: all times are raised by what that is worth on average, but for each
 * step's worst time in sixteen.
 */
static int choose_times(struct tool *t, uint32_t rounds, struct lls_error *err)
{
  uint32_t n = rounds - 1, kept = n - n / 4, most = n - n / 16;
  double *above = calloc(2 * t->n + 1, sizeof *above), *raised = above + t->n;
  if (above == NULL)
    return lls_fail(err, -ENOMEM, "no memory for times");
  for (size_t i = 0; i < t->n; i++) {
    double *times = t->times[i] + 1;
    double median = lls_median(times, n); /* sorts them */
    t->steps[i].ns = mean_of(times, kept);
    raised[i] = mean_of(times, most) / t->steps[i].ns;
    above[i] = median / times[0];
  }
  t->noise = lls_median(above, t->n);
  double factor = lls_median(raised, t->n);
  for (size_t i = 0; i < t->n; i++)
    t->steps[i].ns *= factor;
  free(above);
  return 0;
}

/*
 * All steps, round after round and in a new order each time, so that whatever disturbs
 * the machine for a while, and what the step before leaves in its caches, meets every
 * step and not one step every time. The first round, which also meets the cache's memory
 * for the first time, does not count.
 */
static int measure_steps(struct tool *t, struct lls_error *err)
{
  struct progress p = {.began_ns = now_ns()};
  p.until_ns = p.began_ns + t->options.time;
  lls_progress_begin(&p.shown, true, "llmserve-profile");
  t->steps = calloc(MOST_STEPS, sizeof *t->steps);
  t->times = calloc(MOST_STEPS, sizeof *t->times);
  t->order = calloc(MOST_STEPS, sizeof *t->order);
  if (t->steps == NULL || t->times == NULL || t->order == NULL)
    return lls_fail(err, -ENOMEM, "no memory for steps");
  int rc = first_round(t, &p, err);
  uint32_t rounds = 1;
  int64_t took_ns = 0; /* the round before: there is time for another one like it */
  for (int64_t at_ns = now_ns();
       rc == 0 && rounds < MOST_TIMES && (rounds < 2 || at_ns + took_ns < p.until_ns);
       rounds++) {
    rc = another_round(t, rounds, &p, err);
    took_ns = now_ns() - at_ns;
    at_ns += took_ns;
  }
  if (rc == 0)
    rc = choose_times(t, rounds, err);
  lls_progress_end(&p.shown);
  return rc;
}

static int median_copy(struct tool *t, uint32_t units, double *ns, struct lls_error *err)
{
  double times[15];
  const size_t n = sizeof times / sizeof *times;
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < n; i++)
    rc = lls_bench_copy(&t->bench, units, &times[i], err);
  *ns = lls_median(times, n);
  return rc;
}

/* Latency and bandwidth of the line through copies of few units and of many. */
static int measure_copies(struct tool *t, struct lls_profile_link *out,
                          struct lls_error *err)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(t->engine);
  uint32_t most =
      pool->host_units < pool->device_units ? pool->host_units : pool->device_units;
  double few_ns, many_ns, bytes = (double)lls_unit_bytes(pool);
  if (most < 2)
    return 0;
  most = most < 256 ? most : 256;
  int rc = median_copy(t, 1, &few_ns, err);
  if (rc == 0)
    rc = median_copy(t, most, &many_ns, err);
  if (rc < 0)
    return rc;
  double unit_ns = fmax(many_ns - few_ns, 1) / (most - 1);
  out->bandwidth = bytes / unit_ns;
  out->latency = llround(fmax(few_ns - unit_ns, 0));
  return 0;
}

/* ---- fitting ----------------------------------------------------------------------- */

/* Every HELD_OUT-th step at the end, the others before it in their order. */
static size_t set_aside(struct tool *t)
{
  size_t used = 0;
  for (size_t i = 0; i < t->n; i++)
    if (i % HELD_OUT != HELD_OUT - 1) {
      struct lls_profile_point m = t->steps[i];
      t->steps[i] = t->steps[used];
      t->steps[used++] = m;
    }
  return used;
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_errors(const char *what, const struct lls_cost_rates *rates,
                         const struct lls_profile_point *m, size_t n, int kind)
{
  static double errors[MOST_STEPS];
  size_t k = 0;
  for (size_t i = 0; i < n; i++)
    if (kind < 0 || m[i].shape.kind == (uint32_t)kind)
      errors[k++] = 100 * fabs(lls_shape_ns(rates, &m[i].shape) / m[i].ns - 1);
  if (k == 0)
    return;
  qsort(errors, k, sizeof *errors, compare);
  printf("%-22s %6zu %9.1f %9.1f %9.1f\n", what, k, errors[k / 2], errors[k * 95 / 100],
         errors[k - 1]);
}

static void print_fit(const struct tool *t, size_t used)
{
  struct lls_cost_rates rates;
  const struct lls_profile_point *held = t->steps + used;
  size_t n = t->n - used;
  lls_cost_rates_init(&rates, &t->profile, &t->shape);
  printf("%-22s %6s %9s %9s %9s\n", "relative error, %", "steps", "median", "p95", "max");
  print_errors("of the fit", &rates, t->steps, used, -1);
  print_errors("held out", &rates, held, n, -1);
  print_errors("  prefill chunks", &rates, held, n, LLS_SHAPE_CHUNK);
  print_errors("  decodes", &rates, held, n, LLS_SHAPE_DECODE);
  print_errors("  both", &rates, held, n, LLS_SHAPE_MIXED);
  printf("noise: the same step's median is %.0f %% above its least time\n",
         100 * (t->noise - 1));
}

/* The fit's inputs of a step, and its estimate; held: kept from the fit. */
static void write_step(FILE *out, const struct lls_cost_rates *rates,
                       const struct lls_profile_point *m, bool held)
{
  double rows = 0, drawn = 0, pairs = 0, cached = 0;
  for (uint32_t i = 0; i < m->shape.n; i++) {
    const struct lls_shape_part *p = &m->shape.parts[i];
    rows += p->tokens;
    drawn += p->drawn;
    if (p->tokens > 1)
      pairs += p->tokens * (p->context + (p->tokens + 1) / 2.0);
    else
      cached += p->context + 1.0;
  }
  fprintf(out, "%u,%u,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%d", m->shape.kind, m->shape.n, rows,
          drawn, pairs, cached, m->ns, lls_shape_ns(rates, &m->shape), held);
  for (uint32_t i = 0; i < m->shape.n; i++)
    fprintf(out, "%c%u+%u", i == 0 ? ',' : ' ', m->shape.parts[i].tokens,
            m->shape.parts[i].context);
  fputc('\n', out);
}

static int write_steps(const struct tool *t, size_t used, struct lls_error *err)
{
  struct lls_cost_rates rates;
  FILE *out = fopen(t->options.steps, "we");
  if (out == NULL)
    return lls_fail(err, -errno, "%s: cannot be written: %s", t->options.steps,
                    strerror(errno));
  lls_cost_rates_init(&rates, &t->profile, &t->shape);
  fputs("kind,sequences,rows,drawn,pairs,cached,ns,fitted_ns,held_out,parts\n", out);
  for (size_t i = 0; i < t->n; i++)
    write_step(out, &rates, &t->steps[i], i >= used);
  return fclose(out) == 0
             ? 0
             : lls_fail(err, -EIO, "%s: cannot be written", t->options.steps);
}

/* The part of the device's memory that weights, buffers and cache may have, no less than
 * a profile may say: on a GPU they have taken it. */
static double memory_share(const struct tool *t, size_t total, size_t available)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(t->engine);
  size_t taken = lls_engine_weight_bytes(t->engine) + lls_engine_buffer_bytes(t->engine) +
                 pool->device_units * lls_unit_room(pool, false);
  const double digits = 1e6; /* that a profile has: rounded up, so that it all fits */
  double share = (double)(t->device->has_own_memory ? taken : available) / (double)total;
  return fmax(fmin(ceil(share * digits) / digits, 1), LLS_PROFILE_LEAST_MEMORY);
}

static int fit(struct tool *t, struct lls_error *err)
{
  size_t used = set_aside(t), total, available;
  char name[256];
  const struct lls_profile *like = t->options.like[0] != '\0' ? &t->like : NULL;
  int rc = lls_profile_fit(t->steps, used, &t->shape, t->limits.max_rows, like,
                           &t->profile, err);
  if (rc == 0)
    rc = measure_copies(t, &t->profile.host_link, err);
  if (rc == 0)
    rc = t->device->ops->memory(t->device, &total, &available);
  if (rc < 0)
    return rc;
  t->device->ops->identify(t->device, name, sizeof name);
  t->profile.device.name = name;
  t->profile.device.memory = (int64_t)total;
  t->profile.efficiency.memory = memory_share(t, total, available);
  rc = lls_profile_write(t->options.output, &t->profile,
                         like != NULL
                             ? "Measured by llmserve-profile, beside a profile of "
                               "this kind of device."
                             : "Measured by llmserve-profile; bandwidth and "
                               "matrix are the best rates seen.",
                         err);
  if (rc == 0)
    print_fit(t, used);
  if (rc == 0 && t->options.steps[0] != '\0')
    rc = write_steps(t, used, err);
  t->profile.device.name = NULL;
  return rc;
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
    rc = open_engine(t, err);
  if (rc == 0)
    rc = measure_steps(t, err);
  return rc == 0 ? fit(t, err) : rc;
}

int main(int argc, char **argv)
{
  static char config[] = "--config";
  struct tool t = {.n = 0};
  const struct lls_bound_options bound = {&group, &t.options};
  struct lls_error err = {0};
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
