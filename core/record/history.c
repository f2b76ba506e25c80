/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two rings, of requests and of hashes; see history.h. Requests are numbered by arrival;
 * request n is at n % LLS_HISTORY_REQUESTS. Hashes are counted from the start; hash i is
 * at i % LLS_HISTORY_HASHES, and a request's hashes begin at `hashed`. A request is lost
 * when a later one takes its place; one whose hashes were overwritten has only lost its
 * prefix.
 */
#include "core/record/history.h"

#include <llmserve/scheduler.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/error.h"
#include "core/instance/request.h"
#include "core/record/decision_log.h"

struct past {
  uint64_t number; /* 0: an empty place */
  uint64_t hashed; /* count of hashes written before its own */
  uint32_t n_hashes;
  /* the request at its end, or at arrival; all pointers are NULL */
  struct lls_request request;
  int64_t first_token_ns;
};

struct lls_history {
  int64_t span_ns;
  struct lls_text header;
  struct lls_loop_observer next; /* called on the reporting thread */
  pthread_mutex_t mutex;         /* guards the members below */
  struct lls_decision_numbers numbers;
  struct past *past; /* (LLS_HISTORY_REQUESTS) */
  uint32_t *hashes;  /* (LLS_HISTORY_HASHES) */
  uint64_t hashed;   /* count of hashes written so far */
};

/* ---- [step], or [main] where the front end reports --------------------------------- */

static void forget_pointers(struct lls_request *r)
{
  r->tokens = NULL;
  r->label = r->tenant_name = r->adapter_name = NULL;
  r->user = NULL;
  r->session = NULL;
  r->expected = NULL;
  r->drafts = NULL;
  r->draft_odds = NULL;
  r->n_expected = r->drafted_tokens = 0;
}

static void add(struct lls_history *h, const struct lls_request *r)
{
  uint64_t number = lls_decision_number_new(&h->numbers, r->id);
  struct past *p = &h->past[number % LLS_HISTORY_REQUESTS];
  uint32_t hash = LLS_DECISION_HASH_BEGIN;
  *p = (struct past){
      .number = number, .hashed = h->hashed, .request = *r, .first_token_ns = LLS_NEVER};
  forget_pointers(&p->request);
  for (uint32_t i = 0; r->tokens != NULL && i < r->prompt_tokens; i++)
    if (lls_decision_hash(&hash, r->tokens[i], i))
      h->hashes[h->hashed++ % LLS_HISTORY_HASHES] = hash;
  p->n_hashes = (uint32_t)(h->hashed - p->hashed);
}

static void end(struct lls_history *h, const struct lls_request *r)
{
  uint64_t number = lls_decision_number(&h->numbers, r->id);
  struct past *p = &h->past[number % LLS_HISTORY_REQUESTS];
  if (p->number != number || p->request.id != r->id)
    return; /* a later request has taken its place */
  p->request = *r;
  forget_pointers(&p->request);
  p->first_token_ns = lls_live_of(r)->first_token_ns;
}

static void on_arrival(void *context, const struct lls_request *r)
{
  struct lls_history *h = context;
  pthread_mutex_lock(&h->mutex);
  add(h, r);
  pthread_mutex_unlock(&h->mutex);
  if (h->next.on_arrival != NULL)
    h->next.on_arrival(h->next.context, r);
}

static void on_finish(void *context, const struct lls_request *r)
{
  struct lls_history *h = context;
  pthread_mutex_lock(&h->mutex);
  end(h, r);
  pthread_mutex_unlock(&h->mutex);
  if (h->next.on_finish != NULL)
    h->next.on_finish(h->next.context, r);
}

static void on_plan(void *context, const struct lls_step_view *view,
                    const struct lls_plan *plan, bool own)
{
  const struct lls_history *h = context;
  h->next.on_plan(h->next.context, view, plan, own);
}

static void on_step(void *context, const struct lls_step_report *report,
                    const struct lls_loop_census *census)
{
  const struct lls_history *h = context;
  h->next.on_step(h->next.context, report, census);
}

/* If `next` does not observe steps, neither does the history: unobserved steps can
 * overlap. */
