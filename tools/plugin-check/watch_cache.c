/* SPDX-License-Identifier: Apache-2.0 */
/* A cache manager under watch: transactions, answers about memory, what slots hold; see
 * watch.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plugin-check/watch.h"

/* ---- life --------------------------------------------------------------------- */

static int create(const struct lls_host *core, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  const struct handed *handed = params;
  struct witness *w = watch_create(handed, core);
  w->geometry = *g;
  w->n_slots = 2 * core->engine->max_requests; /* slots are a power of two */
  w->placed = calloc(w->n_slots, sizeof *w->placed);
  if (w->placed == NULL)
    abort();
  shadow_resize(&w->watch->shadow, g);
  struct call call = watch_enter(w, "create", TAG_MAIN);
  int rc = w->real->cache.create(&w->host, handed->params, g, &w->self);
  watch_leave(w, call);
  if (rc != 0)
    free(w->placed);
  return watch_created(w, rc, self);
}

static void forget_marks(struct witness *w, uint32_t n)
{
  while (w->n_marks > n)
    free(w->marks[--w->n_marks].text);
}

static void destroy(void *self)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "destroy", TAG_MAIN);
  if (w->self != NULL)
    w->real->cache.destroy(w->self);
  watch_leave(w, call);
  forget_marks(w, 0);
  free(w->marks);
  free(w->placed);
  free(w);
}

static int reconfigure(void *self, const void *params)
{
  struct witness *w = self;
  const struct handed *handed = params;
  struct call call = watch_enter(w, "reconfigure", TAG_MAIN);
  int rc = w->real->cache.reconfigure(w->self, handed->params);
  watch_leave(w, call);
  return rc;
}

/* ---- audits ------------------------------------------------------------------- */

static void put_text(void *context, const char *line)
{
  fprintf(context, "%s\n", line);
}

static void put_number(void *context, const char *name, double value)
{
  fprintf(context, "%s %.17g\n", name, value);
}

static int audit(void *self, const struct lls_sink *sink)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "audit", TAG_STEP);
  w->watch->failure[0] = '\0';
  int rc = w->real->cache.audit(w->self, sink);
  watch_leave(w, call);
  if (rc < 0)
    found(w->watch->findings, "audit finds fault with itself in step %" PRIu64 ": %s",
          w->step, w->watch->failure[0] != '\0' ? w->watch->failure : strerror(-rc));
  return rc;
}

/* The whole state as text, malloc'ed. */
static char *audit_text(struct witness *w)
{
  char *text = NULL;
  size_t bytes = 0;
  FILE *file = open_memstream(&text, &bytes);
  struct lls_sink sink = {.context = file, .number = put_number, .text = put_text};
  if (file == NULL)
    abort();
  audit(w, &sink);
  fclose(file);
  return text;
}

/* The first line of b that differs from a's, or what comes next. */
static const char *difference(const char *a, const char *b)
{
  size_t line = 0;
  for (size_t i = 0; a[i] != '\0' && a[i] == b[i]; i++)
    if (a[i] == '\n')
      line = i + 1;
  return b + line;
}

static void remember(struct witness *w, uint32_t mark)
{
  if (w->n_marks == w->capacity_marks) {
    w->capacity_marks = 2 * w->capacity_marks + 64;
    w->marks = realloc(w->marks, w->capacity_marks * sizeof *w->marks);
    if (w->marks == NULL)
      abort();
  }
  w->marks[w->n_marks++] = (struct mark){mark, audit_text(w)};
}

static void compare(struct witness *w, const char *before, uint32_t mark)
{
  char *after = audit_text(w);
  if (strcmp(before, after) != 0) {
    const char *line = difference(before, after), *was = difference(after, before);
    found(w->watch->findings,
          "rollback(%u) in step %" PRIu64 " leaves another state than mark saw: \"%.*s\" "
          "was \"%.*s\"",
          mark, w->step, (int)strcspn(line, "\n"), line, (int)strcspn(was, "\n"), was);
  }
  free(after);
}

/* ---- the transaction ---------------------------------------------------------- */

static int begin(void *self)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "begin", TAG_STEP);
  int64_t started_ns = watch_cpu_ns();
  int rc = w->real->cache.begin(w->self);
  watch_sample(w->watch, watch_cpu_ns() - started_ns);
  watch_leave(w, call);
  uint32_t every = w->watch->audit_every;
  w->audited = !w->watch->light && every > 0 && w->step % every == 0;
  w->step++;
  forget_marks(w, 0);
  if (w->audited) /* what copies gave is void from begin on: not the state before it */
    remember(w, 0);
  for (uint32_t i = 0; i < w->n_slots; i++)
    w->placed[i].in_step = w->placed[i].preempted = false;
  return rc;
}

static uint32_t mark(void *self)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "mark", TAG_STEP);
  uint32_t mark = w->real->cache.mark(w->self);
  watch_leave(w, call);
  if (w->audited && (w->n_marks == 0 || mark > w->marks[w->n_marks - 1].mark))
    remember(w, mark);
  return mark;
}

