/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/step: the time of a whole step outside the forward pass (drain, plan, place,
 * commit), with 1, 64 and 512 running requests and 1,600 waiting, for each shipped
 * scheduler.
 *
 * A one-layer random model keeps the forward pass short; its time, as the engine measures
 * it, is subtracted. No step finishes or admits a request: max_sequences is the number of
 * running requests, so that the other requests wait, and the plan sees all of them.
 * Goal: p99 <= 200 us at 512 running. "A look" is the increase of the median if every
 * step copies its queues for the console.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/steps.h"

#define WAITING 1600
#define STEPS   500
#define PROMPT  32

static int submit(struct harness *h, uint32_t n)
{
  int32_t prompt[PROMPT];
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t t = 0; t < PROMPT; t++)
      prompt[t] = (int32_t)((i * 31 + t * 7) % 256);
    /* lengths differ, so that not all requests need their next block in one step */
    struct lls_submission s = harness_submission(prompt, 1 + i % PROMPT, 4000, NULL);
    uint64_t id;
    int rc = lls_loop_submit(h->loop, &s, &id, NULL);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* Makes steps until `running` requests decode. */
static void warm_up(struct harness *h, uint32_t running)
{
  struct lls_loop_status status = {0};
  for (uint32_t i = 0; i < 100000 && status.running < running; i++) {
    lls_loop_step(h->loop);
    lls_loop_events(h->loop, steps_ignore_event, NULL);
    lls_loop_status(h->loop, &status);
  }
  for (uint32_t i = 0; i < 50; i++) {
    lls_loop_step(h->loop);
    lls_loop_events(h->loop, steps_ignore_event, NULL);
  }
}

/* Writes the microseconds of each step minus those of its forward pass, sorted. With
 * `look` every step copies its queues, as /admin/queues and /admin/events request once
 * a second. */
static void measure(struct harness *h, bool look, double *us)
{
  struct lls_loop_status before, after;
  lls_loop_status(h->loop, &before);
  for (uint32_t i = 0; i < STEPS; i++) {
    if (look && lls_loop_ask_snapshot(h->loop) < 0)
      return;
    lls_loop_step(h->loop);
    (void)lls_loop_snapshot_ready(h->loop);
    lls_loop_status(h->loop, &after);
    us[i] = (double)(after.step_ns_sum - before.step_ns_sum -
                     (after.device_ns_sum - before.device_ns_sum)) /
            1e3;
    before = after;
    lls_loop_events(h->loop, steps_ignore_event, NULL);
  }
  qsort(us, STEPS, sizeof *us, bench_compare);
}

static int bench(const char *folder, const char *scheduler, uint32_t running)
{
  char number[16];
  snprintf(number, sizeof number, "%u", running);
  const char *parameters[] = {"max_seqs", number, NULL};
  struct harness_options options = {
      .model = folder,
      .dummy = true,
      .element = LLS_F32,
      .max_tokens = 2048,
      .max_sequences = running,
      .max_requests = running + WAITING,
      .block_tokens = 16,
      .device_units = 2 * running * (4096 / 16),
      .scheduler = {scheduler, parameters},
      .cache = {"paged", NULL},
      .predictor = {"none", NULL},
      .threads = 2,
  };
  struct harness h;
  struct lls_error err = {0};
  int rc = harness_open(&h, &options, &err);
  if (rc == 0)
    rc = submit(&h, running + WAITING);
  if (rc < 0) {
    fprintf(stderr, "bench/step: %s\n", lls_error_text(&err, rc));
    return rc;
  }
  warm_up(&h, running);
  static double us[STEPS], looked[STEPS];
  measure(&h, false, us);
  measure(&h, true, looked);
  printf("%-8s %7u %7u %9.1f %9.1f %9.1f %9.1f\n", scheduler, running, WAITING,
         us[STEPS / 2], us[STEPS * 99 / 100], us[STEPS - 1],
         looked[STEPS / 2] - us[STEPS / 2]);
  fflush(stdout);
  harness_close(&h);
  return 0;
}

int main(void)
{
  struct steps_model model = {.layers = 1, .hidden = 8, .dtype = "float32"};
  int rc = steps_model_make(&model);
  if (rc < 0)
    return EXIT_FAILURE;
  printf("step time outside the forward pass, microseconds, %d steps\n", STEPS);
  printf("%-8s %7s %7s %9s %9s %9s %9s\n", "policy", "running", "waiting", "p50", "p99",
         "max", "a look");
  const char *schedulers[] = {"fcfs", "sarathi"};
  const uint32_t running[] = {1, 64, 512};
  for (size_t s = 0; s < 2 && rc == 0; s++)
    for (size_t r = 0; r < 3 && rc == 0; r++)
      rc = bench(model.folder, schedulers[s], running[r]);
  steps_model_remove(&model);
  return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
