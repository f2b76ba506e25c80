/* SPDX-License-Identifier: Apache-2.0 */
/* Measures steps in rounds; see rounds.h. */
#include "tools/profile/rounds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/progress_bar.h"
#include "core/device/sampling.h"
#include "tools/profile/cores.h"

#define MOST_STEPS LLS_MOST_PROFILE_STEPS
#define ROUNDS     16 /* least number: as many shapes are drawn as leave time for it, */
#define ROUNDS_GPU 3  /* least number on a GPU, whose steps hardly vary */
/* shapes at least, if half of the time suffices for one round of them */
#define FEWEST     96
#define MOST_TIMES 64 /* most rounds whose times are kept */

struct rounds {
  struct lls_bench_engine *bench;
  const struct lls_shape_limits *limits;
  struct lls_profile_steps *steps;
  uint64_t seed;
  double (*times)[MOST_TIMES]; /* (n) times of each step, one a round */
  uint32_t *order;             /* (n) order of the steps in a round */
  struct lls_progress shown;
  int64_t began_ns, time_ns;
  size_t runs; /* steps run, in all rounds */
};

static int64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * LLS_NS_PER_S + t.tv_nsec;
}

/* Shows the progress by time, since the time and not a number of rounds ends the
 * measurement. */
static void show(struct rounds *r, uint32_t round)
{
  char more[64];
  double share = (double)(now_ns() - r->began_ns) / (double)r->time_ns;
  snprintf(more, sizeof more, "round %u of %zu shapes", round + 1, r->steps->n);
  const struct lls_progress_state state = {.share = share < 1 ? share : 1,
                                           .n = (double)++r->runs,
                                           .unit = "steps",
                                           .more = more};
  lls_progress_show(&r->shown, &state);
}

static int measure(struct rounds *r, uint32_t step, uint32_t round, struct lls_error *err)
{
  int rc = lls_bench_step(r->bench, &r->steps->points[step].shape, &r->times[step][round],
                          err);
  show(r, round);
  return rc;
}

static int draw_one(struct rounds *r, struct lls_error *err)
{
  struct lls_profile_steps *steps = r->steps;
  struct lls_shape drawn = {.parts =
                                calloc(r->limits->max_sequences, sizeof *drawn.parts)};
  if (drawn.parts == NULL)
    return lls_fail(err, -ENOMEM, "no memory for steps to measure");
  lls_shape_draw(r->limits, r->seed, steps->n, &drawn);
  steps->points[steps->n++].shape = drawn;
  return 0;
}

static bool more_steps(const struct rounds *r)
{
  int64_t passed_ns = now_ns() - r->began_ns;
  int64_t rounds = lls_engine_is_asynchronous(r->bench->engine) ? ROUNDS_GPU : ROUNDS;
  int64_t share = r->steps->n < FEWEST ? 2 : rounds;
  return r->steps->n < MOST_STEPS && passed_ns < r->time_ns / share;
}

/* The first round draws new steps until its share of the time is over. */
static int first_round(struct rounds *r, struct lls_error *err)
{
  int rc = 0;
  while (rc == 0 && more_steps(r)) {
    rc = draw_one(r, err);
    if (rc == 0)
      rc = measure(r, (uint32_t)r->steps->n - 1, 0, err);
  }
  return rc;
}

static int another_round(struct rounds *r, uint32_t round, struct lls_error *err)
{
  size_t n = r->steps->n;
  int rc = 0;
  for (size_t i = 0; i < n; i++)
    r->order[i] = (uint32_t)i;
  for (size_t i = 0; rc == 0 && i < n; i++) { /* Fisher and Yates' shuffle */
    double at = lls_sampling_uniform(r->seed + round, (uint32_t)i) * (double)(n - i);
    uint32_t *other = &r->order[i + (size_t)at], next = *other;
    *other = r->order[i];
    rc = measure(r, next, round, err);
  }
  return rc;
}

/* Runs further rounds as long as there is time for one like the last. */
static int all_rounds(struct rounds *r, uint32_t *rounds, struct lls_error *err)
{
  const int64_t until_ns = r->began_ns + r->time_ns;
  int64_t took_ns = 0;
  int rc = first_round(r, err);
  *rounds = 1;
  for (int64_t at_ns = now_ns();
       rc == 0 && *rounds < MOST_TIMES && (*rounds < 2 || at_ns + took_ns < until_ns);
       ++*rounds) {
    rc = another_round(r, *rounds, err);
    took_ns = now_ns() - at_ns;
    at_ns += took_ns;
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
 * Step times are compared by the means of their lower three quarters: another process
 * on the same core makes some steps 1.4 times as long, and a median would fall on
 * either side by chance. Occasional disturbances (the machine's host has other guests)
 * also happen to a server's steps. So all times are raised by the average effect of
 * disturbances, without each step's worst sixteenth of times.
 */
static int choose_times(struct rounds *r, uint32_t rounds, struct lls_error *err)
{
  uint32_t n = rounds - 1, kept = n - n / 4, most = n - n / 16;
  size_t n_steps = r->steps->n;
  double *above = calloc(2 * n_steps + 1, sizeof *above), *raised = above + n_steps;
  if (above == NULL)
    return lls_fail(err, -ENOMEM, "no memory for times");
  for (size_t i = 0; i < n_steps; i++) {
    double *times = r->times[i] + 1;
    double median = lls_median(times, n); /* sorts the times, too */
    r->steps->points[i].ns = mean_of(times, kept);
    raised[i] = mean_of(times, most) / r->steps->points[i].ns;
    above[i] = median / times[0];
  }
  r->steps->noise = lls_median(above, n_steps);
  double factor = lls_median(raised, n_steps);
  for (size_t i = 0; i < n_steps; i++)
    r->steps->points[i].ns *= factor;
  free(above);
  return 0;
}

int lls_profile_rounds(struct lls_bench_engine *bench,
                       const struct lls_shape_limits *limits,
                       const struct lls_profile_rounds_options *o,
                       struct lls_profile_steps *out, struct lls_error *err)
{
  struct rounds r = {.bench = bench,
                     .limits = limits,
                     .steps = out,
                     .seed = o->seed,
                     .time_ns = o->time_ns};
  struct lls_core_time from, to;
  uint32_t rounds;
  int rc;
  r.began_ns = now_ns();
  lls_core_time_read(&from);
  out->points = calloc(MOST_STEPS, sizeof *out->points);
  r.times = calloc(MOST_STEPS, sizeof *r.times);
  r.order = calloc(MOST_STEPS, sizeof *r.order);
  if (out->points == NULL || r.times == NULL || r.order == NULL) {
    rc = lls_fail(err, -ENOMEM, "no memory for steps");
  } else {
    lls_progress_begin(&r.shown, !o->quiet, "llmserve-profile");
    rc = all_rounds(&r, &rounds, err);
    lls_core_time_read(&to);
    out->lost = lls_core_time_lost(&from, &to);
    if (rc == 0)
      rc = choose_times(&r, rounds, err);
    lls_progress_end(&r.shown);
  }
  free(r.times);
  free(r.order);
  return rc;
}
