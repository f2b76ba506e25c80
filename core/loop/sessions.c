/* SPDX-License-Identifier: Apache-2.0 */
/* See sessions.h. */
#include "core/loop/sessions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/base/check.h"
#include "core/base/hash.h"
#include "core/instance/inbox.h"
#include "core/instance/request.h"

struct lls_session_tenant {
  UT_hash_handle hh;
  uint32_t n, n_idle;              /* sessions */
  struct lls_session_record *idle; /* the one longest idle first */
  char name[];
};

/* A key of the tables: the tenant, a NUL, the name. */
struct key {
  char *text; /* NULL: none */
  size_t bytes, name_at;
};

struct lls_session_record {
  UT_hash_handle by_name, by_answer;         /* tbl NULL: not in the table */
  struct lls_session_record *prev, *next;    /* links of tenant->idle */
  struct lls_session_record *before, *after; /* links of all, or of closing */
  struct lls_session_tenant *tenant;
  struct key name, answer;
  uint64_t id;
  uint32_t alive;                    /* requests */
  uint32_t instance;                 /* that has the last request */
  uint32_t n_closing;                /* notes under way, after the end */
  struct lls_session_leaving left;   /* the last answer */
  int64_t ended_ns;                  /* LLS_NEVER: none has ended */
  int64_t returns_ns;                /* when it is expected; LLS_NEVER: not known */
  int64_t away_ns, keep_ns;          /* the client's hints; 0: none */
  uint32_t tokens;                   /* in blocks that the last answer left */
  uint64_t key_bytes;                /* of these blocks */
  struct lls_session_note *closings; /* (n_instances) */
  struct lls_live_session here[];    /* (n_instances) */
};

static struct key key_of(const char *tenant, const char *name)
{
  size_t tenant_bytes = strlen(tenant) + 1, bytes = tenant_bytes + strlen(name) + 1;
  struct key k = {.bytes = bytes, .name_at = tenant_bytes};
  if (name[0] == '\0' || (k.text = malloc(bytes)) == NULL)
    return (struct key){0};
  memcpy(k.text, tenant, tenant_bytes);
  memcpy(k.text + tenant_bytes, name, bytes - tenant_bytes);
  return k;
}

static const char *name_of(const struct lls_session_record *r)
{
  return r->name.text != NULL ? r->name.text + r->name.name_at : "";
}

/* ---- memory ----------------------------------------------------------------------- */

int lls_sessions_init(struct lls_sessions *s, struct lls_inbox *const *inboxes,
                      const bool *remote, uint32_t n_instances, uint32_t max_idle)
{
  *s = (struct lls_sessions){.n_instances = n_instances, .max_idle = max_idle};
  s->inboxes = malloc(n_instances * sizeof(struct lls_inbox *));
  s->remote = calloc(n_instances, sizeof *s->remote);
  if (s->inboxes == NULL || s->remote == NULL) {
    free(s->inboxes);
    free(s->remote);
    s->inboxes = NULL;
    s->remote = NULL;
    return -ENOMEM;
  }
  memcpy(s->inboxes, inboxes, n_instances * sizeof(struct lls_inbox *));
  if (remote != NULL)
    memcpy(s->remote, remote, n_instances * sizeof *remote);
  return 0;
}

static void free_record(const struct lls_sessions *s, struct lls_session_record *r)
{
  for (uint32_t i = 0; i < s->n_instances; i++)
    free(r->here[i].note);
  free(r->closings);
  free(r->name.text);
  free(r->answer.text);
  free(r);
}

static void free_used(struct lls_sessions *s, struct lls_session_note *note)
{
  struct lls_session_record *r = note->record;
  if (note->kind != LLS_SESSION_CLOSED) {
    free(note);
  } else if (--r->n_closing == 0) {
    DL_DELETE2(s->closing, r, before, after);
    free_record(s, r);
  }
}

/* Frees the notes that instances have returned, and the sessions that all of them have
 * forgotten. */
static void collect(struct lls_sessions *s)
{
  for (uint32_t i = 0; i < s->n_instances; i++) {
    struct lls_session_note *note = lls_inbox_used_notes(s->inboxes[i]);
    for (struct lls_session_note *next; note != NULL; note = next) {
      next = note->next;
      free_used(s, note);
    }
  }
}

/* ---- the tables ------------------------------------------------------------------- */

