/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/plan: processor time of one plan of each shipped scheduler, with 64, 1,600 and
 * 16,000 active requests throughout (a finished request is replaced), of which up to 256
 * are in a step. Prompts have 100 to 500 tokens, answers 20 to 80, and memory suffices
 * for nine tenths of a full batch, so that requests arrive, finish and are preempted all
 * the time. Loop and plugins are real, the device is simulated. Classes, tenants,
 * deadlines and (perfect) predictions differ from request to request.
 *
 * Every run makes the same plans. The time of a plan is the least of five runs. "p99
 * once" is of a single run: three times as much on a shared machine, where other programs
 * evict the caches between two plans.
 *
 *   bench/plan [scheduler ...] [candidates ...]
 *
 * Goals: p99 <= 100 us with 1,600 candidates, <= 1,500 us with 16,000.
 */
#include "bench/bench.h"
#include "bench/simulated.h"
#include "core/loop/loop.h"
#include "t/shipped.h"

#define STEPS      2000
#define RUNS       5
#define VOCABULARY 50000
#define SEATS      256
#define MS         INT64_C(1000000)

struct load {
  struct harness h;
  uint64_t submitted;
  uint32_t missing; /* requests still to submit */
  int32_t prompt[500];
  double us[STEPS];
  double least[STEPS];
};

static void on_event(void *context, const struct lls_event *event)
{
  struct load *l = context;
  l->missing += event->kind == LLS_EVENT_FINISHED;
}

/* Submits the next request. All its properties depend on its number only, so that runs
 * are equal. */
static int submit(struct load *l)
{
  uint64_t k = l->submitted++;
  uint32_t prompt = 100 + (uint32_t)(k * 7919 % 401), output = 20 + k * 104729 % 61;
  for (uint32_t i = 0; i < prompt; i++)
    l->prompt[i] = (int32_t)((k * 31 + i * 7) % VOCABULARY);
  struct lls_submission s = harness_submission(l->prompt, prompt, output, NULL);
  s.ignore_eos = false;
  s.sampling.seed = output;
  s.request_class = k % 3;
  s.tenant = (uint32_t)(k * 31 % 100);
  s.slo.ttft_ns = (int64_t)(100 + k * 613 % 10000) * MS;
  s.slo.tbt_ns = k % 2 ? (int64_t)(20 + k % 80) * MS : LLS_NEVER;
  uint64_t id;
  return lls_loop_submit(l->h.loop, &s, &id, NULL);
}

static int64_t plan_ns_sum(const struct load *l)
{
  struct lls_loop_status status;
  lls_loop_status(l->h.loop, &status);
  return status.plan_ns_sum;
}

/* Makes n steps. Writes the time of each plan to us, unless that is NULL. */
static int run(struct load *l, uint32_t n, double *us)
{
  for (uint32_t i = 0; i < n; i++) {
    for (; l->missing > 0; l->missing--) {
      int rc = submit(l);
      if (rc < 0)
        return rc;
    }
    int64_t before = plan_ns_sum(l);
    int rc = lls_loop_step(l->h.loop);
    if (rc < 0)
      return rc;
    if (us != NULL)
      us[i] = (double)(plan_ns_sum(l) - before) / 1e3;
    lls_loop_events(l->h.loop, on_event, l);
  }
  return 0;
}

static double percentile(double *us, double part)
{
  qsort(us, STEPS, sizeof *us, bench_compare);
  return us[(uint32_t)(part * (STEPS - 1))];
}

static void print(struct load *l, const char *scheduler, uint32_t candidates)
{
  struct lls_loop_status status;
  lls_loop_status(l->h.loop, &status);
  uint64_t preempted = status.preempted_recompute + status.preempted_swap;
  printf("%-8s %10u %8.1f %8.1f %8.1f %8.1f %8.1f %9.2f\n", scheduler, candidates,
         percentile(l->least, 0.5), percentile(l->least, 0.99), percentile(l->least, 1),
         percentile(l->us, 0.99),
         (double)status.batch_sequences_sum / (double)status.steps,
         (double)preempted / (double)status.steps);
  if (status.plans_refused > 0)
    printf("  %llu plans were refused\n", (unsigned long long)status.plans_refused);
  fflush(stdout);
}