static int rollback(void *self, uint32_t to)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "rollback", TAG_STEP);
  int rc = w->real->cache.rollback(w->self, to);
  watch_leave(w, call);
  if (rc < 0)
    found(w->watch->findings, "rollback(%u) failed: %s", to, strerror(-rc));
  for (uint32_t i = w->n_marks; w->audited && i-- > 0;)
    if (w->marks[i].mark == to) {
      compare(w, w->marks[i].text, to);
      forget_marks(w, i + 1);
      break;
    }
  return rc;
}

static int commit(void *self)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "commit", TAG_STEP);
  int rc = w->real->cache.commit(w->self);
  watch_leave(w, call);
  if (rc < 0)
    found(w->watch->findings, "commit failed: %s; it can't for want of memory",
          strerror(-rc));
  if (w->audited)
    free(audit_text(w));
  return rc;
}

/* ---- memory ------------------------------------------------------------------- */

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "capacity", TAG_STEP);
  int rc = w->real->cache.capacity(w->self, tier, out);
  watch_leave(w, call);
  uint32_t most =
      tier == LLS_TIER_DEVICE ? w->geometry.device_units : w->geometry.host_units;
  if (rc == 0 && tier <= LLS_TIER_HOST &&
      (out->free_units > out->total_units || out->total_units > most))
    found(w->watch->findings, "capacity: %u units free of %u, in a pool of %u",
          out->free_units, out->total_units, most);
  return rc;
}

/* Nobody else has anything on the device, and nothing was taken off it in this step. */
static bool is_alone(struct witness *w, const struct lls_request *r)
{
  for (uint32_t i = 0; i < w->n_slots; i++) {
    const struct placed *p = &w->placed[i];
    struct lls_cache_info info = {.size = sizeof info};
    if (p->preempted)
      return false;
    if (p->request == NULL || p->request == r)
      continue;
    if (w->real->cache.info(w->self, p->request, &info) < 0 || info.device_units > 0)
      return false;
  }
  return true;
}

static void judge_refusal(struct witness *w, const struct lls_request *r, uint32_t tokens,
                          int rc)
{
  uint32_t wanted = r->cached_tokens + tokens, slots = w->geometry.block_tokens;
  uint32_t units = 2 * ((wanted + slots - 1) / slots);
  if (units > w->geometry.device_units / 2)
    return; /* what is left over may be the manager's own reserve */
  if (rc == LLS_RESERVE_NEVER)
    found(w->watch->findings,
          "reserve says NEVER to %u tokens, %u units, in a pool of %u", wanted, units,
          w->geometry.device_units);
  else if (rc == LLS_RESERVE_LATER && r->cached_tokens == 0 && is_alone(w, r))
    found(w->watch->findings,
          "reserve says LATER to %u tokens, %u units, with nobody else in a pool of %u: "
          "there is nothing to wait for",
          wanted, units, w->geometry.device_units);
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "reserve", TAG_STEP);
  int rc = w->real->cache.reserve(w->self, r, tokens, form, flags);
  watch_leave(w, call);
  if (rc > LLS_RESERVE_NEVER)
    found(w->watch->findings, "reserve returned %d: expected enum lls_reserve_result",
          rc);
  else if (rc != LLS_RESERVE_OK && !w->watch->light && !w->watch->any_refusal)
    judge_refusal(w, r, tokens, rc);
  if (w->watch->journal != NULL)
    fprintf(w->watch->journal, "step %" PRIu64 " reserve %" PRIu64 " %u: %d\n", w->step,
            r->id, tokens, rc);
  return rc;
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "preempt", TAG_STEP);
  int rc = w->real->cache.preempt(w->self, r, mode);
  watch_leave(w, call);
  w->placed[r->slot].preempted |= rc == 0;
  if (w->watch->journal != NULL)
    fprintf(w->watch->journal, "step %" PRIu64 " preempt %" PRIu64 " %u: %d\n", w->step,
            r->id, mode, rc);
  return rc;
}

/* ---- what slots hold ---------------------------------------------------------- */

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "table", TAG_STEP);
  int rc = w->real->cache.table(w->self, r, out);
  watch_leave(w, call);
  if (rc < 0)
    found(w->watch->findings,
          "table of request %" PRIu64 ", which was reserved, failed: %s", r->id,
          strerror(-rc));
  struct placed *p = &w->placed[r->slot];
  p->table = *out;
  p->context = r->cached_tokens;
  p->in_step = rc == 0;
  if (w->watch->journal != NULL)
    for (uint32_t i = 0; i < out->k_count; i++)
      fprintf(w->watch->journal, "step %" PRIu64 " table %" PRIu64 " %u: %u\n", w->step,
              r->id, i, out->k[i].block);
  return rc;
}

