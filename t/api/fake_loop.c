/* SPDX-License-Identifier: Apache-2.0 */
/* See fake_loop.h. One thread: the timer is on the front end's own uv loop. */
#include "t/api/fake_loop.h"

#include <llmserve/host.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct fake_request {
  struct fake_request *prev, *next;
  uint64_t id;
  struct lls_submission submission;
  int32_t *tokens;
  struct lls_sampled *scores; /* of the prompt, if asked for */
  char label[64];
  float vector[FAKE_COLUMNS];
  uint32_t generated;
  int64_t arrival_ns, first_token_ns;
  bool cancelled;
};

struct fake_event {
  struct fake_event *prev, *next;
  struct lls_event event;
};

struct lls_loop {
  struct fake_options options;
  uv_timer_t timer;
  struct fake_request *requests;
  struct fake_event *events;
  uint64_t last_id;
  struct lls_loop_status status;
  struct lls_snapshot queues;
  bool broken, odd, failed_once;
};

static bool has_fate(const struct fake_request *request, const char *fate)
{
  return strncmp(request->label, fate, strlen(fate)) == 0;
}

/* For lines of batches, which have no id of their own. */
static void set_fate(struct lls_loop *loop, struct fake_request *request)
{
  static const char *const fates[] = {"failnow-", "reject-", "full-", "failnow-"};
  int32_t which = request->submission.priority - 9001;
  if (which < 0 || which > 3 || (which == 3 && loop->failed_once))
    return;
  loop->failed_once = loop->failed_once || which == 3;
  strcpy(request->label, fates[which]);
}

/* ---- events --------------------------------------------------------------------- */

static struct lls_event *new_event(struct lls_loop *loop,
                                   const struct fake_request *request, uint32_t kind)
{
  struct fake_event *event = calloc(1, sizeof *event);
  event->event.kind = kind;
  event->event.request = request->id;
  event->event.owner = request->submission.owner;
  DL_APPEND(loop->events, event);
  return &event->event;
}

static void finish(struct lls_loop *loop, struct fake_request *request, uint32_t reason)
{
  struct lls_event *event = new_event(loop, request, LLS_EVENT_FINISHED);
  event->reason = reason;
  event->prompt_tokens = request->submission.n_tokens;
  event->generated_tokens = request->generated;
  event->arrival_ns = request->arrival_ns;
  event->first_scheduled_ns = event->first_token_ns = request->first_token_ns;
  event->finished_ns = (int64_t)uv_hrtime();
  if (reason == LLS_FINISH_LENGTH && request->submission.pooling != LLS_POOLING_NONE)
    event->pooled = request->vector;
  loop->status.finished[reason]++;
  DL_DELETE(loop->requests, request);
  event->live = (struct lls_live *)request; /* freed when the event was handed out */
}

static void free_request(struct fake_request *request)
{
  free(request->scores);
  free(request->tokens);
  free(request);
}

/* The alternatives are the token's neighbours. */
static void sample(const struct fake_request *request, int32_t token,
                   struct lls_sampled *out)
{
  out->token = token;
  out->logprob = -0.5f;
  out->n_top = request->submission.sampling.n_logprobs;
  for (uint32_t i = 0; i < out->n_top; i++) {
    out->top_token[i] = token + (int32_t)i;
    out->top_logprob[i] = -0.5f - (float)i;
  }
}

/* Token i of the prompt is as likely as exp(-i), and its neighbours less so. */
static void score(struct fake_request *request)
{
  const struct lls_submission *s = &request->submission;
  request->scores = calloc(s->n_tokens, sizeof *request->scores);
  for (uint32_t i = 1; i < s->n_tokens; i++) {
    struct lls_sampled *out = &request->scores[i];
    *out = (struct lls_sampled){.token = request->tokens[i],
                                .logprob = -(float)i,
                                .rank = 1,
                                .n_top = s->score_logprobs};
    for (uint32_t k = 0; k < out->n_top; k++) {
      out->top_token[k] = request->tokens[i] + (int32_t)k;
      out->top_logprob[k] = -(float)(i + k);
    }
  }
}

