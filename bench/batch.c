/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/batch: how much an endless batch (/v1/batches) delays the requests of clients.
 *
 *   bench/batch [MODEL [REQUESTS [RATE...]]]
 *
 * Without a MODEL, OPT-13B on an A100-80G is simulated, in virtual time. With a MODEL the
 * CPU computes the steps, and time is this process's processor time plus skipped idle
 * time, so that other work on the machine does not count. RATEs are clients' requests a
 * second. Without RATEs, bench/batch searches the knee: the highest rate at which 99 % of
 * the clients' requests are in time without a batch.
 *
 * Clients' requests are of class realtime and arrive by a Poisson process (prompts of 64
 * to 511 tokens, answers of 32 to 223; the first token is due within 400 ms, each later
 * one within 200 ms). Lines of the batch are best_effort. They are started by the rule of
 * core/api/batch_runner.c: at most `most` at once, a quarter of them without a token.
 *
 * Attainment is the share of clients' requests with all deadlines kept; busy is the share
 * of time in which the device computes. Goal, under bros: attainment with a batch within
 * 1 point of that without, busy at least 90 %.
 */
#include <math.h>

#include "bench/bench.h"
#include "bench/simulated.h"

#define MAX_SEQUENCES 64
#define LONGEST       736 /* tokens of the longest request, in whole blocks */
#define KNEE          0.99
#define MS            INT64_C(1000000)

struct request {
  bool realtime;
  int64_t arrival_ns, first_ns, last_ns; /* 0 until it happens */
  uint32_t tokens;
};

struct client {
  struct harness h;
  bool computes;      /* true: the CPU computes; false: the device is simulated */
  int64_t skipped_ns; /* idle time, over which the clock was advanced */
  uint32_t requests;
  double rate;   /* clients' requests a second */
  uint32_t most; /* most lines at once; 0: no batch */
  uint64_t made; /* submitted requests, of clients and of the batch */
  uint32_t n_realtime, finished, attained;
  uint32_t lines, waiting; /* active lines; active lines without a token */
  uint64_t lines_done;
  int64_t next_ns; /* arrival time of the next client's request */
  uint64_t random;
  int32_t prompt[512];
};

static int64_t processor_now(void *context)
{
  const struct client *c = context;
  return (int64_t)(bench_cpu_seconds() * 1e9) + c->skipped_ns;
}

static int64_t now(struct client *c)
{
  return c->computes ? processor_now(c) : lls_sim_now(c->h.device);
}

/* Advances the clock to until_ns over time without work. */
static void advance(struct client *c, int64_t until_ns)
{
  if (!c->computes)
    lls_sim_advance(c->h.device, until_ns);
  else if (until_ns > now(c))
    c->skipped_ns += until_ns - now(c);
}

static double draw(struct client *c)
{
  c->random = c->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(c->random >> 11) / 9007199254740992.0;
}

static void finish(struct client *c, struct request *r)
{
  if (r->realtime) {
    double gap_ns =
        r->tokens > 1 ? (double)(r->last_ns - r->first_ns) / (double)(r->tokens - 1) : 0;
    bool first = r->first_ns - r->arrival_ns <= 400 * MS;
    c->finished++;
    c->attained += first && gap_ns <= 200.0 * (double)MS;
  } else {
    c->lines--;
    c->lines_done++;
    c->waiting -= r->tokens == 0;
  }
  free(r);
}

static void on_event(void *context, const struct lls_event *event)
{
  struct client *c = context;
  struct request *r = event->owner;
  int64_t now_ns = now(c);
  if (event->kind == LLS_EVENT_FINISHED) {
    finish(c, r);
    return;
  }
  if (r->tokens++ == 0) {
    r->first_ns = now_ns;
    c->waiting -= !r->realtime;
  }
  r->last_ns = now_ns;
}

