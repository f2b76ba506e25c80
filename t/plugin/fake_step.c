/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and the step of the fake host. */
#include "t/tap.h"

#include "t/plugin/fake.h"

#include <string.h>

/* ---- requests ------------------------------------------------------------------- */

static void append_token(struct fake_request *r, uint32_t i, int32_t token)
{
  uint64_t h = i > 0 ? r->digests[i - 1] : UINT64_C(0xcbf29ce484222325);
  h = (h ^ (uint32_t)token) * UINT64_C(0x100000001b3);
  r->tokens[i] = token;
  r->digests[i] = h ^ h >> 29;
}

static struct lls_prompt prompt_of(const struct fake_request *r)
{
  return (struct lls_prompt){
      .size = sizeof(struct lls_prompt),
      .n_tokens = r->view.prompt_tokens,
      .max_new_tokens = r->view.max_new_tokens,
      .tokens = r->tokens,
      .label = r->view.label,
      .id = r->view.id,
      .tenant = r->view.tenant,
      .priority = r->view.priority,
  };
}

static void predict(struct fake *f, struct fake_request *r)
{
  struct lls_prompt prompt = prompt_of(r);
  struct lls_prediction out = {0};
  if (f->p->predict(f->predictor_self, r->view.id, &prompt, &out) == 0)
    r->view.prediction = out;
  if (f->next.predicted > 0)
    r->view.prediction = (struct lls_prediction){.length = f->next.predicted,
                                                 .low = f->next.predicted,
                                                 .high = f->next.predicted,
                                                 .source = LLS_PREDICTED_MODEL};
}

struct fake_request *fake_submit(struct fake *f, const int32_t *tokens, uint32_t n,
                                 uint32_t output)
{
  uint32_t slot = 0;
  while (slot < f->o.max_requests && f->by_slot[slot] != NULL)
    slot++;
  if (slot == f->o.max_requests)
    return NULL;
  struct fake_request *r = calloc(1, sizeof *r);
  r->tokens = calloc(f->o.max_context + 1, sizeof *r->tokens);
  r->digests = calloc(f->o.max_context + 1, sizeof *r->digests);
  for (uint32_t i = 0; i < n; i++)
    append_token(r, i, tokens[i]);
  r->output = output;
  r->view = (struct lls_request){
      .id = f->next_id++,
      .state = LLS_WAITING,
      .residency = LLS_RESIDENT_NONE,
      .slot = slot,
      .prompt_tokens = n,
      .max_new_tokens = f->next.max_new_tokens > output ? f->next.max_new_tokens : output,
      .request_class = f->next.request_class,
      .tenant = f->next.tenant,
      .arrival_ns = f->now_ns,
      .queue_enter_ns = f->now_ns,
      .first_scheduled_ns = LLS_NEVER,
      .last_token_ns = f->now_ns,
      .slo = f->next.slo,
      .tokens = r->tokens,
      .label = "",
      .user = r->user,
  };
  f->by_slot[slot] = r;
  predict(f, r);
  assert_int_equal(f->c->admit(f->cache_self, &r->view), 0);
  if (f->s->on_arrival != NULL)
    f->s->on_arrival(f->scheduler_self, &r->view);
  return r;
}

void fake_free(struct fake_request *r)
{
  if (r == NULL)
    return;
  free(r->tokens);
  free(r->digests);
  free(r);
}

static void finish(struct fake *f, struct fake_request *r, uint32_t reason)
{
  r->view.state = LLS_FINISHED;
  r->view.finish_reason = reason;
  if (f->s->on_finish != NULL)
    f->s->on_finish(f->scheduler_self, &r->view, reason);
  f->c->release(f->cache_self, &r->view, LLS_KEEP_PREFIX);
  f->by_slot[r->view.slot] = NULL;
  f->finished[reason]++;
  struct lls_prompt prompt = prompt_of(r);
  if (reason == LLS_FINISH_LENGTH && f->p->observe != NULL)
    f->p->observe(f->predictor_self, &prompt, r->view.generated_tokens);
  if (reason != LLS_FINISH_LENGTH && f->p->on_end != NULL)
    f->p->on_end(f->predictor_self, &prompt, r->view.generated_tokens, reason);
  fake_free(r);
}