static struct lls_session_tenant *tenant_of(struct lls_sessions *s, const char *name)
{
  struct lls_session_tenant *t;
  size_t bytes = strlen(name);
  HASH_FIND(hh, s->tenants, name, bytes, t);
  if (t != NULL)
    return t;
  t = calloc(1, sizeof *t + bytes + 1);
  if (t == NULL)
    return NULL;
  memcpy(t->name, name, bytes + 1);
  HASH_ADD(hh, s->tenants, name, bytes, t);
  if (t->hh.tbl != NULL)
    return t;
  free(t);
  return NULL;
}

static void leave_tenant(struct lls_sessions *s, struct lls_session_tenant *t)
{
  if (--t->n > 0)
    return;
  HASH_DEL(s->tenants, t);
  free(t);
}

static struct lls_session_record *find(const struct lls_sessions *s, struct key by_name,
                                       struct key by_answer)
{
  struct lls_session_record *r = NULL;
  if (by_name.text != NULL)
    HASH_FIND(by_name, s->by_name, by_name.text, by_name.bytes, r);
  else if (by_answer.text != NULL)
    HASH_FIND(by_answer, s->by_answer, by_answer.text, by_answer.bytes, r);
  return r;
}

/* Makes the session findable by the id of its newest answer alone. */
static void set_answer(struct lls_sessions *s, struct lls_session_record *r,
                       struct key answer)
{
  if (r->answer.text != NULL) {
    HASH_DELETE(by_answer, s->by_answer, r);
    free(r->answer.text);
    r->answer = (struct key){0};
  }
  if (answer.text == NULL)
    return;
  HASH_ADD_KEYPTR(by_answer, s->by_answer, answer.text, answer.bytes, r);
  if (r->by_answer.tbl != NULL)
    r->answer = answer;
  else
    free(answer.text);
}

static void begin_parts(const struct lls_sessions *s, struct lls_session_record *r,
                        uint32_t tenant)
{
  for (uint32_t i = 0; i < s->n_instances; i++)
    lls_session_part_init(&r->here[i], r->id, tenant, name_of(r));
}

/* Returns a new session, which owns its name from now on; NULL without memory. */
static struct lls_session_record *create(struct lls_sessions *s, struct key name,
                                         const struct lls_request *first)
{
  struct lls_session_record *r = calloc(1, sizeof *r + s->n_instances * sizeof *r->here);
  if (r == NULL)
    return NULL;
  r->closings = calloc(s->n_instances, sizeof *r->closings);
  r->tenant = r->closings != NULL ? tenant_of(s, first->tenant_name) : NULL;
  if (r->tenant == NULL)
    goto fail;
  r->tenant->n++;
  if (name.text != NULL) {
    HASH_ADD_KEYPTR(by_name, s->by_name, name.text, name.bytes, r);
    if (r->by_name.tbl == NULL) {
      leave_tenant(s, r->tenant);
      goto fail;
    }
  }
  r->name = name;
  r->id = ++s->last_id;
  r->ended_ns = r->returns_ns = LLS_NEVER;
  begin_parts(s, r, first->tenant);
  DL_APPEND2(s->all, r, before, after);
  s->n++;
  return r;

fail:
  free(r->closings);
  free(r);
  return NULL;
}

static void set_key_bytes(struct lls_sessions *s, struct lls_session_record *r,
                          uint64_t bytes)
{
  s->key_bytes += bytes - r->key_bytes;
  r->key_bytes = bytes;
}

static void take_from_idle(struct lls_sessions *s, struct lls_session_record *r)
{
  DL_DELETE(r->tenant->idle, r);
  r->tenant->n_idle--;
  s->n_idle--;
}

/* Takes an idle session out of the tables. It is freed when its instances have forgotten
 * it. */
static void forget(struct lls_sessions *s, struct lls_session_record *r)
{
  LLS_CHECK(r->alive == 0);
  take_from_idle(s, r);
  set_key_bytes(s, r, 0);
  leave_tenant(s, r->tenant);
  r->tenant = NULL;
  if (r->name.text != NULL)
    HASH_DELETE(by_name, s->by_name, r);
  if (r->answer.text != NULL)
    HASH_DELETE(by_answer, s->by_answer, r);
  s->n--;
  DL_DELETE2(s->all, r, before, after);
  DL_APPEND2(s->closing, r, before, after);
  r->n_closing = s->n_instances;
  for (uint32_t i = 0; i < s->n_instances; i++) {
    r->closings[i] = (struct lls_session_note){
        .kind = LLS_SESSION_CLOSED, .session = &r->here[i], .record = r};
    lls_inbox_note(s->inboxes[i], &r->closings[i]);
  }
}