/* A vector instead of tokens: how many tokens the prompt has, the first and the last. */
static void pool(struct lls_loop *loop, struct fake_request *request)
{
  uint32_t n = request->submission.n_tokens;
  request->vector[0] = (float)n;
  request->vector[1] = (float)request->tokens[0];
  request->vector[2] = (float)request->tokens[n - 1];
  request->first_token_ns = (int64_t)uv_hrtime();
  finish(loop, request, LLS_FINISH_LENGTH);
}

/* One token of a request; false when it was the last. */
static bool emit(struct lls_loop *loop, struct fake_request *request)
{
  const struct lls_submission *s = &request->submission;
  uint32_t first = s->n_tokens > 1 && request->tokens[0] == loop->options.bos ? 1 : 0;
  int32_t token = request->tokens[first + request->generated % (s->n_tokens - first)];
  struct lls_event *event = new_event(loop, request, LLS_EVENT_TOKEN);
  if (request->generated++ == 0)
    request->first_token_ns = (int64_t)uv_hrtime();
  loop->status.generated_tokens++;
  sample(request, token, &event->token);
  event->prompt_scores = request->scores;
  bool stops = token == loop->options.eos && !s->ignore_eos;
  for (uint32_t i = 0; i < s->n_stop_tokens; i++)
    stops = stops || s->stop_tokens[i] == token;
  stops = stops && request->generated > s->min_new_tokens;
  event->hidden_token = stops;
  if (stops) {
    finish(loop, request, LLS_FINISH_STOP);
    return false;
  }
  if (request->generated == s->max_new_tokens) {
    finish(loop, request, LLS_FINISH_LENGTH);
    return false;
  }
  return true;
}

static void emit_some(struct lls_loop *loop, struct fake_request *request)
{
  uint32_t most = loop->options.burst > 0 ? loop->options.burst : 1;
  if (has_fate(request, "burst-"))
    most = UINT32_MAX;
  while (most-- > 0 && emit(loop, request))
    continue;
}

static bool has_to_wait(const struct lls_loop *loop, const struct fake_request *request)
{
  if (has_fate(request, "hold-") || loop->last_id < loop->options.together)
    return true;
  bool alone = loop->requests->next == NULL;
  return request->generated > 0 &&
         (has_fate(request, "pause-") || (has_fate(request, "last-") && !alone));
}

static void step_request(struct lls_loop *loop, struct fake_request *request)
{
  if (request->cancelled)
    finish(loop, request, LLS_FINISH_CANCELLED);
  else if (has_to_wait(loop, request))
    return;
  else if (has_fate(request, "failnow-") ||
           (has_fate(request, "fail-") && request->generated == 2))
    finish(loop, request, LLS_FINISH_ERROR);
  else if (has_fate(request, "reject-"))
    finish(loop, request, LLS_FINISH_REJECTED);
  else if (has_fate(request, "capacity-"))
    finish(loop, request, LLS_FINISH_CAPACITY);
  else if (request->submission.pooling != LLS_POOLING_NONE)
    pool(loop, request);
  else
    emit_some(loop, request);
}

static void on_tick(uv_timer_t *timer)
{
  struct lls_loop *loop = timer->data;
  struct fake_request *request, *next;
  loop->status.steps++;
  DL_FOREACH_SAFE (loop->requests, request, next)
    step_request(loop, request);
  if (loop->events != NULL)
    loop->options.wake(loop->options.wake_context);
  if (loop->options.period_ms == 0 && loop->requests == NULL)
    uv_timer_stop(&loop->timer);
}

/* ---- what the front end calls ---------------------------------------------------- */

static int check(const struct lls_loop *loop, const struct lls_submission *s,
                 const struct fake_request *request, struct lls_error *err)
{
  uint32_t alive = 0;
  const struct fake_request *other;
  DL_FOREACH (loop->requests, other)
    alive++;
  if (loop->broken || loop->status.draining)
    return lls_fail(err, -ESHUTDOWN, "the server is shutting down");
  if (s->n_tokens >= loop->options.max_context)
    return lls_fail(err, -E2BIG, "%u tokens, context %u", s->n_tokens,
                    loop->options.max_context);
  if (has_fate(request, "full-") || alive >= loop->options.max_requests)
    return lls_fail(err, -ENOSPC, "the queue is full: %u requests", alive);
  return 0;
}