void fake_cancel(struct fake *f, struct fake_request *r)
{
  finish(f, r, LLS_FINISH_CANCELLED);
}

uint32_t fake_alive(const struct fake *f)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->o.max_requests; i++)
    n += f->by_slot[i] != NULL;
  return n;
}

/* ---- the step ------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
  const struct lls_request *const *x = a, *const *y = b;
  return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

static void make_lists(struct fake *f)
{
  f->waiting.n = f->running.n = f->preempted.n = 0;
  for (uint32_t i = 0; i < f->o.max_requests; i++) {
    struct fake_request *r = f->by_slot[i];
    if (r == NULL)
      continue;
    r->placed = PLACED_NOT;
    r->named = r->doomed = false;
    struct fake_list *list = r->view.state == LLS_WAITING     ? &f->waiting
                             : r->view.state == LLS_PREEMPTED ? &f->preempted
                                                              : &f->running;
    list->items[list->n++] = &r->view;
  }
  qsort(f->waiting.items, f->waiting.n, sizeof *f->waiting.items, by_id);
  qsort(f->running.items, f->running.n, sizeof *f->running.items, by_id);
  qsort(f->preempted.items, f->preempted.n, sizeof *f->preempted.items, by_id);
}

static void audit_clean(struct fake *f)
{
  if (f->o.audit && fake_audit(f) != 0)
    fail_msg("%s\n%s", f->failure, f->text);
}

static void refuse(struct fake *f, struct fake_request *r, uint32_t refusal)
{
  f->refused_items++;
  if (f->s->on_refused != NULL)
    f->s->on_refused(f->scheduler_self, &r->view, refusal);
}

/* A bad plan must leave no trace in the cache. */
static void refuse_plan(struct fake *f, struct fake_request *culprit, const char *why,
                        const char *before)
{
  if (!f->o.expect_refusals)
    fail_msg("plan of step %llu refused: %s %s", (unsigned long long)f->step, why,
             f->misbehaviour);
  f->refused_plans++;
  fake_rollback(f, 0);
  f->plan.n_items = 0;
  audit_clean(f);
  if (before != NULL)
    assert_string_equal(f->text, before);
  if (culprit != NULL)
    refuse(f, culprit, LLS_REFUSED_BAD_ITEM);
}

/* In the place of the core's built-in order: waiting requests run whole, running ones are
 * dropped, every second of each. */
static void plan_anything(struct fake *f, const struct lls_step_view *view)
{
  uint32_t tokens = f->caps.max_step_tokens;
  for (uint32_t i = 0; i < view->n_waiting; i += 2) {
    uint32_t pending = lls_request_pending(view->waiting[i]);
    if (pending > tokens || f->plan.n_items == f->caps.max_sequences)
      break;
    lls_plan_run(&f->plan, view->waiting[i], pending);
    tokens -= pending;
  }
  for (uint32_t i = 0; i < view->n_running; i += 2)
    lls_plan_preempt(&f->plan, view->running[i], LLS_PREEMPT_RECOMPUTE);
}

static void ask(struct fake *f)
{
  struct lls_step_view view = {
      .size = sizeof view,
      .preempt_mode = f->preempt_mode,
      .step = f->step,
      .now_ns = f->now_ns,
      .n_waiting = f->waiting.n,
      .n_running = f->running.n,
      .n_preempted = f->preempted.n,
      .waiting = f->waiting.items,
      .running = f->running.items,
      .preempted = f->preempted.items,
      .max_tokens = f->caps.max_step_tokens,
      .max_sequences = f->caps.max_sequences,
      .cache = &f->service,
  };
  char *before = NULL;
  if (f->o.audit) {
    audit_clean(f);
    before = strdup(f->text);
  }
  f->plan.n_items = f->plan.overflow = 0;
  f->plan.idle_until_ns = LLS_NEVER;
  if (f->plan_itself) {
    plan_anything(f, &view);
    free(before);
    return;
  }
  int rc = f->s->plan(f->scheduler_self, &view, &f->plan);
  struct fake_request *culprit;
  const char *why = fake_check_plan(f, &culprit);
  if (why == NULL && f->refuse_next)
    why = "the test wants it refused";
  if (rc < 0 || why != NULL)
    refuse_plan(f, culprit, rc < 0 ? "plan returned an error" : why, before);
  free(before);
}

