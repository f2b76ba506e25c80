/* SPDX-License-Identifier: Apache-2.0 */
/* Runs random requests to their ends; see load.h. */
#include "tools/plugin-check/load.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/record/snapshot.h"
#include "tools/plugin-check/shadow.h"

#define VOCABULARY 1000
#define MAX_PROMPT 1024

#define LETTERS 3 /* kinds of blocks in composed prompts */

/* Makes prompts of whole blocks, most of the time; sometimes an exact copy of the one
 * before. */
static void compose(struct load *l, uint32_t i)
{
  struct client *c = &l->clients[i];
  uint32_t block = l->options.alike, most = l->options.max_prompt / block;
  bool again = dice(&l->dice, 0, 2) == 0 && i > 0;
  bool whole = dice(&l->dice, 0, 2) > 0;
  uint32_t blocks = dice(&l->dice, 1, most), rest = dice(&l->dice, 1, block - 1);
  uint32_t text = dice(&l->dice, 0, UINT32_MAX - 1);
  c->text = again ? c[-1].text : text;
  c->prompt = again ? c[-1].prompt : whole ? blocks * block : blocks * block - rest;
}

/* steps that a late cancellation waits: the request may be in any state then */
#define LATE 12

static void make_client(struct load *l, uint32_t i)
{
  struct client *c = &l->clients[i];
  const struct load_options *o = &l->options;
  *c = (struct client){
      .prompt = dice(&l->dice, 1, o->max_prompt),
      .length = dice(&l->dice, 1, o->max_length),
      .arrival = o->trickle ? dice(&l->dice, 0, 4 * o->n) : 0,
      .cancel_after = UINT32_MAX,
  };
  c->max_new_tokens = dice(&l->dice, 1, 2 * o->max_length);
  if (i % 8 == 5) /* the request wants a vector of its prompt, and no token */
    c->max_new_tokens = 0;
  if (o->alike > 0)
    compose(l, i);
  if (o->giant_prompt > 0 && dice(&l->dice, 0, 7) == 0) {
    c->giant = true;
    c->prompt = o->giant_prompt;
  }
  if (o->cancels && dice(&l->dice, 0, 2) == 0)
    c->cancel_after = dice(&l->dice, 0, o->max_length / 2);
  if (o->late_cancels)
    c->cancel_delay = dice(&l->dice, 0, LATE);
}

/* All tokens of a block are derived from one letter, so that the same letter makes the
 * same block anywhere. */
static void fill_composed(const struct load *l, const struct client *c,
                          int32_t tokens[MAX_PROMPT])
{
  struct dice text = {.state = c->text};
  uint32_t letter = 0, block = l->options.alike;
  for (uint32_t k = 0; k < c->prompt; k++) {
    if (k % block == 0)
      letter = dice(&text, 1, LETTERS);
    tokens[k] = (int32_t)(3 + 100 * letter + k % block);
  }
}

static void fill_prompt(struct load *l, uint32_t i, int32_t tokens[MAX_PROMPT])
{
  bool shares = l->options.shared && i % 2 == 0;
  struct dice own = {.state = l->dice.state + 7919 * (uint64_t)(shares ? 0 : i + 1)};
  struct dice common = {.state = 12345};
  uint32_t alike = shares ? l->clients[i].prompt * 3 / 4 : 0;
  for (uint32_t k = 0; k < l->clients[i].prompt; k++)
    tokens[k] = (int32_t)dice(k < alike ? &common : &own, 3, VOCABULARY - 1);
  if (l->clients[i].prompt > alike)
    tokens[l->clients[i].prompt - 1] = (int32_t)(3 + i % 900);
}

/* Returns a tenant: one of a few that send much, or one with a number beyond any table
 * indexed by tenant. */
static uint32_t tenant_of(uint32_t i)
{
  return i % 16 == 15 ? FAR_TENANT : i % 4;
}

