/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the turns of sessions in order; see sessions.h. */
#include "tools/workload/sessions.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/least.h"

static int no_memory(struct lls_error *err)
{
  return lls_fail(err, -ENOMEM, "no memory for the sessions of the workload");
}

static int by_turn(const struct lls_item *x, const struct lls_item *y)
{
  if (x->session_number != y->session_number)
    return x->session_number < y->session_number ? -1 : 1;
  if (x->turn != y->turn)
    return x->turn < y->turn ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static int compare_turns(const void *a, const void *b)
{
  return by_turn(a, b);
}

static int compare_indices(const void *a, const void *b)
{
  const struct lls_item *x = a, *y = b;
  return x->index < y->index ? -1 : x->index > y->index;
}

static int compare_turn_pointers(const void *a, const void *b)
{
  return by_turn(*(struct lls_item *const *)a, *(struct lls_item *const *)b);
}

/* ---- split ------------------------------------------------------------------------- */

/* Sets the turn's prompt and kept tokens from the turn before it. */
static int grow(const struct lls_item *before, struct lls_item *row,
                struct lls_error *err)
{
  uint64_t all = (uint64_t)before->prompt_tokens + before->output_tokens;
  if (row->n_hashes > 0 && row->growth == LLS_GROWTH_WHOLE &&
      (uint64_t)row->n_hashes * row->hash_tokens >= row->prompt_tokens)
    return 0; /* its hashes say which tokens it shares */
  row->n_hashes = 0;
  if (row->growth == LLS_GROWTH_ADDED) {
    if (all + row->prompt_tokens > LLS_LENGTH_MAX)
      return lls_fail(err, -EINVAL,
                      "turn %u of session '%s' has a prompt of %llu tokens, and %u are "
                      "allowed",
                      row->turn + 1, row->session,
                      (unsigned long long)(all + row->prompt_tokens), LLS_LENGTH_MAX);
    row->prompt_tokens += (uint32_t)all;
    row->kept_tokens = (uint32_t)all;
  }
  if (row->growth == LLS_GROWTH_WHOLE)
    row->kept_tokens = row->prompt_tokens - 1;
  if (row->kept_tokens > all)
    row->kept_tokens = (uint32_t)all;
  return 0;
}

/* Makes the row the turn after `before`. */
static int follow(bool timed, struct lls_item *before, struct lls_item *row,
                  struct lls_error *err)
{
  row->turn = before->turn + 1;
  if (before->wait_ns == LLS_NEVER)
    before->wait_ns = row->delay_ns;
  if (before->wait_ns == LLS_NEVER && !timed)
    before->wait_ns = 0;
  if (before->wait_ns != LLS_NEVER)
    row->arrival_ns = LLS_NEVER;
  else if (row->arrival_ns == LLS_NEVER)
    return lls_fail(err, -EINVAL,
                    "turn %u of session '%s' has no time, and the turn before it no "
                    "wait",
                    row->turn + 1, row->session);
  return grow(before, row, err);
}

static int begin_session(bool timed, struct lls_item *row, struct lls_error *err)
{
  row->turn = 0;
  row->kept_tokens = 0;
  if (timed && row->arrival_ns == LLS_NEVER)
    return lls_fail(err, -EINVAL, "%s%s%s has no time",
                    row->session != NULL ? "the first turn of session '" : "a request",
                    row->session != NULL ? row->session : "",
                    row->session != NULL ? "'" : " without a session");
  return 0;
}

/* Moves the turns that follow others to `turns`. Until the items are linked, `previous`
 * of a session's row is a number of its own, since indices change; a turn has the number
 * of the row that it follows, directly or through others. */
static int take_turns(struct lls_rows *rows, struct lls_rows *turns,
                      struct lls_error *err)
{
  uint32_t kept = 0, head = LLS_NO_ITEM;
  for (uint32_t i = 0; i < rows->n; i++) {
    struct lls_item *row = &rows->items[i], *turn;
    bool follows = row->turn > 0 && row->arrival_ns == LLS_NEVER;
    if (!follows) {
      head = row->previous = row->session_number > 0 ? i : LLS_NO_ITEM;
      rows->items[kept++] = *row;
      continue;
    }
    turn = lls_rows_add(turns);
    if (turn == NULL)
      return no_memory(err);
    *turn = *row;
    turn->previous = head;
  }
  rows->n = kept;
  return 0;
}

int lls_sessions_split(struct lls_rows *rows, struct lls_rows *turns,
                       struct lls_error *err)
{
  for (uint32_t i = 0; i < rows->n; i++)
    rows->items[i].index = i;
  if (rows->sessions.n > 0)
    qsort(rows->items, rows->n, sizeof *rows->items, compare_turns);
  for (uint32_t i = 0, session = 0; i < rows->n; i++) {
    struct lls_item *row = &rows->items[i];
    bool follows = row->session_number != 0 && row->session_number == session;
    int rc = follows ? follow(rows->timed, row - 1, row, err)
                     : begin_session(rows->timed, row, err);
    if (rc < 0)
      return rc;
    session = row->session_number;
  }
  int rc = take_turns(rows, turns, err);
  if (rc == 0 && rows->sessions.n > 0)
    qsort(rows->items, rows->n, sizeof *rows->items, compare_indices);
  return rc;
}

/* ---- join and link ----------------------------------------------------------------- */

static void take_over(const struct lls_item *first, struct lls_item *turn)
{
  if (turn->request_class == LLS_CLASS_NONE) {
    turn->request_class = first->request_class;
    turn->priority = first->priority;
  }
  if (turn->tenant == 0)
    turn->tenant = first->tenant;
}

int lls_sessions_join(struct lls_rows *rows, const struct lls_rows *turns,
                      struct lls_error *err)
{
  if (turns->n == 0)
    return 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < turns->n; i++)
    n = lls_most_u32(n, turns->items[i].previous + 1);
  /* the place of the row with a number, plus 1 */
  uint32_t *places = calloc(n, sizeof *places);
  if (places == NULL)
    return no_memory(err);
  for (uint32_t i = 0; i < rows->n; i++)
    if (rows->items[i].previous < n)
      places[rows->items[i].previous] = i + 1;
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < turns->n; i++) {
    uint32_t place = places[turns->items[i].previous];
    struct lls_item *row = place > 0 ? lls_rows_add(rows) : NULL;
    if (row != NULL) {
      *row = turns->items[i];
      take_over(&rows->items[place - 1], row);
    } else if (place > 0) {
      rc = no_memory(err);
    }
  }
  free(places);
  return rc;
}

/* Links the turn to the one before it, which is NULL or of another session if the turn
 * is a session's first one. */
static void link_turn(struct lls_item *before, struct lls_item *turn)
{
  if (before == NULL || turn->session_number == 0 ||
      turn->session_number != before->session_number) {
    turn->previous = LLS_NO_ITEM;
    turn->kept_tokens = 0; /* the turn whose tokens it keeps may have been left out */
    return;
  }
  turn->previous = before->index;
  if (lls_item_follows(turn))
    before->next = turn->index;
}

int lls_sessions_link(struct lls_rows *rows, struct lls_error *err)
{
  if (rows->sessions.n == 0)
    return 0;
  struct lls_item **order = malloc((rows->n + (size_t)1) * sizeof *order);
  if (order == NULL)
    return no_memory(err);
  for (uint32_t i = 0; i < rows->n; i++)
    order[i] = &rows->items[i];
  qsort(order, rows->n, sizeof *order, compare_turn_pointers);
  for (uint32_t i = 0; i < rows->n; i++)
    link_turn(i > 0 ? order[i - 1] : NULL, order[i]);
  free(order);
  return 0;
}