static void place_item(struct fake *f, const struct lls_plan_item *item,
                       struct fake_request *r)
{
  if (r->placed != PLACED_NOT) {
    if (item->kind == LLS_PLAN_RUN && item->tokens < r->run_tokens)
      r->run_tokens = item->tokens;
    return;
  }
  int rc = item->kind == LLS_PLAN_RUN ? fake_reserve(f, r, item->tokens, item->form, 0)
                                      : fake_preempt(f, r, item->mode);
  r->doomed = rc == LLS_RESERVE_NEVER;
  if (rc < 0)
    refuse(f, r, LLS_REFUSED_UNSUPPORTED);
  else if (rc != LLS_RESERVE_OK)
    refuse(f, r, r->doomed ? LLS_REFUSED_NEVER_FITS : LLS_REFUSED_NO_MEMORY);
}

static void place_kind(struct fake *f, uint32_t kind)
{
  for (uint32_t i = 0; i < f->plan.n_items; i++)
    if (f->plan.items[i].kind == kind)
      place_item(f, &f->plan.items[i], fake_find(f, f->plan.items[i].request));
}

static void refresh(struct fake *f, struct fake_request *r)
{
  struct lls_cache_info info = {.size = sizeof info};
  assert_int_equal(f->c->info(f->cache_self, &r->view, &info), 0);
  assert_int_equal(info.cached_tokens, r->view.cached_tokens);
  r->view.residency = info.residency;
  r->view.form = info.form;
  r->view.missing_tokens = info.missing_tokens;
  r->view.shared_tokens = info.shared_tokens;
}

static void account_preempt(struct fake *f, struct fake_request *r)
{
  if (r->mode == LLS_PREEMPT_DEFER)
    return;
  bool swap = r->mode == LLS_PREEMPT_SWAP;
  *(swap ? &f->preempted_swap : &f->preempted_recompute) += 1;
  r->view.preemptions++;
  r->view.queue_enter_ns = f->now_ns;
  r->view.state = swap ? LLS_PREEMPTED : LLS_WAITING;
  if (!swap)
    r->view.cached_tokens = 0;
  refresh(f, r);
}

static void account_displaced(struct fake *f, struct fake_request *r)
{
  refresh(f, r);
  if (r->view.missing_tokens > 0 && r->view.state != LLS_PREEMPTED) {
    r->view.queue_enter_ns = f->now_ns;
    r->view.state = LLS_PREEMPTED;
    f->displaced++;
  }
}

static void account_run(struct fake *f, struct fake_request *r)
{
  if (f->o.no_chunked_prefill)
    assert_int_equal(r->context + r->run_tokens, lls_request_length(&r->view));
  if (r->view.first_scheduled_ns == LLS_NEVER)
    r->view.first_scheduled_ns = f->now_ns;
  f->shared_tokens += r->context - r->view.cached_tokens;
  r->view.cached_tokens = r->context;
  r->view.state = LLS_PREFILLING;
}

static void each_placed(struct fake *f, enum fake_placed placed,
                        void (*visit)(struct fake *, struct fake_request *))
{
  for (uint32_t i = 0; i < f->o.max_requests; i++)
    if (f->by_slot[i] != NULL && f->by_slot[i]->placed == placed)
      visit(f, f->by_slot[i]);
}

static void write_slots(struct fake *f, struct fake_request *r)
{
  struct lls_block_table table = {0};
  assert_int_equal(f->c->table(f->cache_self, &r->view, &table), 0);
  fake_memory_write(&f->memory, &table, r->digests, r->context,
                    r->context + r->run_tokens);
}

static void read_slots(struct fake *f, struct fake_request *r)
{
  struct lls_block_table table = {0};
  assert_int_equal(f->c->table(f->cache_self, &r->view, &table), 0);
  fake_memory_check(&f->memory, &table, r->digests, r->context + r->run_tokens);
  f->now_ns += 100000 * r->run_tokens;
}

static void compute(struct fake *f)
{
  const struct lls_copy *copies;
  size_t n = f->c->copies(f->cache_self, &copies);
  for (size_t i = 0; i < n; i++) {
    fake_memory_copy(&f->memory, &copies[i]);
    f->copies[copies[i].kind]++;
  }
  each_placed(f, PLACED_RESERVED, write_slots);
  each_placed(f, PLACED_RESERVED, read_slots);
}

