/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/sim: simulated decode tokens per second of one core's processor time, fcfs over
 * paged, with a constant number of active requests (a finished request is replaced;
 * prompts of 100 to 500 tokens, answers of 100 to 400, OPT-13B on an A100-80G with memory
 * for all). Loop, engine code and plugins are real; only the device is simulated. Goal:
 * 1,000,000 a second.
 */
#include "bench/bench.h"
#include "bench/simulated.h"

#define TOKENS     4000000 /* tokens in the measured part */
#define VOCABULARY 50000

struct load {
  struct harness h;
  uint64_t submitted, tokens;
  uint32_t missing; /* requests still to submit */
  int32_t prompt[500];
};

static void on_event(void *context, const struct lls_event *event)
{
  struct load *l = context;
  if (event->kind == LLS_EVENT_TOKEN)
    l->tokens++;
  else
    l->missing++;
}

/* Submits the next request. Its lengths depend on its number only, so that runs are
 * equal. */
static int submit(struct load *l)
{
  uint64_t k = l->submitted++;
  uint32_t prompt = 100 + (uint32_t)(k * 7919 % 401);
  for (uint32_t i = 0; i < prompt; i++)
    l->prompt[i] = (int32_t)((k * 31 + i * 7) % VOCABULARY);
  struct lls_submission s = harness_submission(l->prompt, prompt, 1024, NULL);
  s.ignore_eos = false;
  s.sampling.seed = 100 + k * 104729 % 301;
  uint64_t id;
  return lls_loop_submit(l->h.loop, &s, &id, NULL);
}

static int run(struct load *l, uint64_t tokens)
{
  int rc = 0;
  for (uint64_t until = l->tokens + tokens; rc >= 0 && l->tokens < until;) {
    for (; l->missing > 0 && rc >= 0; l->missing--)
      rc = submit(l);
    if (rc >= 0)
      rc = lls_loop_step(l->h.loop);
    lls_loop_events(l->h.loop, on_event, l);
  }
  return rc;
}

static int bench(const struct lls_sim_options *sim, uint32_t alive)
{
  struct load *l = calloc(1, sizeof *l);
  struct lls_error err = {0};
  struct harness_options options = {
      .model = LLS_SRCDIR "/etc/profiles/models/opt-13b",
      .dummy = true,
      .element = LLS_BF16,
      .max_tokens = 2048,
      .max_sequences = alive,
      .max_requests = alive,
      .block_tokens = 16,
      .device_units = 2 * alive * 64,
      .scheduler = {"fcfs", (const char *const[]){"max_seqs", "4096", NULL}},
      .cache = {"paged", NULL},
      .predictor = {"none", NULL},
      .sim = sim,
  };
  int rc = l != NULL ? harness_open(&l->h, &options, &err) : -1;
  if (rc < 0) {
    fprintf(stderr, "bench/sim: %s\n", lls_error_text(&err, rc));
    free(l);
    return rc;
  }
  l->missing = alive;
  rc = run(l, (uint64_t)alive * 500); /* warm-up, until lengths differ */
  double began_s = bench_cpu_seconds(),
         virtual_s = (double)lls_sim_now(l->h.device) * 1e-9;
  uint64_t before = l->tokens;
  if (rc >= 0)
    rc = run(l, TOKENS);
  double took_s = bench_cpu_seconds() - began_s;
  virtual_s = (double)lls_sim_now(l->h.device) * 1e-9 - virtual_s;
  printf("%6u %12.0f %10.0f\n", alive, (double)(l->tokens - before) / took_s,
         virtual_s / took_s);
  fflush(stdout);
  harness_close(&l->h);
  free(l);
  return rc < 0 ? rc : 0;
}

int main(void)
{
  struct lls_sim_options sim;
  if (!simulated_opt_13b(&sim))
    return EXIT_FAILURE;
  printf("%6s %12s %10s\n", "alive", "tokens/s", "x real");
  static const uint32_t alive[] = {1, 16, 64, 128, 256, 512};
  for (size_t i = 0; i < sizeof alive / sizeof *alive; i++)
    if (bench(&sim, alive[i]) < 0)
      return EXIT_FAILURE;
  return EXIT_SUCCESS;
}
