/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A drafter alone, without a loop: requests whose texts are of few tokens and repeat
 * themselves come, grow by what was guessed right and one token more, and end, in any
 * order. The watch judges what draft writes (watch_drafter.c).
 */
#include <string.h>

#include "core/config/limits.h"
#include "tools/plugin-check/checks.h"

#define SLOTS  8
#define LENGTH 600 /* tokens of a text */
#define TURNS  4000

struct written { /* a request, and the whole text that it becomes */
  struct lls_request view;
  int32_t tokens[LENGTH];
  uint64_t user[LLS_USER_WORDS];
  bool alive;
};

struct drive {
  struct scene scene;
  struct dice dice;
  const struct lls_drafter_vtable *drafter; /* under watch */
  void *self;
  struct written texts[SLOTS];
  uint64_t last_id;
  uint32_t max_drafts;
};

/* Each token repeats the one `period` before it, but for one in ten. */
static void write_text(struct drive *d, struct written *w)
{
  uint32_t period = dice(&d->dice, 1, 40);
  for (uint32_t i = 0; i < LENGTH; i++)
    w->tokens[i] = i >= period && dice(&d->dice, 0, 9) > 0
                       ? w->tokens[i - period]
                       : (int32_t)dice(&d->dice, 3, 12);
}

static void arrive(struct drive *d, struct written *w, uint32_t slot)
{
  write_text(d, w);
  w->alive = true;
  w->view = (struct lls_request){.id = ++d->last_id,
                                 .state = LLS_DECODING,
                                 .residency = LLS_RESIDENT_DEVICE,
                                 .slot = slot,
                                 .prompt_tokens = dice(&d->dice, 1, LENGTH / 2),
                                 .generated_tokens = 1,
                                 .max_new_tokens = LENGTH,
                                 .tokens = w->tokens,
                                 .label = "",
                                 .tenant_name = "",
                                 .adapter_name = "",
                                 .user = w->user};
  w->view.cached_tokens = w->view.prompt_tokens;
  if (d->drafter->on_arrival != NULL)
    d->drafter->on_arrival(d->self, &w->view);
}

static void finish(struct drive *d, struct written *w, uint32_t reason)
{
  w->alive = false;
  w->view.state = LLS_FINISHED;
  w->view.finish_reason = reason;
  if (d->drafter->on_finish != NULL)
    d->drafter->on_finish(d->self, &w->view, reason);
}

/* Returns how many of the n guesses are the text's next tokens. */
static uint32_t right_of(const struct written *w, const int32_t *guesses, uint32_t n)
{
  uint32_t right = 0, length = lls_request_length(&w->view);
  while (right < n && guesses[right] == w->tokens[length + right])
    right++;
  return right;
}

/* The candidates of a draft model, of which each is right in three times of four. */
struct candidates {
  int32_t tokens[LLS_MAX_DRAFTS];
  float odds[LLS_MAX_DRAFTS];
};

/* Makes as many candidates as the drafter wants, or fewer, where it asks for any. */
static void offer(struct drive *d, const struct written *w, struct candidates *c,
                  struct lls_draft *out)
{
  const struct lls_draft_work work = {.size = sizeof work,
                                      .max = out->max,
                                      .step_ns = dice(&d->dice, 0, 5) * 1000000,
                                      .verify_ns = dice(&d->dice, 0, 3) * 100000,
                                      .pass_ns = dice(&d->dice, 0, 3) * 200000,
                                      .behind_ns = dice(&d->dice, 0, 2) * 5000000};
  uint32_t length = lls_request_length(&w->view);
  if (d->drafter->wants == NULL)
    return;
  uint32_t n = d->drafter->wants(d->self, &w->view, &work);
  n = dice(&d->dice, 0, n < out->max ? n : out->max);
  for (uint32_t i = 0; i < n; i++) {
    bool right = dice(&d->dice, 0, 3) > 0;
    c->tokens[i] = right ? w->tokens[length + i] : (int32_t)dice(&d->dice, 3, 12);
    c->odds[i] = (float)dice(&d->dice, 0, 10) / 10;
  }
  out->n_candidates = n;
  out->candidates = c->tokens;
  out->candidate_odds = c->odds;
}

/* Asks for guesses, of which a step verifies some or none. */
static void advance(struct drive *d, struct written *w)
{
  int32_t tokens[LLS_MAX_DRAFTS];
  float odds[LLS_MAX_DRAFTS];
  uint32_t left = LENGTH - lls_request_length(&w->view);
  if (left < 2) {
    finish(d, w, dice(&d->dice, 0, 1) == 0 ? LLS_FINISH_STOP : LLS_FINISH_LENGTH);
    return;
  }
  uint32_t most = left - 1 < d->max_drafts ? left - 1 : d->max_drafts;
  struct lls_draft out = {
      .size = sizeof out, .max = most, .tokens = tokens, .odds = odds};
  for (uint32_t i = 0; i < LLS_MAX_DRAFTS; i++)
    odds[i] = 0.5f;
  struct candidates candidates;
  offer(d, w, &candidates, &out);
  int n = d->drafter->draft(d->self, &w->view, &out);
  uint32_t given = n > 0 && (uint32_t)n <= most ? (uint32_t)n : 0;
  uint32_t verified = given > 0 ? dice(&d->dice, 0, given) : 0;
  uint32_t right = right_of(w, tokens, verified);
  w->view.generated_tokens += 1 + right;
  w->view.cached_tokens += 1 + right;
  if (verified > 0 && d->drafter->verified != NULL)
    d->drafter->verified(d->self, &w->view, verified, right);
}

static void play(struct drive *d)
{
  for (uint32_t turn = 0; turn < TURNS; turn++) {
    uint32_t slot = dice(&d->dice, 0, SLOTS - 1);
    struct written *w = &d->texts[slot];
    if (!w->alive)
      arrive(d, w, slot);
    else if (dice(&d->dice, 0, 99) == 0)
      finish(d, w, LLS_FINISH_CANCELLED);
    else
      advance(d, w);
  }
  for (uint32_t slot = 0; slot < SLOTS; slot++)
    if (d->texts[slot].alive)
      finish(d, &d->texts[slot], LLS_FINISH_NONE);
}

void check_drafts(const struct subject *s, struct findings *f)
{
  static struct drive d;
  const struct scene_options o = {.block_tokens = 16,
                                  .device_units = 256,
                                  .max_tokens = 64,
                                  .max_sequences = SLOTS,
                                  .max_context = LENGTH,
                                  .max_requests = SLOTS,
                                  .seed = s->seed};
  if (s->kind != LLS_KIND_DRAFTER) {
    skipped(f, "a %s guesses no tokens", lls_plugin_kind_name(s->kind));
    return;
  }
  if (scene_open(&d.scene, s, &o, f) < 0)
    return;
  d.dice = (struct dice){s->seed};
  d.drafter = &d.scene.generations[0].watched.module.drafter;
  d.self = d.scene.watch.newest;
  d.max_drafts = lls_engine_caps(d.scene.h.engine)->max_drafts;
  play(&d);
  if (f->n == 0)
    noted(f, "it guessed in %u of %d turns", d.scene.watch.n_drafts, TURNS);
  scene_close(&d.scene);
}
