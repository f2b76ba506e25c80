/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crowd of random clients of a simulated loop, drawn from a seed: each one's arrival,
 * request, and whether it gives up. Every request must end exactly once, with all its
 * tokens unless it was cancelled or cannot fit. All events go into a digest, so that
 * two runs can be compared byte for byte.
 */
#ifndef LLS_T_SIM_CROWD_H
#define LLS_T_SIM_CROWD_H

#include "t/harness.h"
#include "t/jumps.h"
#include "t/tap.h"

enum { CROWD_MOST = 24 };

struct client {
  uint64_t id;
  int64_t arrival_ns, cancel_ns; /* cancel_ns: LLS_NEVER: not cancelled */
  int64_t last_ns;               /* time of its last event */
  uint32_t prompt, length;
  uint32_t tokens, forced, ended, reason;
  bool submitted, cancelled;
};

struct crowd {
  struct client clients[CROWD_MOST];
  uint32_t n;
  uint64_t random, digest;
  struct lls_grammar *grammar; /* grammar of half of the clients, or NULL; t/jumps.h */
  int32_t prompt[64];
};

static inline uint32_t crowd_below(struct crowd *c, uint32_t n)
{
  c->random = c->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((c->random >> 33) % n);
}

static inline void crowd_mix(struct crowd *c, uint64_t value)
{
  c->digest = (c->digest ^ value) * UINT64_C(0x100000001b3);
}

/* Draws 2 to `most` clients from at_ns on; one in `givers_up` gives up within
 * `patience_ns`. */
static inline void crowd_draw(struct crowd *c, uint32_t most, int64_t at_ns,
                              uint32_t givers_up, uint32_t patience_ns)
{
  c->n = 2 + crowd_below(c, most - 1);
  for (uint32_t i = 0; i < c->n; i++) {
    at_ns += crowd_below(c, 3) == 0 ? 0 : crowd_below(c, 30000000);
    c->clients[i] = (struct client){.arrival_ns = at_ns,
                                    .cancel_ns = LLS_NEVER,
                                    .prompt = 1 + crowd_below(c, 60),
                                    .length = 1 + crowd_below(c, 40)};
    if (crowd_below(c, givers_up) == 0)
      c->clients[i].cancel_ns = at_ns + crowd_below(c, patience_ns);
  }
}

/* Submits a client's request. Half of the prompts begin alike, so that blocks are
 * shared. dress: NULL, or a function that changes the submission. */
static inline void crowd_submit(struct crowd *c, struct client *client,
                                struct lls_loop *loop,
                                void (*dress)(struct crowd *, struct lls_submission *))
{
  uint32_t own = crowd_below(c, 2) == 0 ? 0 : crowd_below(c, 64);
  for (uint32_t i = 0; i < client->prompt; i++)
    c->prompt[i] = (int32_t)((i < 16 && own == 0 ? i : own * 5 + i * 3) % 250) + 3;
  struct lls_submission s = harness_submission(c->prompt, client->prompt, 64, client);
  s.ignore_eos = false;
  s.sampling.seed = client->length;
  s.arrival_ns = client->arrival_ns > 0 ? client->arrival_ns : 1;
  if (c->grammar != NULL && crowd_below(c, 2) == 0)
    s.grammar = c->grammar;
  if (dress != NULL)
    dress(c, &s);
  assert_int_equal(lls_loop_submit(loop, &s, &client->id, NULL), 0);
  client->submitted = true;
}

/* Submits all requests that are due; returns the time of the next one, LLS_NEVER if
 * there is none. */
static inline int64_t crowd_act(struct crowd *c, struct lls_loop *loop, int64_t now_ns,
                                void (*dress)(struct crowd *, struct lls_submission *))
{
  int64_t next_ns = LLS_NEVER;
  for (uint32_t i = 0; i < c->n; i++) {
    struct client *client = &c->clients[i];
    if (!client->submitted && client->arrival_ns <= now_ns)
      crowd_submit(c, client, loop, dress);
    if (client->submitted && !client->cancelled && client->cancel_ns != LLS_NEVER &&
        client->cancel_ns <= now_ns) {
      lls_loop_cancel(loop, client->id);
      client->cancelled = true;
    }
    if (!client->submitted && (next_ns == LLS_NEVER || client->arrival_ns < next_ns))
      next_ns = client->arrival_ns;
  }
  return next_ns;
}

/* Handles an event of a client. A request's time never decreases, by whatever clock. */
static inline void crowd_event(struct crowd *c, const struct lls_event *event,
                               int64_t now_ns)
{
  struct client *client = event->owner;
  assert_int_equal(client->ended, 0);
  assert_true(now_ns >= client->last_ns);
  client->last_ns = now_ns;
  crowd_mix(c, (uint64_t)now_ns);
  crowd_mix(c, event->request * 2 + event->kind);
  if (event->kind == LLS_EVENT_TOKEN) {
    client->tokens += 1 + event->n_forced;
    client->forced += event->n_forced;
    return;
  }
  client->ended++;
  client->reason = event->reason;
  assert_int_equal(client->tokens, event->generated_tokens);
}

static inline uint32_t crowd_unended(const struct crowd *c)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->n; i++)
    n += c->clients[i].ended == 0;
  return n;
}

/* Steps one simulated instance until all clients have ended, or at most max_steps
 * times; returns true if all have ended. */
static inline bool crowd_serve(struct crowd *c, struct harness *h,
                               void (*dress)(struct crowd *, struct lls_submission *),
                               void (*on_event)(void *, const struct lls_event *),
                               void *context, uint32_t most_steps)
{
  uint32_t steps = 0;
  for (; steps < most_steps && crowd_unended(c) > 0; steps++) {
    int64_t next_ns = crowd_act(c, h->loop, lls_sim_now(h->device), dress);
    int busy = lls_loop_step(h->loop);
    assert_true(busy >= 0);
    lls_loop_events(h->loop, on_event, context);
    if (busy || crowd_unended(c) == 0)
      continue;
    int64_t idle_ns = lls_loop_idle_ns(h->loop), now_ns = lls_sim_now(h->device);
    if (idle_ns != LLS_NEVER && (next_ns == LLS_NEVER || now_ns + idle_ns < next_ns))
      next_ns = now_ns + idle_ns;
    assert_true(next_ns != LLS_NEVER); /* otherwise a client would wait for nothing */
    lls_sim_advance(h->device, next_ns);
  }
  return crowd_unended(c) == 0;
}

static inline void crowd_check(const struct crowd *c)
{
  assert_int_equal(crowd_unended(c), 0);
  for (uint32_t i = 0; i < c->n; i++) {
    const struct client *client = &c->clients[i];
    if (client->reason == LLS_FINISH_STOP && client->forced > 0)
      assert_in_range(client->tokens, client->length, client->length + JUMPS_LONGEST);
    else if (client->reason == LLS_FINISH_STOP)
      assert_int_equal(client->tokens, client->length);
    else if (client->reason == LLS_FINISH_CANCELLED)
      assert_true(client->cancelled);
    else
      assert_true(client->reason == LLS_FINISH_CAPACITY ||
                  client->reason == LLS_FINISH_REJECTED);
  }
}

#endif
