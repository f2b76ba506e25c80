/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/gap: the host's critical path on an asynchronous device: the CPU time from the
 * results of a step to the launch of the next, during which a GPU is idle.
 *
 * The loop's thread, the policies, the engine and the CUDA device's host code are real.
 * Behind them is t/simt, which computes nothing here. On a GPU, the driver's launch and
 * the wake-up after an event come in addition. The model has 32 layers, all requests
 * decode, with whole blocks of 16 tokens.
 *
 * The first column treats the device as synchronous: no work is deferred to the time in
 * which the device computes, and no block table is kept (core/engine/table_cache.c).
 *
 * The limit is 3% of the step that Llama-3-8B in bf16 takes on an H200 at its best:
 * weights of 16.1 GB, or 16.1e9 operations a row, and 131,072 bytes of K and V a token,
 * over 4.8 TB/s and 989 Tflop/s.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>

#include "core/device/devices.h"
#include "bench/bench.h"
#include "bench/steps.h"

#define WINDOWS      9
#define WINDOW_STEPS 40
#define MAX_CONTEXT  4096
#define BLOCK        16

extern const struct lls_device_module lls_device_module; /* the emulated CUDA device */

static int submit(struct harness *h, uint32_t n, uint32_t context)
{
  static int32_t prompt[MAX_CONTEXT];
  for (uint32_t i = 0; i < n; i++) {
    uint32_t random = i + 1;
    for (uint32_t t = 0; t < context; t++) {
      random = random * 1664525u + 1013904223u;
      prompt[t] = (int32_t)(random >> 24);
    }
    /* lengths differ, so that not all requests need their next block in one step */
    struct lls_submission s = harness_submission(prompt, context - i % BLOCK, 2000, NULL);
    uint64_t id;
    int rc = lls_loop_submit(h->loop, &s, &id, NULL);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* Waits until the loop has made `steps` steps and `tokens` tokens, or has no requests
 * left. Returns the status. */
static struct lls_loop_status step_until(struct harness *h, uint64_t steps,
                                         uint64_t tokens)
{
  struct lls_loop_status status = {0};
  const struct timespec some = {.tv_nsec = 200000};
  while ((status.steps < steps || status.generated_tokens < tokens) &&
         !lls_loop_idle(h->loop)) {
    nanosleep(&some, NULL);
    lls_loop_events(h->loop, steps_ignore_event, NULL);
    lls_loop_status(h->loop, &status);
  }
  return status;
}

/* Writes microseconds a step for each window, sorted. Returns false if a request ended
 * before the last window. */
static bool measure(struct harness *h, uint32_t running, double *us)
{
  struct lls_loop_status before = step_until(h, 0, 20 * (uint64_t)running);
  int64_t idle_ns = simt_idle_ns();
  for (uint32_t i = 0; i < WINDOWS; i++) {
    struct lls_loop_status after = step_until(h, before.steps + WINDOW_STEPS, 0);
    int64_t now_ns = simt_idle_ns();
    us[i] = (double)(now_ns - idle_ns) / 1e3 / (double)(after.steps - before.steps);
    before = after;
    idle_ns = now_ns;
  }
  qsort(us, WINDOWS, sizeof *us, bench_compare);
  return before.running == running;
}

static bool asynchronous;

static int create_device(const struct lls_device_options *options,
                         struct lls_device **out, struct lls_error *err)
{
  int rc = lls_device_module.create(options, out, err);
  if (rc == 0)
    (*out)->asynchronous = asynchronous;
  return rc;
}

static int run(const char *folder, uint32_t running, uint32_t context, double *us)
{
  char number[16];
  const char *parameters[] = {"max_seqs", number, NULL};
  snprintf(number, sizeof number, "%u", running);
  struct harness_options options = {
      .model = folder,
      .dummy = true,
      .element = LLS_BF16,
      .max_tokens = 2048,
      .max_sequences = running,
      .max_requests = running,
      .block_tokens = BLOCK,
      .device_units = 2 * running * (MAX_CONTEXT / BLOCK),
      .no_hidden = true,
      .scheduler = {"fcfs", parameters},
      .cache = {"paged", NULL},
      .predictor = {"none", NULL},
      .create_device = create_device,
      .threaded = true,
  };
  struct harness h;
  struct lls_error err = {0};
  int rc = harness_open(&h, &options, &err);
  if (rc == 0)
    rc = submit(&h, running, context);
  if (rc < 0) {
    fprintf(stderr, "bench/gap: %s\n", lls_error_text(&err, rc));
    return rc;
  }
  bool good = measure(&h, running, us);
  harness_close(&h);
  if (!good)
    fprintf(stderr, "bench/gap: the machine is too busy: requests ended meanwhile\n");
  return good ? 0 : -EBUSY;
}

static double step_seconds(double running, double context)
{
  double weights = 16.1e9 / 4.8e12, products = 16.1e9 * running / 989e12;
  return (weights > products ? weights : products) + 131072 * running * context / 4.8e12;
}

/* Prints the medians for a synchronous and for the asynchronous device. */
static int bench(const char *folder, uint32_t running, uint32_t context)
{
  double before[WINDOWS], now[WINDOWS];
  asynchronous = false;
  int rc = run(folder, running, context, before);
  asynchronous = true;
  if (rc == 0)
    rc = run(folder, running, context, now);
  if (rc < 0)
    return rc;
  double limit = 0.03 * 1e6 * step_seconds(running, context);
  printf("%7u %8u %12.1f %12.1f %9.1f %9.2f\n", running, context, before[WINDOWS / 2],
         now[WINDOWS / 2], limit, now[WINDOWS / 2] / limit);
  fflush(stdout);
  return 0;
}

int main(int argc, char **argv)
{
  static const uint32_t all_running[] = {1, 64, 256, 512}, all_contexts[] = {128, 2048};
  struct steps_model model = {.layers = 32, .hidden = 64, .dtype = "bfloat16"};
  simt_only_host();
  if (argc != 1 && argc != 3) {
    fprintf(stderr, "usage: bench/gap [RUNNING CONTEXT]\n");
    return EXIT_FAILURE;
  }
  int rc = steps_model_make(&model);
  if (rc < 0)
    return EXIT_FAILURE;
  printf("CPU time from a step's results to the next launch, microseconds a step, median "
         "of %d windows of %d steps\n",
         WINDOWS, WINDOW_STEPS);
  printf("%7s %8s %12s %12s %9s %9s\n", "running", "context", "synchronous",
         "asynchronous", "limit", "ratio");
  if (argc == 3)
    rc = bench(model.folder, (uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2]));
  for (size_t c = 0; c < 2 && argc == 1 && rc == 0; c++)
    for (size_t r = 0; r < 4 && rc == 0; r++)
      rc = bench(model.folder, all_running[r], all_contexts[c]);
  steps_model_remove(&model);
  return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
