/* SPDX-License-Identifier: Apache-2.0 */
/* See autopilot_rule.h. */
#include "core/config/autopilot_rule.h"

#include <math.h>
#include <string.h>

#define FIRST_BAR 8

/* ---- barred configurations --------------------------------------------------------- */

static void put_name(char to[LLS_AUTOPILOT_NAME], const char *name)
{
  size_t length = strnlen(name, LLS_AUTOPILOT_NAME - 1);
  memmove(to, name, length);
  to[length] = '\0';
}

/* Returns the index of a name in `barred`, or else the index to replace: the entry with
 * the least left to wait. */
static unsigned place_of(const struct lls_autopilot *a, const char *name)
{
  unsigned free = 0;
  for (unsigned i = 0; i < LLS_AUTOPILOT_BARRED; i++) {
    if (strcmp(a->barred[i].name, name) == 0)
      return i;
    if (a->barred[i].rounds + a->barred[i].next <
        a->barred[free].rounds + a->barred[free].next)
      free = i;
  }
  return free;
}

static void bar(struct lls_autopilot *a, const char *name)
{
  unsigned i = place_of(a, name);
  if (strcmp(a->barred[i].name, name) != 0) {
    put_name(a->barred[i].name, name);
    a->barred[i].next = FIRST_BAR;
  }
  a->barred[i].rounds = a->barred[i].next;
  a->barred[i].next *= 2;
}

static bool is_barred(const struct lls_autopilot *a, const char *name)
{
  unsigned i = place_of(a, name);
  return strcmp(a->barred[i].name, name) == 0 && a->barred[i].rounds > 0;
}

static void pass_round(struct lls_autopilot *a)
{
  for (unsigned i = 0; i < LLS_AUTOPILOT_BARRED; i++)
    a->barred[i].rounds -= a->barred[i].rounds > 0;
}

/* ---- judging ----------------------------------------------------------------------- */

/* True if x is worse than `than` by more than the margin. */
static bool worse(double x, double than, const struct lls_autopilot_round *r)
{
  return r->more ? x < than * (1 - r->margin) : x > than * (1 + r->margin);
}

static bool failed(const struct lls_autopilot *a, const struct lls_autopilot_round *r)
{
  if (isnan(r->served) || isnan(a->served_before) ||
      !worse(r->served, a->served_before, r))
    return false;
  double off = a->served_before / a->simulated_before;
  return !isfinite(r->before * off) || worse(r->served, r->before * off, r);
}

static void count(struct lls_autopilot *a, const char *best)
{
  if (best == NULL) {
    a->best[0] = '\0';
    a->in_a_row = 0;
    return;
  }
  if (strcmp(a->best, best) != 0)
    a->in_a_row = 0;
  put_name(a->best, best);
  a->in_a_row++;
}

enum lls_autopilot_act lls_autopilot_tell(struct lls_autopilot *a,
                                          const struct lls_autopilot_round *r)
{
  bool judged = a->trial;
  a->trial = false;
  pass_round(a);
  if (judged && failed(a, r)) {
    bar(a, a->best);
    count(a, NULL);
    return LLS_AUTOPILOT_BACK;
  }
  count(a, r->best != NULL && !is_barred(a, r->best) ? r->best : NULL);
  if (a->in_a_row < LLS_AUTOPILOT_ROUNDS)
    return LLS_AUTOPILOT_STAY;
  a->in_a_row = 0;
  a->trial = true;
  a->served_before = r->served;
  a->simulated_before = r->simulated;
  return LLS_AUTOPILOT_CHANGE;
}
