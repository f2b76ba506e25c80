/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /admin/sessions: the sessions of all tenants, those first whose last answer ended
 * last. Only the first 1,000 are written.
 */
#include <stdlib.h>

#include "core/api/api_internal.h"
#include "core/loop/sessions.h"

#define SHOWN 1000

struct found {
  struct lls_session_row *rows; /* (n), room for `capacity` */
  size_t n, capacity;
  bool failed;
};

static void add(void *context, const struct lls_session_row *row)
{
  struct found *f = context;
  if (f->n == f->capacity) {
    size_t capacity = f->capacity > 0 ? 2 * f->capacity : 64;
    struct lls_session_row *more = realloc(f->rows, capacity * sizeof *more);
    f->failed |= more == NULL;
    if (more == NULL)
      return;
    f->rows = more;
    f->capacity = capacity;
  }
  f->rows[f->n++] = *row;
}

/* Sessions with a request come first. */
static int by_end(const void *a, const void *b)
{
  const struct lls_session_row *x = a, *y = b;
  if ((x->alive > 0) != (y->alive > 0))
    return x->alive > 0 ? -1 : 1;
  if (x->ended_ns != y->ended_ns)
    return x->ended_ns > y->ended_ns ? -1 : 1;
  return x->id < y->id ? -1 : 1;
}

static json_t *seconds_json(bool known, int64_t ns)
{
  return known ? json_real((double)ns / 1e9) : json_null();
}

static json_t *session_json(const struct lls_session_row *row, int64_t now_ns)
{
  static const char *const ends[] = {
      [LLS_SESSION_STOPPED] = "stopped",
      [LLS_SESSION_LENGTH] = "length",
      [LLS_SESSION_TOOL_CALL] = "tool_call",
      [LLS_SESSION_CANCELLED] = "cancelled",
  };
  bool ended = row->ended_ns != LLS_NEVER;
  bool idle = ended && row->alive == 0;
  bool known = idle && row->returns_ns != LLS_NEVER;
  return json_pack("{s:I, s:s, s:s, s:I, s:I, s:I, s:{s:I, s:I, s:I}, s:s?, s:o, s:o}",
                   "id", (json_int_t)row->id, "name", row->name, "tenant", row->tenant,
                   "requests", (json_int_t)row->alive, "instance",
                   (json_int_t)row->instance, "tokens", (json_int_t)row->tokens, "there",
                   "device", (json_int_t)row->there[LLS_TIER_DEVICE], "host",
                   (json_int_t)row->there[LLS_TIER_HOST], "disk",
                   (json_int_t)row->there[LLS_TIER_DISK], "ended_by",
                   ended ? ends[row->ended_by] : NULL, "idle_seconds",
                   seconds_json(idle, now_ns - row->ended_ns), "returns_in_seconds",
                   seconds_json(known, row->returns_ns - now_ns));
}

void lls_handle_admin_sessions(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  struct found f = {0};
  int64_t now_ns = lls_loop_each_session(api->config.loop, add, &f);
  if (f.n > 0)
    qsort(f.rows, f.n, sizeof *f.rows, by_end);
  json_t *list = json_array();
  size_t shown = f.n < SHOWN ? f.n : SHOWN;
  for (size_t i = 0; i < shown; i++)
    json_array_append_new(list, session_json(&f.rows[i], now_ns));
  json_t *answer =
      json_pack("{s:o, s:I}", "sessions", list, "left_out", (json_int_t)(f.n - shown));
  if (f.failed) {
    json_decref(answer);
    answer = NULL;
  }
  free(f.rows);
  lls_api_reply_json(exchange, 200, answer);
}