static int submit(struct client *c, bool realtime, int64_t arrival_ns)
{
  struct request *r = calloc(1, sizeof *r);
  uint64_t k = c->made++, id;
  uint32_t prompt = 64 + (uint32_t)(k * 7919 % 448),
           answer = 32 + (uint32_t)(k * 104729 % 192);
  if (r == NULL)
    return -1;
  for (uint32_t i = 0; i < prompt; i++)
    c->prompt[i] = (int32_t)((k * 31 + i * 7) % c->h.config.vocab);
  struct lls_submission s = harness_submission(c->prompt, prompt, answer, r);
  *r = (struct request){.realtime = realtime, .arrival_ns = arrival_ns};
  s.request_class = realtime ? LLS_CLASS_REALTIME : LLS_CLASS_BEST_EFFORT;
  s.arrival_ns = arrival_ns;
  s.slo = (struct lls_slo){LLS_NEVER, LLS_NEVER, LLS_NEVER, 86400 * LLS_NS_PER_S};
  if (realtime)
    s.slo = (struct lls_slo){400 * MS, LLS_NEVER, 200 * MS, LLS_NEVER};
  return lls_loop_submit(c->h.loop, &s, &id, NULL);
}

/* Submits the clients' requests which are due, and the lines which batch_runner.c would
 * start. */
static int feed(struct client *c)
{
  int64_t now_ns = now(c);
  int rc = 0;
  for (; rc >= 0 && c->n_realtime < c->requests && c->next_ns <= now_ns;
       c->n_realtime++) {
    rc = submit(c, true, c->next_ns);
    c->next_ns += (int64_t)(-log(1 - draw(c)) / c->rate * 1e9);
  }
  for (; rc >= 0 && c->lines < c->most && c->waiting < c->most / 4 + 1; c->lines++) {
    rc = submit(c, false, now_ns);
    c->waiting++;
  }
  return rc;
}

static int run(struct client *c)
{
  int rc = 0;
  while (rc >= 0 && c->finished < c->requests) {
    rc = feed(c);
    if (rc >= 0)
      rc = lls_loop_step(c->h.loop);
    lls_loop_events(c->h.loop, on_event, c);
    if (rc == 0 && c->n_realtime < c->requests)
      advance(c, c->next_ns);
  }
  return rc;
}

static void print(struct client *c, const char *scheduler, int64_t begun_ns)
{
  struct lls_loop_status status;
  double seconds = (double)(now(c) - begun_ns) * 1e-9;
  lls_loop_status(c->h.loop, &status);
  printf("%-8s %10.2f %6u %12.2f %8.1f %10.1f %10.2f %10.1f\n", scheduler, c->rate,
         c->most, 100.0 * c->attained / c->requests,
         100e-9 * (double)status.device_ns_sum / seconds,
         100e-9 * (double)status.step_ns_sum / seconds, (double)c->lines_done / seconds,
         (double)status.generated_tokens / seconds);
  fflush(stdout);
}

struct setting {
  const struct lls_sim_options *sim; /* NULL: the CPU computes the steps */
  const char *model;
  uint32_t requests;
};

static int open_client(struct client *c, const struct setting *s,
                       const char *const policies[2], struct lls_error *err)
{
  uint32_t units = MAX_SEQUENCES * LONGEST / 16;
  const struct harness_options options = {
      .model = s->model,
      .dummy = s->sim != NULL,
      .element = LLS_BF16,
      .max_tokens = 2048,
      .max_sequences = MAX_SEQUENCES,
      .max_requests = 4096,
      .block_tokens = 16,
      .max_context = s->sim != NULL ? 0 : LONGEST,
      .device_units = s->sim != NULL ? 2 * MAX_SEQUENCES * 64 : units,
      .host_units = s->sim != NULL ? 2 * MAX_SEQUENCES * 64 : units,
      .scheduler = {policies[0], NULL},
      .cache = {policies[1], NULL},
      .predictor = {"none", NULL},
      .sim = s->sim,
      .clock = s->sim != NULL ? NULL : processor_now,
      .clock_context = s->sim != NULL ? NULL : c,
  };
  c->computes = s->sim == NULL;
  c->requests = s->requests;
  return harness_open(&c->h, &options, err);
}