static size_t copies(void *self, const struct lls_copy **out)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "copies", TAG_STEP);
  size_t n = w->real->cache.copies(w->self, out);
  watch_leave(w, call);
  for (size_t i = 0; i < n && !w->watch->light; i++) {
    const struct lls_copy *c = &(*out)[i];
    if (!shadow_copy(&w->watch->shadow, c))
      found(w->watch->findings,
            "copies: number %zu reaches outside: kind %u, unit %u to %u, slots %u + %u, "
            "shift %d",
            i, c->kind, c->source, c->target, c->slot, c->n_slots, c->shift);
  }
  return n;
}

static void computed(void *self, const struct lls_request *r, uint32_t cached_tokens)
{
  struct witness *w = self;
  struct placed *p = &w->placed[r->slot];
  if (p->in_step && !w->watch->light) {
    const char *list = "";
    uint32_t at = shadow_verify(&w->watch->shadow, &p->table, r, p->context, &list);
    if (at < p->context)
      found(w->watch->findings,
            "token %u of request %" PRIu64
            " is not where its %s list says in step %" PRIu64
            ": another token has been written there, or it was never copied",
            at, r->id, list, w->step);
    shadow_write(&w->watch->shadow, &p->table, r, p->context, cached_tokens);
  }
  p->in_step = false;
  struct call call = watch_enter(w, "computed", TAG_STEP);
  w->real->cache.computed(w->self, r, cached_tokens);
  watch_leave(w, call);
}

static int admit(void *self, const struct lls_request *r)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "admit", TAG_STEP);
  int rc = w->real->cache.admit(w->self, r);
  watch_leave(w, call);
  w->placed[r->slot] = (struct placed){.request = rc == 0 ? r : NULL};
  return rc;
}

static void release(void *self, const struct lls_request *r, uint32_t flags)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "release", TAG_STEP);
  w->real->cache.release(w->self, r, flags);
  watch_leave(w, call);
  w->placed[r->slot] = (struct placed){0};
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "info", TAG_STEP);
  int rc = w->real->cache.info(w->self, r, out);
  watch_leave(w, call);
  if (rc == 0 &&
      (out->missing_tokens > out->cached_tokens || out->owned_units > out->device_units))
    found(w->watch->findings,
          "info: %u tokens missing of %u cached, %u units owned of %u held",
          out->missing_tokens, out->cached_tokens, out->owned_units, out->device_units);
  w->placed[r->slot].request = r; /* also what was taken over in a reload */
  return rc;
}

static uint32_t prefix(void *self, const struct lls_request *r, bool take)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "prefix", TAG_STEP);
  uint32_t tokens = w->real->cache.prefix(w->self, r, take);
  watch_leave(w, call);
  if (tokens >= lls_request_length(r))
    found(w->watch->findings,
          "prefix: %u tokens of request %" PRIu64
          ", which has %u: the last one must be left to compute",
          tokens, r->id, lls_request_length(r));
  return tokens;
}

/* ---- passed on ---------------------------------------------------------------- */

typedef const struct lls_request *request;

PASS(int, cache, need, TAG_STEP,
     (void *self, request r, uint32_t tokens, uint32_t form, struct lls_need *out),
     w->self, r, tokens, form, out)
PASS(uint32_t, cache, preempt_modes, TAG_MAIN, (void *self), w->self)
PASS(int, cache, forms, TAG_STEP, (void *self, struct lls_form_info *out, size_t max),
     w->self, out, max)
static void stats(void *self, const struct lls_sink *s)
{
  struct witness *w = self;
  watch_stats(w, w->real->cache.stats, s);
}

PASS(int, cache, export_state, TAG_MAIN, (void *self, struct lls_blob *b), w->self, b)
PASS(int, cache, import_state, TAG_MAIN, (void *self, const struct lls_blob *b), w->self,
     b)

PASS(int, cache, offload, TAG_STEP, (void *self, request r, uint64_t *transfer), w->self,
     r, transfer)
PASS(int, cache, upload, TAG_STEP, (void *self, request r, uint64_t *transfer), w->self,
     r, transfer)
PASS_VOID(cache, on_transfer, TAG_STEP, (void *self, uint64_t transfer), w->self,
          transfer)

void watch_cache(struct watched *out)
{
  struct lls_cache_vtable *ours = &out->module.cache;
  WATCHED(ours, offload);
  WATCHED(ours, upload);
  WATCHED(ours, on_transfer);
  WATCHED(ours, create);
  WATCHED(ours, destroy);
  WATCHED(ours, capacity);
  WATCHED(ours, need);
  WATCHED(ours, begin);
  WATCHED(ours, mark);
  WATCHED(ours, rollback);
  WATCHED(ours, commit);
  WATCHED(ours, reserve);
  WATCHED(ours, preempt);
  WATCHED(ours, admit);
  WATCHED(ours, release);
  WATCHED(ours, info);
  WATCHED(ours, table);
  WATCHED(ours, copies);
  WATCHED(ours, computed);
  WATCHED(ours, preempt_modes);
  WATCHED(ours, audit);
  WATCHED(ours, prefix);
  WATCHED(ours, forms);
  WATCHED(ours, stats);
  WATCHED(ours, reconfigure);
  WATCHED(ours, export_state);
  WATCHED(ours, import_state);
}
