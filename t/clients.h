/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of a step loop in a test: each submits a reference prompt and collects the
 * answer. Decoding is greedy, so the text must be the reference's whatever happens to
 * the request.
 */
#ifndef LLS_T_CLIENTS_H
#define LLS_T_CLIENTS_H

#include "t/harness.h"
#include "t/reference.h"
#include "t/tap.h"
#include "kernels/cpu/device.h"

#define MODEL  "llama"
#define COPIES 4 /* copies of each reference prompt, all active at once */

struct client {
  const struct reference_prompt *prompt;
  uint64_t id;
  int32_t tokens[64];
  uint32_t n_tokens, n_forced, finished, reason;
  uint32_t preemptions;
};

/* Creates a device that behaves like the CUDA device: copies run concurrently with the
 * next step, and the engine keeps block tables. */
static inline int create_asynchronous(const struct lls_device_options *options,
                                      struct lls_device **out, struct lls_error *err)
{
  int rc = lls_cpu_device_create(options, out, err);
  if (rc == 0)
    (*out)->asynchronous = true;
  return rc;
}

/* Three real policies over a tiny model. Each copy of a prompt needs its own memory (no
 * sharing), so that preemptions occur. */
static inline struct harness_options client_options(const char *scheduler)
{
  static const char *const unshared[] = {"prefix_sharing", "off", NULL};
  return (struct harness_options){
      .model = "t/data/models/" MODEL,
      .element = LLS_F32,
      .max_tokens = 128,
      .max_sequences = 16,
      .max_requests = 64,
      .block_tokens = 8,
      .device_units = 512,
      .scheduler = {scheduler, NULL},
      .cache = {"paged", unshared},
      .predictor = {"none", NULL},
  };
}

static inline void open_or_fail(struct harness *h, const struct harness_options *o)
{
  struct lls_error err = {0};
  if (harness_open(h, o, &err) < 0)
    fail_msg("%s", err.text);
}

static inline void on_event(void *context, const struct lls_event *event)
{
  (void)context;
  struct client *c = event->owner;
  assert_int_equal(c->finished, 0); /* no event follows the end */
  if (event->kind == LLS_EVENT_TOKEN) {
    assert_true(c->n_tokens + event->n_forced < 64);
    c->tokens[c->n_tokens++] = event->token.token;
    for (uint32_t i = 0; i < event->n_forced; i++)
      c->tokens[c->n_tokens++] = event->forced[i];
    c->n_forced += event->n_forced;
    return;
  }
  c->finished++;
  c->reason = event->reason;
  c->preemptions = event->preemptions;
}

static inline void submit_as(struct harness *h, struct client *c,
                             const struct reference_prompt *prompt,
                             uint32_t request_class)
{
  struct lls_error err = {0};
  *c = (struct client){.prompt = prompt};
  struct lls_submission s = harness_submission(prompt->tokens, prompt->n_prompt, 64, c);
  s.request_class = request_class;
  if (lls_loop_submit(h->loop, &s, &c->id, &err) < 0)
    fail_msg("submit: %s", err.text);
}

static inline void submit(struct harness *h, struct client *c,
                          const struct reference_prompt *prompt)
{
  submit_as(h, c, prompt, LLS_CLASS_NONE);
}

static inline void run_to_end(struct harness *h)
{
  for (int i = 0; i < 200000 && !lls_loop_idle(h->loop); i++) {
    assert_true(lls_loop_step(h->loop) >= 0);
    lls_loop_events(h->loop, on_event, NULL);
  }
  assert_true(lls_loop_idle(h->loop));
}

static inline void assert_memory_is_back(struct harness *h)
{
  struct lls_loop_status s;
  lls_loop_status(h->loop, &s);
  assert_int_equal(s.device_units_free, s.device_units_total);
  assert_int_equal(s.host_units_free, s.host_units_total);
  assert_int_equal(s.waiting + s.running + s.preempted, 0);
}

static inline void assert_reference_text(const struct client *c)
{
  assert_int_equal(c->finished, 1);
  assert_int_equal(c->reason, LLS_FINISH_LENGTH);
  assert_int_equal(c->n_tokens, 64);
  assert_memory_equal(c->tokens, c->prompt->tokens + c->prompt->n_prompt,
                      64 * sizeof *c->tokens);
}

#endif