/* Runs one setting. Returns the share of the clients' requests which were in time, or a
 * negative errno. */
static double bench(const struct setting *s, const char *const policies[2], double rate,
                    uint32_t most)
{
  struct client *c = calloc(1, sizeof *c);
  struct lls_error err = {0};
  int rc = c != NULL ? open_client(c, s, policies, &err) : -1;
  if (rc < 0) {
    fprintf(stderr, "bench/batch: %s\n", lls_error_text(&err, rc));
    free(c);
    return rc;
  }
  c->rate = rate;
  c->most = most;
  c->random = 1;
  int64_t begun_ns = c->computes ? now(c) : 0;
  c->next_ns = begun_ns;
  rc = run(c);
  print(c, policies[0], begun_ns);
  double share = rc < 0 ? rc : (double)c->attained / c->requests;
  harness_close(&c->h); /* active lines are freed with the process */
  free(c);
  return share;
}

static const char *const policies[][2] = {
    {"bros", "bidirectional"}, {"fcfs", "paged"}, {"sarathi", "paged"}};

#define N_POLICIES (sizeof policies / sizeof *policies)

static void print_head(void)
{
  printf("%-8s %10s %6s %12s %8s %10s %10s %10s\n", "", "requests/s", "lines",
         "attained, %", "busy, %", "in steps,%", "lines/s", "tokens/s");
}

static int simulate(void)
{
  static const double rates[] = {0.1, 0.5, 2};
  static const uint32_t most[] = {0, 16, 32, 48};
  struct lls_sim_options sim;
  if (!simulated_opt_13b(&sim))
    return EXIT_FAILURE;
  const struct setting setting = {&sim, LLS_SRCDIR "/etc/profiles/models/opt-13b", 2000};
  print_head();
  for (size_t i = 0; i < N_POLICIES; i++)
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++)
      for (size_t j = 0; j < sizeof most / sizeof *most; j++)
        if (bench(&setting, policies[i], rates[r], most[j]) < 0)
          return EXIT_FAILURE;
  return EXIT_SUCCESS;
}

/* Doubles the rate until too few requests are in time, then bisects to 10 %. Returns
 * the rate, or 0 after an error or if even 1/16 request a second is not in time. */
static double find_knee(const struct setting *s)
{
  double low = 0, high = INFINITY, rate = 1;
  while (high > 1.1 * low && rate > 0.05) {
    double share = bench(s, policies[0], rate, 0);
    if (share < 0)
      return 0;
    *(share < KNEE ? &high : &low) = rate;
    rate = low == 0 ? rate / 2 : isinf(high) ? 2 * rate : (low + high) / 2;
  }
  return low;
}

/* Prints a row with and a row without a batch for each rate, under bros. */
static int compute(const struct setting *s, const double *rates, size_t n)
{
  static const uint32_t most[] = {0, MAX_SEQUENCES / 2};
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < sizeof most / sizeof *most; j++)
      if (bench(s, policies[0], rates[i], most[j]) < 0)
        return EXIT_FAILURE;
  return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
  struct setting setting = {.model = argc > 1 ? argv[1] : NULL, .requests = 300};
  double rates[16];
  size_t n = 0;
  if (argc < 2)
    return simulate();
  setenv("LLS_PLUGIN_PATH", LLS_BUILDDIR "/.libs", 0);
  if (argc > 2)
    setting.requests = (uint32_t)strtoul(argv[2], NULL, 10);
  for (int i = 3; i < argc && n < sizeof rates / sizeof *rates; i++)
    rates[n++] = strtod(argv[i], NULL);
  print_head();
  if (n == 0 && (rates[n++] = find_knee(&setting)) == 0)
    return EXIT_FAILURE;
  return compute(&setting, rates, n);
}
