/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dropped stream waits in the middle of a queue of 10,000, which no scheduler
 * examines completely in each plan: it is found nevertheless.
 */
#include "t/tap.h"

#include <stdlib.h>

#include "t/plugin/script.h"
#include "t/shipped.h"

#define MS 1000000

enum {
  SIDE = 5000,     /* requests before it in the queue, and after it */
  PROMPT = 32,     /* length of their prompts */
  SOON = SIDE / 2, /* so many of these may end before it continues */
};

/* Schedulers for which it is right that it waits. */
#define IN_ORDER "serves in order of arrival"
#define SHORTEST "serves what is shorter first"
static const struct left_out left_out[] = {
    {"distserve", "hands requests over between instances; t/plugin/test_distserve.c"},
    {"orca", "drops nobody"},
    {"fcfs", IN_ORDER},
    {"continuum", IN_ORDER " of programs"},
    {"fastgen", IN_ORDER},
    {"sarathi", IN_ORDER},
    {"adaserve", IN_ORDER},
    {"rr", IN_ORDER},
    {"vtc", IN_ORDER " within a tenant"},
    {"aligned", IN_ORDER " among those of a length"},
    {"random", "serves in no order"},
    {"sjf", SHORTEST},
    {"srpt", SHORTEST},
    {"alise", SHORTEST},
};
static struct shipped schedulers;

static int find_schedulers(void **state)
{
  (void)state;
  return shipped_find_but(LLS_KIND_SCHEDULER, left_out,
                          sizeof left_out / sizeof *left_out, &schedulers)
             ? 0
             : -1;
}

/* Parameters that make the scheduler's patience shorter than the test. */
static const char *const *parameters_of(const char *name)
{
  static const char *const mlfq[] = {"period", "10", NULL};
  static const char *const worth[] = {"max_stall", "1s", NULL};
  static const char *const autellix[] = {"period", "10", "quantum", "1ms", NULL};
  return strcmp(name, "mlfq") == 0       ? mlfq
         : strcmp(name, "worth") == 0    ? worth
         : strcmp(name, "autellix") == 0 ? autellix
                                         : NULL;
}

static void open_scheduler(struct bed *bed, const char *name)
{
  const struct bed_options o = {
      .scheduler = {name, parameters_of(name)},
      .cache = {"paged", NULL},
      .block_tokens = 16,
      .device_units = 72,
      .max_tokens = 512,
      .max_sequences = 16,
      .max_context = 320,
      .max_requests = 2 * SIDE + 2,
      .prefill_ns = 100000,
  };
  assert_int_equal(bed_open(bed, &o), 0);
}

/* Puts the requests of one side of the queue into the inbox. */
static void submit_side(struct bed *bed)
{
  static const int32_t tokens[PROMPT];
  struct lls_submission s = harness_submission(tokens, PROMPT, 1, NULL);
  struct lls_error err;
  uint64_t id;
  s.ignore_eos = true;
  s.slo = (struct lls_slo){3600 * INT64_C(1000) * MS, LLS_NEVER, LLS_NEVER, LLS_NEVER};
  for (int i = 0; i < SIDE; i++)
    assert_int_equal(lls_loop_submit(bed->harness.loop, &s, &id, &err), 0);
}

/* Takes all requests out of the inbox before they arrive. */
static struct lls_live *hold(struct lls_inbox *inbox)
{
  struct lls_live *first = inbox->first;
  inbox->first = NULL;
  inbox->last = &inbox->first;
  return first;
}

static void release(struct lls_inbox *inbox, struct lls_live *held)
{
  for (struct lls_live *next; held != NULL; held = next) {
    next = held->next;
    lls_inbox_post(inbox, held);
  }
}

/* Runs two streams alone until memory is too small for both; returns the dropped
 * one. */
static const struct lls_request *drop_one(struct bed *bed)
{
  bed->next.slo = (struct lls_slo){1000 * MS, 1000 * MS, 1000 * MS, LLS_NEVER};
  submit(bed, 240, 80);
  submit(bed, 240, 80);
  while (bed->preempted_recompute == 0) {
    assert_true(bed->step < 100);
    bed_step(bed);
  }
  assert_int_equal(bed->in->waiting.n, 1);
  return bed->in->waiting.items[0];
}

/* Returns how many of the other requests end before it continues. */
static uint64_t others_before(const char *name)
{
  struct bed bed;
  open_scheduler(&bed, name);
  submit_side(&bed);
  struct lls_live *held = hold(bed.in->inbox);
  const struct lls_request *r = drop_one(&bed);
  uint32_t generated = r->generated_tokens;
  assert_true(generated > 0);
  release(bed.in->inbox, held);
  submit_side(&bed);
  bed_receive(&bed);
  assert_ptr_equal(bed.in->waiting.items[SIDE], r);
  uint64_t ended = bed.finished[LLS_FINISH_LENGTH];
  while (r->generated_tokens == generated && bed.finished[LLS_FINISH_LENGTH] < 2 * SIDE) {
    bed.now_ns += 20 * MS;
    bed_step(&bed);
  }
  ended = bed.finished[LLS_FINISH_LENGTH] - ended;
  bed_close(&bed);
  return ended;
}

static void test_dropped_streams_are_found(void **state)
{
  (void)state;
  bool all = true;
  for (uint32_t i = 0; i < schedulers.n; i++) {
    uint64_t n = others_before(schedulers.names[i]);
    print_message("# %s: %d of the others ended before it went on\n", schedulers.names[i],
                  (int)n);
    all &= n < SOON;
  }
  assert_true(all);
}

/* ---- deadlines --------------------------------------------------------------------- */

static const char *const by_deadline[] = {"worth", "accelgen", "bros", "edf"};

/* Returns the lateness of the first token of a request that waits between 5,000 without
 * deadlines before it and 5,000 after it. */
static int64_t late_ns(const char *name)
{
  struct bed bed;
  open_scheduler(&bed, name);
  bed.next.request_class = LLS_CLASS_BEST_EFFORT;
  for (int i = 0; i < SIDE; i++)
    submit(&bed, PROMPT, 1);
  bed.next.request_class = LLS_CLASS_REALTIME;
  bed.next.slo.ttft_ns = 2000 * MS;
  submit(&bed, PROMPT, 30);
  const struct lls_request *r = bed.in->waiting.items[SIDE];
  bed.next.request_class = LLS_CLASS_BEST_EFFORT;
  bed.next.slo.ttft_ns = LLS_NEVER;
  for (int i = 0; i < SIDE; i++)
    submit(&bed, PROMPT, 1);
  int64_t due_ns = r->arrival_ns + 2000 * MS;
  while (r->generated_tokens == 0 && bed.now_ns < due_ns + 1000 * MS)
    bed_step(&bed);
  int64_t late = bed.now_ns - due_ns;
  bed_close(&bed);
  return late;
}

static void test_deadlines_are_found(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof by_deadline / sizeof *by_deadline; i++) {
    int64_t late = late_ns(by_deadline[i]);
    if (late > 0)
      fail_msg("%s: %d ms late", by_deadline[i], (int)(late / MS));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dropped_streams_are_found),
      cmocka_unit_test(test_deadlines_are_found),
  };
  return cmocka_run_group_tests(tests, find_schedulers, NULL);
}