static void submit(struct load *l, uint32_t i)
{
  int32_t tokens[MAX_PROMPT];
  char label[24];
  struct client *c = &l->clients[i];
  struct lls_error err = {0};
  if (l->options.alike > 0)
    fill_composed(l, c, tokens);
  else
    fill_prompt(l, i, tokens);
  snprintf(label, sizeof label, "client-%u", i);
  struct lls_submission s = harness_submission(tokens, c->prompt, c->max_new_tokens, c);
  s.pooling = c->max_new_tokens == 0 ? LLS_POOLING_LAST : LLS_POOLING_NONE;
  s.ignore_eos = false;
  s.sampling.seed = c->length; /* the device ends it at this length: kernels/sim/sim.h */
  s.label = label;
  s.request_class = i % 3;
  s.priority = (int32_t)(i % 5) - 2;
  s.tenant = tenant_of(i);
  s.salt = "tenant";
  s.salt_bytes = s.tenant == FAR_TENANT ? strlen(s.salt) : 0;
  if (i % 4 == 0)
    s.slo = (struct lls_slo){LLS_NS_PER_S, LLS_NS_PER_S / 20, LLS_NS_PER_S / 20,
                             10 * LLS_NS_PER_S};
  if (lls_loop_submit(l->scene->h.loop, &s, &c->id, &err) < 0)
    found(l->scene->watch.findings, "a request could not be submitted: %s", err.text);
  else
    c->submitted = true;
}

static void on_event(void *context, const struct lls_event *event)
{
  struct load *l = context;
  struct client *c = event->owner;
  l->moved = l->steps;
  if (c->finished > 0)
    found(l->scene->watch.findings, "request %" PRIu64 " went on after its end", c->id);
  if (event->kind == LLS_EVENT_TOKEN) {
    c->n_tokens++;
    return;
  }
  c->finished++;
  c->reason = event->reason;
  l->ended++;
}

static void cancel_due(struct load *l)
{
  for (uint32_t i = 0; l->options.cancels && i < l->options.n; i++) {
    struct client *c = &l->clients[i];
    if (!c->submitted || c->cancelled || c->finished > 0 || c->n_tokens < c->cancel_after)
      continue;
    if (c->cancel_step == 0)
      c->cancel_step = l->steps + c->cancel_delay;
    if (l->steps < c->cancel_step)
      continue;
    lls_loop_cancel(l->scene->h.loop, c->id);
    c->cancelled = true;
  }
}

static void submit_due(struct load *l)
{
  for (uint32_t i = 0; i < l->options.n; i++)
    if (!l->clients[i].submitted && l->clients[i].arrival <= l->steps)
      submit(l, i);
}

/* Steps of an instance without a token or an end, after which the load counts as stuck:
 * far more than any working request needs, and more than the core waits before it
 * reports misbehaviour. */
#define PATIENCE 1500 /* steps of each instance */

/* steps between two queue snapshots; a server may take one at any time */
#define LOOK_EVERY 8

static bool is_over(const struct load *l)
{
  const struct load_options *o = &l->options;
  return l->ended == o->n || (o->abandon_after > 0 && l->steps >= o->abandon_after);
}

static void run(struct load *l)
{
  struct scene *s = l->scene;
  struct lls_error err = {0};
  uint64_t patience = PATIENCE * (uint64_t)lls_loop_n_instances(s->h.loop);
  for (; !is_over(l) && l->steps - l->moved < patience; l->steps++) {
    submit_due(l);
    cancel_due(l);
    if (l->options.each_step != NULL)
      l->options.each_step(s, l->steps);
    if (l->steps % LOOK_EVERY == 0)
      lls_loop_ask_snapshot(s->h.loop);
    int rc = scene_step(s);
    lls_loop_snapshot_ready(s->h.loop);
    lls_loop_events(s->h.loop, on_event, l);
    if (rc < 0) {
      lls_loop_failed(s->h.loop, &err);
      found(s->watch.findings, "the engine stopped in step %" PRIu64 ": %s", l->steps,
            err.text);
      return;
    }
  }
}

/* Runs steps until all memory is back: an instance releases the blocks that it handed
 * over only after the request has ended, and counts its memory in a step, not in a
 * reload. */
static void settle(struct scene *s)
{
  uint32_t turn;
  for (uint32_t i = 0; i < PATIENCE; i++)
    if (lls_loop_next_ns(s->h.loop, &turn) == LLS_NEVER || scene_step(s) < 0)
      break;
  lls_loop_step(s->h.loop);
}

/* ---- what must hold ----------------------------------------------------------- */

