/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a decision: CPU time of a scheduler's plan (with its calls to the cache
 * manager), of a cache manager's begin, or of a prediction, with 64, 1,600 and 16,000
 * active requests. A plan must take well under a millisecond with 1,600 (architecture,
 * "The step").
 */
#include <stdlib.h>

#include "tools/plugin-check/checks.h"

#define STEPS 40

static void ignore(void *context, const struct lls_event *event)
{
  (void)context;
  (void)event;
}

static int submit_all(struct scene *s, uint32_t n)
{
  int32_t tokens[100];
  int rc = 0;
  for (uint32_t i = 0; i < n && rc >= 0; i++) {
    uint64_t id;
    uint32_t prompt = 20 + i * 37 % 80;
    for (uint32_t k = 0; k < prompt; k++)
      tokens[k] = (int32_t)(3 + (i * 131 + k * 7) % 900);
    struct lls_submission submission = harness_submission(tokens, prompt, 300, NULL);
    submission.ignore_eos = false;
    submission.sampling.seed = 200 + i % 100;
    rc = lls_loop_submit(s->h.loop, &submission, &id, NULL);
  }
  return rc;
}

static int by_value(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Measures with memory for 64 running requests; the rest wait. Returns the median ns,
 * or -1 after a finding. */
static int64_t measure(const struct subject *s, struct findings *f, uint32_t n)
{
  const struct scene_options o = {
      .block_tokens = 16,
      .device_units = 64 * 10,
      .max_tokens = 2048,
      .max_sequences = 256,
      .max_context = 512,
      .max_requests = n,
      .seed = s->seed,
      .light = true,
  };
  struct scene scene;
  if (scene_open(&scene, s, &o, f) < 0)
    return -1;
  int rc = submit_all(&scene, n);
  for (int i = 0; i < STEPS && rc >= 0; i++) {
    rc = scene_step(&scene);
    lls_loop_events(scene.h.loop, ignore, NULL);
  }
  struct watch *w = &scene.watch;
  uint32_t samples = w->n_samples < MAX_SAMPLES ? w->n_samples : MAX_SAMPLES;
  qsort(w->samples, samples, sizeof *w->samples, by_value);
  int64_t median = samples > 0 ? w->samples[samples / 2] : 0;
  scene_close(&scene);
  if (rc < 0)
    found(f, "the engine stopped with %u requests", n);
  return rc < 0 ? -1 : median;
}

void check_time(const struct subject *s, struct findings *f)
{
  static const uint32_t alive[] = {64, 1600, 16000};
  static const char *const what[] = {
      [LLS_KIND_SCHEDULER] = "a plan",
      [LLS_KIND_CACHE] = "begin",
      [LLS_KIND_PREDICTOR] = "a prediction",
      [LLS_KIND_DRAFTER] = "a draft",
  };
  for (int i = 0; i < 3; i++) {
    int64_t ns = measure(s, f, alive[i]);
    int64_t limit_ns = i < 2 ? s->time_limit_ns : 10 * s->time_limit_ns;
    if (ns < 0)
      return;
    noted(f, "%s takes %.1f us with %u requests (median of CPU time)", what[s->kind],
          (double)ns / 1000, alive[i]);
    if (limit_ns > 0 && ns > limit_ns)
      found(f, "%s takes %.1f us with %u requests; at most %.1f us are good for serving",
            what[s->kind], (double)ns / 1000, alive[i], (double)limit_ns / 1000);
  }
}