/* Runs the load again. The last run stays open, since its figures are printed. */
static int run_again(struct load *l, const struct harness_options *options,
                     uint32_t candidates, struct lls_error *err)
{
  for (uint32_t n = 0; n < RUNS; n++) {
    if (n > 0)
      harness_close(&l->h);
    l->submitted = 0;
    l->missing = candidates;
    int rc = harness_open(&l->h, options, err);
    if (rc < 0)
      return rc;
    rc = run(l, 500, NULL); /* warm-up, until running requests differ in age */
    if (rc >= 0)
      rc = run(l, STEPS, l->us);
    if (rc < 0) {
      harness_close(&l->h);
      return rc;
    }
    for (uint32_t i = 0; i < STEPS; i++)
      if (n == 0 || l->us[i] < l->least[i])
        l->least[i] = l->us[i];
  }
  return 0;
}

static int bench(const struct lls_sim_options *sim, const char *scheduler,
                 uint32_t candidates)
{
  uint32_t seats = candidates < SEATS ? candidates / 2 : SEATS;
  struct load *l = calloc(1, sizeof *l);
  struct lls_error err = {0};
  struct harness_options options = {
      .model = LLS_SRCDIR "/etc/profiles/models/opt-13b",
      .dummy = true,
      .element = LLS_BF16,
      .max_tokens = 2048,
      .max_sequences = seats,
      .max_requests = candidates,
      .block_tokens = 16,
      .device_units = 2 * seats * 20, /* a full batch of 350 tokens each needs 22 */
      .host_units = 2 * seats * 10,
      .scheduler = {scheduler, NULL},
      .cache = {"paged", NULL},
      .predictor = {"fixed", NULL},
      .sim = sim,
      .time_plans = true,
  };
  int rc = l != NULL ? run_again(l, &options, candidates, &err) : -ENOMEM;
  if (rc < 0) {
    fprintf(stderr, "bench/plan: %s\n", lls_error_text(&err, rc));
  } else {
    print(l, scheduler, candidates);
    harness_close(&l->h);
  }
  free(l);
  return rc;
}

#define MOST 16 /* most numbers of candidates on the command line */

static int bench_all(const struct lls_sim_options *sim, const char *const *schedulers,
                     size_t n, const uint32_t *candidates, size_t n_candidates)
{
  for (size_t s = 0; s < n; s++)
    for (size_t c = 0; c < n_candidates; c++)
      if (bench(sim, schedulers[s], candidates[c]) < 0)
        return EXIT_FAILURE;
  return EXIT_SUCCESS;
}

/* Reads the trailing numbers of the command line; returns how many. */
static size_t read_candidates(int argc, char **argv, uint32_t *out)
{
  int first = argc;
  while (first > 1 && argc - first < MOST && atoi(argv[first - 1]) > 1)
    first--;
  for (int i = first; i < argc; i++)
    out[i - first] = (uint32_t)atoi(argv[i]);
  return (size_t)(argc - first);
}

static const struct left_out left_out[] = {
    {"distserve", "plans for instances of two roles, which this bench has not"},
};

int main(int argc, char **argv)
{
  uint32_t candidates[MOST] = {64, 1600, 16000};
  size_t given = read_candidates(argc, argv, candidates);
  size_t named = (size_t)argc - 1 - given, n_candidates = given > 0 ? given : 3;
  struct lls_sim_options sim;
  if (!simulated_opt_13b(&sim))
    return EXIT_FAILURE;
  printf("processor time of a plan in microseconds, %d plans, the least of %d runs\n",
         STEPS, RUNS);
  printf("%-8s %10s %8s %8s %8s %8s %8s %9s\n", "policy", "candidates", "p50", "p99",
         "max", "p99 once", "batch", "preempted");
  if (named > 0)
    return bench_all(&sim, (const char *const *)argv + 1, named, candidates,
                     n_candidates);
  struct shipped shipped;
  const char *all[SHIPPED_MAX];
  if (!shipped_find_but(LLS_KIND_SCHEDULER, left_out, sizeof left_out / sizeof *left_out,
                        &shipped))
    return EXIT_FAILURE;
  for (uint32_t i = 0; i < shipped.n; i++)
    all[i] = shipped.names[i];
  return bench_all(&sim, all, shipped.n, candidates, n_candidates);
}