/* Forgets the oldest session of the tenant that has most of them: of several such
 * tenants the session that is oldest. */
static void forget_one(struct lls_sessions *s)
{
  struct lls_session_record *oldest = NULL;
  for (struct lls_session_tenant *t = s->tenants; t != NULL; t = t->hh.next) {
    if (t->idle == NULL || (oldest != NULL && t->n_idle < oldest->tenant->n_idle))
      continue;
    if (oldest == NULL || t->n_idle > oldest->tenant->n_idle ||
        t->idle->ended_ns < oldest->ended_ns)
      oldest = t->idle;
  }
  LLS_CHECK(oldest != NULL);
  forget(s, oldest);
}

static void free_list(const struct lls_sessions *s, struct lls_session_record *list)
{
  for (struct lls_session_record *r = list, *after; r != NULL; r = after) {
    after = r->after;
    free_record(s, r);
  }
}

void lls_sessions_free(struct lls_sessions *s)
{
  struct lls_session_tenant *t, *next;
  HASH_CLEAR(by_answer, s->by_answer);
  HASH_CLEAR(by_name, s->by_name);
  free_list(s, s->all);
  free_list(s, s->closing);
  HASH_ITER(hh, s->tenants, t, next)
  {
    HASH_DEL(s->tenants, t);
    free(t);
  }
  lls_tool_times_free(&s->times);
  free(s->inboxes);
  free(s->remote);
  *s = (struct lls_sessions){0};
}

/* ---- requests --------------------------------------------------------------------- */

/* Learns how long a tool took, if the last answer called one. */
static void learn(struct lls_sessions *s, const struct lls_session_record *r,
                  int64_t now_ns)
{
  if (r->alive > 0 || r->ended_ns == LLS_NEVER || r->left.tool[0] == '\0' ||
      now_ns < r->ended_ns)
    return;
  struct key tool = key_of(r->tenant->name, r->left.tool);
  if (tool.text != NULL)
    lls_tool_times_learn(&s->times, tool.text, tool.bytes, now_ns - r->ended_ns);
  free(tool.text);
}

static int64_t expected(const struct lls_sessions *s, const struct lls_session_record *r,
                        const char *tool)
{
  struct key key = key_of(r->tenant->name, tool);
  int64_t median_ns = key.text != NULL
                          ? lls_tool_times_median(&s->times, key.text, key.bytes)
                          : LLS_NEVER;
  free(key.text);
  return median_ns;
}

/* Returns how long the session is expected to be away, or LLS_NEVER. What the client says
 * of this answer counts more than what the tool took before, and that more than how long
 * the client wants its prompt kept. */
static int64_t away_ns(const struct lls_sessions *s, const struct lls_session_record *r)
{
  if (r->away_ns > 0)
    return r->away_ns;
  int64_t median_ns = r->left.tool[0] != '\0' ? expected(s, r, r->left.tool) : LLS_NEVER;
  return median_ns == LLS_NEVER && r->keep_ns > 0 ? r->keep_ns : median_ns;
}

static struct lls_session_record *open_session(struct lls_sessions *s,
                                               const struct lls_session_use *use,
                                               const struct lls_request *request)
{
  struct key name = key_of(request->tenant_name, use->name != NULL ? use->name : "");
  struct key answer =
      key_of(request->tenant_name, use->continues != NULL ? use->continues : "");
  struct lls_session_record *r = find(s, name, answer);
  free(answer.text);
  bool is_new = r == NULL;
  if (is_new)
    r = create(s, name, request);
  if (!is_new || r == NULL)
    free(name.text);
  return r;
}

void lls_sessions_enter(struct lls_sessions *s, const struct lls_session_use *use,
                        struct lls_live *live)
{
  const struct lls_request *v = &live->view;
  bool any = use->name != NULL || use->continues != NULL || use->becomes != NULL;
  if (!any)
    return;
  collect(s);
  struct lls_session_record *r = open_session(s, use, v);
  if (r == NULL)
    return;
  learn(s, r, v->arrival_ns);
  if (r->alive++ == 0 && r->ended_ns != LLS_NEVER)
    take_from_idle(s, r);
  r->away_ns = use->away_ns;
  r->keep_ns = use->keep_ns;
  if (use->becomes != NULL)
    set_answer(s, r, key_of(v->tenant_name, use->becomes));
  live->record = r;
  live->sessions = r->here;
}