static void book(struct fake *f, struct fake_request *r, struct lls_step_result *result)
{
  struct lls_request *v = &r->view;
  v->cached_tokens = r->context + r->run_tokens;
  f->c->computed(f->cache_self, v, v->cached_tokens);
  bool emits = v->cached_tokens == lls_request_length(v);
  if (emits) {
    uint32_t i = lls_request_length(v);
    append_token(r, i, (int32_t)(r->digests[i - 1] % FAKE_VOCABULARY));
    v->generated_tokens++;
    v->last_token_ns = f->now_ns;
    v->state = LLS_DECODING;
    if (v->generated_tokens == r->output || lls_request_length(v) == f->o.max_context)
      v->finish_reason = LLS_FINISH_LENGTH;
  }
  refresh(f, r);
  *result = (struct lls_step_result){v, r->run_tokens, emits};
}

static uint32_t commit(struct fake *f, int64_t started_ns)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->plan.n_items; i++) {
    struct fake_request *r = fake_find(f, f->plan.items[i].request);
    if (r != NULL && r->placed == PLACED_RESERVED)
      book(f, r, &f->results[n++]);
  }
  struct lls_step_report report = {
      .size = sizeof report,
      .step = f->step,
      .started_ns = started_ns,
      .ended_ns = f->now_ns,
      .n_results = n,
      .results = f->results,
  };
  if (n > 0 && f->s->on_step != NULL)
    f->s->on_step(f->scheduler_self, &report);
  for (uint32_t i = 0; i < f->o.max_requests; i++)
    if (f->by_slot[i] != NULL && f->by_slot[i]->view.finish_reason != LLS_FINISH_NONE)
      finish(f, f->by_slot[i], f->by_slot[i]->view.finish_reason);
  return n;
}

static void finish_rejected(struct fake *f)
{
  for (uint32_t i = 0; i < f->plan.n_items; i++) {
    const struct lls_plan_item *item = &f->plan.items[i];
    struct fake_request *r = fake_find(f, item->request);
    if (item->kind == LLS_PLAN_REJECT)
      finish(f, r, item->reason);
    else if (r->doomed)
      finish(f, r, LLS_FINISH_CAPACITY);
  }
}

uint32_t fake_step(struct fake *f)
{
  int64_t started_ns = f->now_ns += 1000000;
  make_lists(f);
  assert_int_equal(f->c->begin(f->cache_self), 0);
  f->in_transaction = true;
  ask(f);
  place_kind(f, LLS_PLAN_PREEMPT);
  place_kind(f, LLS_PLAN_RUN);
  f->in_transaction = false;
  audit_clean(f);
  assert_int_equal(f->c->commit(f->cache_self), 0);
  each_placed(f, PLACED_PREEMPTED, account_preempt);
  each_placed(f, PLACED_NOT, account_displaced);
  each_placed(f, PLACED_RESERVED, account_run);
  finish_rejected(f);
  compute(f);
  uint32_t ran = commit(f, started_ns);
  audit_clean(f);
  f->step++;
  return ran;
}

void fake_finish(struct fake *f, uint32_t most_steps)
{
  for (uint32_t i = 0; fake_alive(f) > 0; i++) {
    if (i == most_steps)
      fail_msg("%u requests are still alive after %u steps", fake_alive(f), most_steps);
    fake_step(f);
  }
}

const char *fake_plan_text(const struct fake *f, char *buffer, size_t size)
{
  size_t n = 0;
  buffer[0] = '\0';
  for (uint32_t i = 0; i < f->plan.n_items && n < size; i++) {
    const struct lls_plan_item *item = &f->plan.items[i];
    const char *space = n > 0 ? " " : "";
    unsigned long long id = item->request;
    if (item->kind == LLS_PLAN_RUN)
      n += (size_t)snprintf(buffer + n, size - n, "%s%llu:%u", space, id, item->tokens);
    else if (item->kind == LLS_PLAN_PREEMPT)
      n += (size_t)snprintf(buffer + n, size - n, "%s-%llu", space, id);
    else
      n += (size_t)snprintf(buffer + n, size - n, "%sx%llu", space, id);
  }
  return buffer;
}