int lls_loop_submit(struct lls_loop *loop, const struct lls_submission *submission,
                    uint64_t *id, struct lls_error *err)
{
  struct fake_request *request = calloc(1, sizeof *request);
  request->submission = *submission;
  strncpy(request->label, submission->label, sizeof request->label - 1);
  set_fate(loop, request);
  int status = check(loop, submission, request, err);
  if (status != 0) {
    free(request);
    return status;
  }
  request->tokens = calloc(submission->n_tokens, sizeof *request->tokens);
  memcpy(request->tokens, submission->tokens,
         submission->n_tokens * sizeof *request->tokens);
  if (submission->score_prompt)
    score(request);
  request->arrival_ns = (int64_t)uv_hrtime();
  request->first_token_ns = LLS_NEVER;
  *id = request->id = ++loop->last_id;
  loop->status.prompt_tokens += submission->n_tokens;
  loop->broken = loop->broken || has_fate(request, "break-");
  loop->odd = loop->odd || has_fate(request, "odd-");
  DL_APPEND(loop->requests, request);
  if (loop->options.period_ms == 0) /* the first token comes in the next turn */
    uv_timer_start(&loop->timer, on_tick, 0, 1);
  return 0;
}

void lls_loop_cancel(struct lls_loop *loop, uint64_t id)
{
  struct fake_request *request;
  DL_FOREACH (loop->requests, request)
    if (request->id == id)
      request->cancelled = true;
}

/* The fake loop has no table of sessions. */
void lls_loop_session_stopped(struct lls_loop *loop)
{
  (void)loop;
}

void lls_loop_session_calls(struct lls_loop *loop, const struct lls_event *event,
                            const char *tool)
{
  (void)loop;
  (void)event;
  (void)tool;
}

void lls_loop_count_sessions(struct lls_loop *loop, uint32_t *alive, uint32_t *idle)
{
  (void)loop;
  *alive = *idle = 0;
}

void lls_loop_block_events(struct lls_loop *l,
                           void (*each)(void *context, uint32_t instance,
                                        const struct lls_block_event_list *),
                           void *context)
{
  (void)l;
  (void)each;
  (void)context;
}

int64_t lls_loop_each_session(struct lls_loop *loop,
                              void (*each)(void *context, const struct lls_session_row *),
                              void *context)
{
  (void)loop;
  (void)each;
  (void)context;
  return 0;
}

void lls_loop_events(struct lls_loop *loop,
                     void (*on_event)(void *context, const struct lls_event *),
                     void *context)
{
  while (loop->events != NULL) {
    struct fake_event *event = loop->events;
    DL_DELETE(loop->events, event);
    on_event(context, &event->event);
    if (event->event.kind == LLS_EVENT_FINISHED)
      free_request((struct fake_request *)event->event.live);
    free(event);
  }
}

void lls_loop_status(struct lls_loop *loop, struct lls_loop_status *out)
{
  const struct fake_request *request;
  *out = loop->status;
  DL_FOREACH (loop->requests, request)
    *(has_fate(request, "hold-") ? &out->waiting : &out->running) += 1;
  strcpy(out->policies.scheduler.name, "scheduler fake");
  strcpy(out->policies.cache.name, "cache fake");
  out->device_units_total = 100;
  out->device_units_free = out->running < 100 ? 100 - out->running : 0;
}

void lls_loop_write_steps(struct lls_loop *l, struct lls_text *out)
{
  (void)l, (void)out; /* it runs none */
}

uint32_t lls_loop_n_instances(const struct lls_loop *loop)
{
  (void)loop;
  return 1;
}

void lls_loop_instance_status(struct lls_loop *loop, uint32_t instance, uint32_t *role,
                              struct lls_loop_status *out)
{
  (void)instance;
  *role = LLS_ROLE_MIXED;
  lls_loop_status(loop, out);
}

void lls_loop_policy_stats(struct lls_loop *loop, uint32_t instance,
                           struct lls_loop_policy_stats *out)
{
  (void)instance;
  *out = (struct lls_loop_policy_stats){
      .scheduler = {.name = "scheduler fake",
                    .n = 2,
                    .figures = {{"lifted", 3}, {"share", 1.5}},
                    .n_counters = 1,
                    .counters = {{"demoted", 7}}},
      .cache = {.name = "cache fake", .n = 1, .figures = {{"blocks", 50}}},
  };
  if (loop->odd)
    out->scheduler.figures[0] = (struct lls_policy_stat){"a \"queue\"\\", -NAN};
}