struct lls_loop_observer lls_history_observer(struct lls_history *h,
                                              struct lls_loop_observer next)
{
  h->next = next;
  return (struct lls_loop_observer){.context = h,
                                    .on_arrival = on_arrival,
                                    .on_plan = next.on_plan != NULL ? on_plan : NULL,
                                    .on_step = next.on_step != NULL ? on_step : NULL,
                                    .on_finish = on_finish};
}

/* ---- writing ----------------------------------------------------------------------- */

/* Returns true if the request ended before from_ns. Under overload a request may end
 * long after it arrived, and only ended requests show how they were served. */
static bool over_before(const struct past *p, int64_t from_ns)
{
  const struct lls_request *r = &p->request;
  return r->arrival_ns < from_ns && r->finish_reason != LLS_FINISH_NONE &&
         (r->last_token_ns == LLS_NEVER || r->last_token_ns < from_ns);
}

/* Returns the oldest kept request that was alive at from_ns or later. */
static uint64_t oldest(struct lls_history *h, uint64_t last, int64_t from_ns)
{
  uint64_t first = last >= LLS_HISTORY_REQUESTS ? last - LLS_HISTORY_REQUESTS + 1 : 1;
  while (first < last && over_before(&h->past[first % LLS_HISTORY_REQUESTS], from_ns))
    first++;
  return first;
}

static void write_ending(const struct past *p, struct lls_text *out)
{
  if (p->request.finish_reason == LLS_FINISH_NONE)
    return;
  lls_text_printf(out, "E %" PRIu64 " %u %u", p->number, p->request.generated_tokens,
                  p->request.finish_reason);
  if (p->first_token_ns != LLS_NEVER)
    lls_text_printf(out, " %" PRId64 " %" PRId64, p->first_token_ns,
                    p->request.last_token_ns);
  lls_text_puts(out, "\n");
}

/* Writes one request, under the mutex. No step waits for more than one request. */
static void write_one(struct lls_history *h, uint64_t number, struct lls_text *out)
{
  const struct past *p = &h->past[number % LLS_HISTORY_REQUESTS];
  if (p->number != number)
    return;
  lls_decision_write_arrival(number, &p->request, out);
  if (h->hashed - p->hashed <= LLS_HISTORY_HASHES)
    for (uint64_t i = p->hashed; i < p->hashed + p->n_hashes; i++)
      lls_text_printf(out, " %08" PRIx32, h->hashes[i % LLS_HISTORY_HASHES]);
  lls_text_puts(out, "\n");
  write_ending(p, out);
}

void lls_history_write(struct lls_history *h, struct lls_text *out)
{
  lls_text_append(out, h->header.data, h->header.length);
  pthread_mutex_lock(&h->mutex);
  uint64_t last = h->numbers.last;
  const struct past *newest = &h->past[last % LLS_HISTORY_REQUESTS];
  uint64_t first = oldest(h, last, newest->request.arrival_ns - h->span_ns);
  pthread_mutex_unlock(&h->mutex);
  for (uint64_t number = first; number <= last; number++) {
    pthread_mutex_lock(&h->mutex);
    write_one(h, number, out);
    pthread_mutex_unlock(&h->mutex);
  }
}

/* ---- create and destroy ------------------------------------------------------------ */

int lls_history_create(int64_t span_ns, const struct lls_loop_options *o,
                       const struct lls_engine *engine, struct lls_history **out,
                       struct lls_error *err)
{
  struct lls_history *h = calloc(1, sizeof *h);
  if (h != NULL) {
    h->span_ns = span_ns;
    h->past = calloc(LLS_HISTORY_REQUESTS, sizeof *h->past);
    h->hashes = calloc(LLS_HISTORY_HASHES, sizeof *h->hashes);
    pthread_mutex_init(&h->mutex, NULL);
    lls_decision_write_header(&o->policies, engine, o->max_requests, o->seed, &h->header);
  }
  if (h == NULL || h->past == NULL || h->hashes == NULL || h->header.failed ||
      lls_decision_numbers_init(&h->numbers, o->max_requests) < 0) {
    lls_history_destroy(h);
    return lls_fail(err, -ENOMEM, "no memory for the history of requests");
  }
  *out = h;
  return 0;
}

void lls_history_destroy(struct lls_history *h)
{
  if (h == NULL)
    return;
  lls_decision_numbers_free(&h->numbers);
  lls_text_free(&h->header);
  pthread_mutex_destroy(&h->mutex);
  free(h->past);
  free(h->hashes);
  free(h);
}
