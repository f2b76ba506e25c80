/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First come, first served with continuous batching, prefill first: vLLM's scheduling.
 *
 * A step is either prefills or decodes, so it runs on any engine. Waiting requests go
 * before running ones as long as their whole prompts fit the memory above the watermark;
 * when memory runs out the newest running request is preempted.
 */
#include "../common/step.h"

#include <errno.h>
#include <stdlib.h>

struct params {
  int64_t max_tokens, max_seqs;
  double watermark;
  int64_t preempt;
};

struct fcfs {
  const struct lls_host *host;
  struct params params;
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
  return a < b ? a : b;
}

/* A prompt longer than the token budget was begun: it goes on before anything else. */
static void continue_prefills(struct step *s, uint32_t budget)
{
  for (uint32_t i = 0; i < s->tail; i++) {
    const struct lls_request *r = s->view->running[i];
    if (r->state != LLS_PREFILLING)
      continue;
    uint32_t pending = lls_request_pending(r), tokens = min_u32(pending, budget);
    if (step_grow(s, i, pending)) {
      step_run(s, r, tokens);
      return;
    }
  }
}

/* How many tokens of a waiting request this step has room for: all or none, but for a
 * prompt that no budget would ever hold, which is cut and runs alone. */
static uint32_t chunk_of(const struct fcfs *f, const struct step *s, uint32_t pending,
                         uint32_t budget)
{
  uint32_t used = s->view->max_tokens - s->tokens;
  if (used + pending <= budget)
    return pending;
  if (s->runs > 0)
    return 0;
  return f->host->engine->chunked_prefill ? budget : min_u32(pending, s->tokens);
}

/* B-1 step 1: whole prompts in order of arrival until the first that does not fit. */
static void admit_waiting(const struct fcfs *f, struct step *s, uint32_t budget)
{
  uint32_t seats = min_u32((uint32_t)f->params.max_seqs, s->view->max_sequences);
  for (uint32_t i = 0; i < s->view->n_waiting && s->view->n_running + s->runs < seats;
       i++) {
    const struct lls_request *r = s->view->waiting[i];
    uint32_t pending = step_pending(s, r);
    uint32_t tokens = chunk_of(f, s, pending, budget);
    if (tokens == 0)
      return;
    if (tokens < pending && !f->host->engine->chunked_prefill) {
      lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
      continue;
    }
    enum step_answer answer = step_admit(s, r, pending);
    if (answer == STEP_NOT_NOW)
      return;
    if (answer == STEP_YES)
      step_run(s, r, tokens);
    if (answer == STEP_YES && tokens < pending)
      return;
  }
}

/* B-1 step 5: what was swapped out comes back in order of arrival. */
static void bring_back(const struct fcfs *f, struct step *s, uint32_t budget)
{
  uint32_t seats = min_u32((uint32_t)f->params.max_seqs, s->view->max_sequences);
  for (uint32_t i = 0; i < s->view->n_preempted; i++) {
    const struct lls_request *r = s->view->preempted[i];
    uint32_t pending = step_pending(s, r);
    if (s->tail + i >= seats || s->tokens == 0 || s->sequences == 0 ||
        (pending > 1 && s->runs > 0))
      return;
    enum step_answer answer = step_bring_back(s, r, pending);
    if (answer == STEP_NOT_NOW)
      return;
    if (answer == STEP_YES)
      step_run(s, r, min_u32(pending, budget));
    if (pending > 1)
      return;
  }
}

/* B-1 step 3. */
static void decode(struct step *s)
{
  for (uint32_t i = 0; i < s->tail && s->tokens > 0 && s->sequences > 0; i++) {
    const struct lls_request *r = s->view->running[i];
    if (r->state == LLS_DECODING && step_grow(s, i, 1))
      step_run(s, r, 1);
  }
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  const struct fcfs *f = self;
  struct step s;
  step_begin(&s, view, out, f->params.watermark);
  uint32_t budget = min_u32((uint32_t)f->params.max_tokens, view->max_tokens);
  continue_prefills(&s, budget);
  if (s.runs == 0 && s.preempted == 0 && view->n_preempted == 0)
    admit_waiting(f, &s, budget);
  if (s.runs == 0) {
    decode(&s);
    if (s.preempted == 0)
      bring_back(f, &s, budget);
  }
  step_end(&s);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  const struct fcfs *f = self;
  step_preferences(out, f->params.preempt);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct fcfs *f = malloc(sizeof *f);
  if (f == NULL)
    return -ENOMEM;
  *f = (struct fcfs){.host = host, .params = *(const struct params *)params};
  *self = f;
  return 0;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct params, max_tokens, "2048", 1, 1e6, "tokens",
                  "most tokens of prompts in one step"),
    LLS_PARAM_INT(struct params, max_seqs, "256", 1, 65536, "sequences",
                  "most sequences that run at once"),
    STEP_PARAMETERS(struct params),
};

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = free,
    .caps = caps,
    .plan = plan,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_SCHEDULER,
    .id = "fcfs",
    .version = "1.0",
    .description = "continuous batching, prefill first, preempts the newest (vLLM)",
    .licence = "Apache-2.0",
    .params = parameters,
    .n_params = sizeof parameters / sizeof *parameters,
    .params_size = sizeof(struct params),
    .vtable = &vtable,
};