/* The requests that are alive, in the order in which they came, each with a line that is
 * no UTF-8; numbers have as many digits as a busy server's. */
int lls_loop_ask_snapshot(struct lls_loop *loop)
{
  const struct fake_request *request;
  struct lls_snapshot *q = &loop->queues;
  *q = (struct lls_snapshot){.scheduler = "scheduler fake"};
  DL_FOREACH (loop->requests, request) {
    if (q->n == LLS_SNAPSHOT_REQUESTS)
      break;
    struct lls_snapshot_request *queued = &q->requests[q->n++];
    *queued = (struct lls_snapshot_request){.id = request->id,
                                            .state = "running",
                                            .prompt_tokens = 1234,
                                            .generated_tokens = 567,
                                            .cached_tokens = 1800,
                                            .device_units = 226,
                                            .owned_units = 200,
                                            .form = LLS_FORM_KV,
                                            .alive_ns = 12345 * LLS_NS_PER_MS};
    for (uint32_t phase = LLS_PHASE_QUEUED; phase <= LLS_PHASE_DECODE; phase++)
      lls_life_note(&queued->life, phase, phase * 1234 * LLS_NS_PER_MS);
    strcpy(queued->label, request->label);
    q->length += (size_t)sprintf(q->lines + q->length, "request %llu\xff\n",
                                 (unsigned long long)request->id);
  }
  loop->options.wake(loop->options.wake_context);
  return 0;
}

bool lls_loop_snapshot_ready(struct lls_loop *loop)
{
  (void)loop;
  return true;
}

const struct lls_snapshot *lls_loop_snapshot(struct lls_loop *loop, uint32_t instance)
{
  (void)instance;
  return &loop->queues;
}

bool lls_loop_idle(struct lls_loop *loop)
{
  return loop->requests == NULL && loop->events == NULL;
}

bool lls_loop_failed(struct lls_loop *loop, struct lls_error *err)
{
  if (loop->broken)
    lls_fail(err, -EIO, "the fake engine is broken");
  return loop->broken;
}

void lls_loop_instance_life(struct lls_loop *loop, uint32_t instance,
                            struct lls_instance_life *out)
{
  (void)loop;
  (void)instance;
  *out = (struct lls_instance_life){.state = LLS_INSTANCE_UP};
}

bool lls_loop_all_up(struct lls_loop *loop, struct lls_error *why)
{
  (void)loop;
  (void)why;
  return true;
}

bool lls_loop_answers(struct lls_loop *loop, struct lls_error *why)
{
  (void)loop;
  (void)why;
  return true;
}

bool lls_loop_lost(struct lls_loop *loop, struct lls_error *why)
{
  (void)loop, (void)why;
  return false;
}

bool lls_loop_hangs(struct lls_loop *loop, struct lls_error *why)
{
  (void)loop, (void)why;
  return false;
}

void lls_loop_drain(struct lls_loop *loop)
{
  loop->status.draining = true;
}

/* ---- life ----------------------------------------------------------------------- */

struct lls_loop *fake_loop_create(const struct fake_options *options)
{
  struct lls_loop *loop = calloc(1, sizeof *loop);
  loop->options = *options;
  loop->timer.data = loop;
  uv_timer_init(options->uv, &loop->timer);
  if (options->period_ms > 0)
    uv_timer_start(&loop->timer, on_tick, options->period_ms, options->period_ms);
  return loop;
}

static void on_timer_closed(uv_handle_t *handle)
{
  struct lls_loop *loop = handle->data;
  while (loop->requests != NULL)
    finish(loop, loop->requests, LLS_FINISH_CANCELLED);
  while (loop->events != NULL) {
    struct fake_event *event = loop->events;
    DL_DELETE(loop->events, event);
    if (event->event.kind == LLS_EVENT_FINISHED)
      free_request((struct fake_request *)event->event.live);
    free(event);
  }
  free(loop);
}

void fake_loop_stop(struct lls_loop *loop)
{
  uv_close((uv_handle_t *)&loop->timer, on_timer_closed);
}