static void judge_client(struct load *l, const struct client *c)
{
  struct findings *f = l->scene->watch.findings;
  uint32_t due = c->length < c->max_new_tokens ? c->length : c->max_new_tokens;
  switch (c->reason) {
  case LLS_FINISH_STOP:
  case LLS_FINISH_LENGTH:
    if (c->n_tokens != due)
      found(f, "request %" PRIu64 " ended after %u tokens of %u", c->id, c->n_tokens,
            due);
    break;
  case LLS_FINISH_CANCELLED:
    if (!c->cancelled)
      found(f, "request %" PRIu64 " ended as cancelled, but it was not cancelled", c->id);
    break;
  case LLS_FINISH_CAPACITY:
    if (!c->giant)
      found(f,
            "request %" PRIu64 " of %u + %u tokens was ended for want of memory after %u "
            "tokens: it fits the cache alone",
            c->id, c->prompt, due, c->n_tokens);
    break;
  case LLS_FINISH_REJECTED:
    l->rejected++;
    break;
  default: {
    char *why =
        /* breaches of the contract that the core logged */
        scene_log_line(l->scene, "(breach ");
    found(f, "request %" PRIu64 " ended for reason %u%s%s", c->id, c->reason,
          why != NULL ? ": " : "", why != NULL ? why : "");
    free(why);
  }
  }
}

static void judge_memory(struct load *l)
{
  struct findings *f = l->scene->watch.findings;
  struct lls_loop_status s;
  lls_loop_status(l->scene->h.loop, &s);
  if (s.device_units_free != s.device_units_total ||
      s.host_units_free != s.host_units_total)
    found(f,
          "after the last request %u of %u units are free on the device, %u of %u on the "
          "host",
          s.device_units_free, s.device_units_total, s.host_units_free,
          s.host_units_total);
}

static void judge_plans(struct load *l)
{
  struct findings *f = l->scene->watch.findings;
  struct lls_loop_status s;
  lls_loop_status(l->scene->h.loop, &s);
  char *line = scene_log_line(l->scene, "plugin-misbehaving");
  if (s.plans_refused > 0)
    found(f, "%" PRIu64 " of %" PRIu64 " plans were bad and were refused: %s",
          s.plans_refused, s.steps, line != NULL ? line : "");
  else if (line != NULL)
    found(f, "the core had to step in: %s", line);
  free(line);
}

#define SHOWN 12 /* most requests shown */

/* Shows the holdings of requests when nothing makes progress. */
static void show_state(struct load *l)
{
  struct scene *s = l->scene;
  struct findings *f = s->watch.findings;
  struct lls_loop_status status;
  lls_loop_ask_snapshot(s->h.loop);
  lls_loop_step(s->h.loop);
  lls_loop_status(s->h.loop, &status);
  noted(f,
        "%u running, %u preempted, %u waiting; %u of %u units free on the device, %u of "
        "%u on the host",
        status.running, status.preempted, status.waiting, status.device_units_free,
        status.device_units_total, status.host_units_free, status.host_units_total);
  if (!lls_loop_snapshot_ready(s->h.loop))
    return;
  const struct lls_snapshot *q = lls_loop_snapshot(s->h.loop, 0);
  for (uint32_t i = 0; i < q->n && i < SHOWN; i++) {
    const struct lls_snapshot_request *r = &q->requests[i];
    noted(f,
          "  request %" PRIu64 " is %s: %u + %u tokens, %u cached, holds %u units and %u "
          "on the host",
          r->id, r->state, r->prompt_tokens, r->generated_tokens, r->cached_tokens,
          r->device_units, r->host_units);
  }
  if (q->n > SHOWN)
    noted(f, "  and %u more", q->n - SHOWN);
}

static void judge(struct load *l)
{
  uint32_t left = 0;
  for (uint32_t i = 0; i < l->options.n; i++)
    if (l->clients[i].finished > 0)
      judge_client(l, &l->clients[i]);
    else
      left++;
  judge_plans(l);
  if (left > 0) {
    found(l->scene->watch.findings,
          "%u of %u requests have not ended after %" PRIu64 " steps, and nothing moves",
          left, l->options.n, l->steps);
    show_state(l);
  } else {
    settle(l->scene);
    judge_memory(l);
  }
}

void load_run(struct load *l, struct scene *s, const struct load_options *o,
              uint64_t seed)
{
  *l = (struct load){.scene = s, .options = *o, .dice = {seed}};
  l->clients = calloc(o->n, sizeof *l->clients);
  if (l->clients == NULL)
    abort();
  for (uint32_t i = 0; i < o->n; i++)
    make_client(l, i);
  run(l);
  if (o->abandon_after == 0)
    judge(l);
}

void load_free(struct load *l)
{
  free(l->clients);
}