/* Sets which instance has the session, and posts a note to the one that had it before. */
static void move_to(struct lls_sessions *s, struct lls_session_record *r,
                    uint32_t instance)
{
  uint32_t before = r->instance;
  r->instance = instance;
  if (before == instance || r->ended_ns == LLS_NEVER)
    return;
  struct lls_session_note *note = calloc(1, sizeof *note);
  if (note == NULL)
    return; /* the earlier instance goes on to think that it has the session */
  *note =
      (struct lls_session_note){.kind = LLS_SESSION_MOVED, .session = &r->here[before]};
  lls_inbox_note(s->inboxes[before], note);
}

void lls_sessions_place(struct lls_sessions *s, struct lls_live *live, uint32_t instance)
{
  if (live->record != NULL)
    move_to(s, live->record, instance);
}

/* Returns a note of an answer's end, with the keys of the blocks that it left. */
static struct lls_session_note *note_of(const struct lls_session_record *r,
                                        const struct lls_live *live)
{
  struct lls_session_note *note = lls_session_note_left(live);
  if (note == NULL)
    return NULL;
  note->ended_by = r->left.ended_by;
  note->ended_ns = r->ended_ns;
  note->returns_ns = r->returns_ns;
  return note;
}

/* Informs the instance that had the request, which may have taken it over from the one
 * where it was placed. */
static void tell(struct lls_sessions *s, struct lls_session_record *r,
                 const struct lls_live *live)
{
  uint32_t at =
      live->session != NULL ? (uint32_t)(live->session - r->here) : live->view.instance;
  if (live->session == NULL && (at >= s->n_instances || !s->remote[at]))
    return; /* it has ended before it arrived */
  struct lls_session_note *note = note_of(r, live);
  move_to(s, r, at);
  if (note == NULL)
    return; /* the instance goes on to count the request */
  note->session = &r->here[at];
  if (note->n_keys > 0) {
    r->tokens = note->tokens;
    set_key_bytes(s, r, note->n_keys * sizeof *note->keys);
  }
  lls_inbox_note(s->inboxes[at], note);
}

static bool has_too_many(const struct lls_sessions *s)
{
  bool is_full = s->max_key_bytes > 0 && s->key_bytes > s->max_key_bytes;
  return s->n_idle > s->max_idle || (is_full && s->n_idle > 0);
}

void lls_sessions_leave(struct lls_sessions *s, struct lls_live *live, int64_t ended_ns)
{
  struct lls_session_record *r = live->record;
  if (r == NULL)
    return;
  collect(s);
  r->left = s->leaving;
  r->ended_ns = ended_ns;
  int64_t away = away_ns(s, r);
  r->returns_ns = away != LLS_NEVER ? lls_time_after(ended_ns, away) : LLS_NEVER;
  if (--r->alive == 0) {
    DL_APPEND(r->tenant->idle, r);
    r->tenant->n_idle++;
    s->n_idle++;
  }
  tell(s, r, live);
  while (has_too_many(s))
    forget_one(s);
}

void lls_sessions_call(struct lls_sessions *s, const struct lls_live *live,
                       const char *tool)
{
  struct lls_session_leaving *l = &s->leaving;
  const struct lls_session_record *r = live->record;
  l->ended_by = LLS_SESSION_TOOL_CALL;
  if (r == NULL)
    return;
  bool later = l->tool[0] == '\0' || expected(s, r, tool) > expected(s, r, l->tool);
  if (later)
    snprintf(l->tool, sizeof l->tool, "%s", tool);
}

/* ---- for operators ---------------------------------------------------------------- */

void lls_sessions_list(const struct lls_sessions *s,
                       void (*each)(void *context, const struct lls_session_row *),
                       void *context)
{
  for (const struct lls_session_record *r = s->all; r != NULL; r = r->after) {
    struct lls_session_row row = {.name = name_of(r),
                                  .tenant = r->tenant->name,
                                  .id = r->id,
                                  .alive = r->alive,
                                  .ended_by = r->left.ended_by,
                                  .tokens = r->tokens,
                                  .instance = r->instance,
                                  .ended_ns = r->ended_ns,
                                  .returns_ns = r->returns_ns};
    for (uint32_t tier = 0; tier <= LLS_TIER_DISK; tier++)
      row.there[tier] =
          atomic_load_explicit(&r->here[r->instance].there[tier], memory_order_relaxed);
    each(context, &row);
  }
}
