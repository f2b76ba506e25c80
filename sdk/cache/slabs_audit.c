/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the invariants of slabs.h and writes the slabs as text, which is equal for equal
 * states. */
#include <llmserve/policy/slabs.h>

#include <string.h>

/* Prints the free slabs, marks them 1, and checks that each occurs once. */
static void audit_free_slabs(struct lls_pol_slabs *s, struct lls_pol_report *a)
{
  uint32_t n = 0, before = LLS_POL_NIL;
  memset(s->marks, 0, s->n_slabs * sizeof *s->marks);
  lls_pol_report_say(a, "free slabs %" PRIu32 ":", s->n_free_slabs);
  for (uint32_t x = s->free_slab; x != LLS_POL_NIL; before = x, x = s->slabs[x].next) {
    if (!lls_pol_report_check(a, x < s->n_slabs, "free slabs lead outside", x) ||
        !lls_pol_report_check(a, s->marks[x] == 0, "twice among the free slabs", x))
      break;
    s->marks[x] = 1;
    n++;
    lls_pol_report_say(a, " %" PRIu32, x);
    lls_pol_report_check(a, s->slabs[x].kind == LLS_POL_NIL, "a free slab has a class",
                         x);
    lls_pol_report_check(a, s->slabs[x].previous == before, "broken list of free slabs",
                         x);
    lls_pol_report_check(a, s->slabs[x].n_used == 0 && s->slabs[x].n_held == 0,
                         "a free slab has blocks", x);
  }
  lls_pol_report_end_line(a);
  lls_pol_report_check(a, n == s->n_free_slabs, "free slabs are counted wrong", n);
}

/* Prints the stack of free blocks of a slab and returns how many are on it. */
static uint32_t audit_stack(struct lls_pol_slabs *s, struct lls_pol_report *a, uint32_t x)
{
  const struct lls_pol_slab *slab = &s->slabs[x];
  uint32_t per_slab = s->classes[slab->kind].per_slab, n = 0, i = slab->first_free;
  for (; i != LLS_POL_NIL && n <= per_slab; n++) {
    uint32_t number = x * s->blocks_per_slab + i;
    if (!lls_pol_report_check(a, i < slab->n_fresh, "a free block leads outside", x) ||
        !lls_pol_report_check(a, s->holders[number] == LLS_POL_NIL,
                              "a free block is taken", number))
      return n;
    lls_pol_report_say(a, " %" PRIu32, i);
    i = s->next[number];
  }
  lls_pol_report_check(a, n <= per_slab, "free blocks go round", x);
  return n;
}

static bool audit_slab(struct lls_pol_slabs *s, struct lls_pol_report *a, uint32_t x)
{
  const struct lls_pol_slab *slab = &s->slabs[x];
  uint32_t used = 0, held = 0;
  if (!lls_pol_report_check(a, slab->kind < s->n_classes, "no such class of a slab", x))
    return false;
  uint32_t per_slab = s->classes[slab->kind].per_slab;
  if (!lls_pol_report_check(a, slab->n_fresh <= per_slab, "more blocks than fit", x))
    return false;
  for (uint32_t i = 0; i < s->blocks_per_slab; i++) {
    uint32_t holders = s->holders[x * s->blocks_per_slab + i];
    used += holders != LLS_POL_NIL;
    held += holders != LLS_POL_NIL && holders > 0;
    lls_pol_report_check(a, holders == LLS_POL_NIL || i < slab->n_fresh,
                         "taken, but never given out", x);
  }
  lls_pol_report_say(a, "slab %" PRIu32 ": class %" PRIu32 ", held %" PRIu32, x,
                     slab->kind, held);
  lls_pol_report_say(a, ", pinned %" PRIu32 ", from %" PRIu32 " fresh, free", s->pins[x],
                     slab->n_fresh);
  uint32_t stacked = audit_stack(s, a, x);
  lls_pol_report_end_line(a);
  lls_pol_report_check(a, used > 0 && used == slab->n_used && held == slab->n_held,
                       "blocks of a slab are counted wrong", x);
  return lls_pol_report_check(a, stacked == slab->n_fresh - used, "a free block is lost",
                              x);
}

/* Checks one list and marks its slabs 2; true while it may be followed. */
static bool audit_list(struct lls_pol_slabs *s, struct lls_pol_report *a, uint32_t kind,
                       uint32_t n_free)
{
  const struct lls_pol_slab_class *c = &s->classes[kind];
  uint32_t x = s->lists[c->first_list + n_free - 1], before = LLS_POL_NIL;
  uint32_t word = s->words[c->first_word + (n_free - 1) / 32];
  lls_pol_report_check(a, (x != LLS_POL_NIL) == (word >> (n_free - 1) % 32 & 1),
                       "the bit of a list is wrong", n_free);
  if (x != LLS_POL_NIL)
    lls_pol_report_say(a, "class %" PRIu32 ", %" PRIu32 " free:", kind, n_free);
  for (; x != LLS_POL_NIL; before = x, x = s->slabs[x].next) {
    if (!lls_pol_report_check(a, x < s->n_slabs, "a list of slabs leads outside", x) ||
        !lls_pol_report_check(a, s->marks[x] == 0, "twice on a list of slabs", x))
      return false;
    s->marks[x] = 2;
    lls_pol_report_say(a, " %" PRIu32, x);
    lls_pol_report_check(a, s->slabs[x].previous == before, "broken list of slabs", x);
    lls_pol_report_check(
        a, s->slabs[x].kind == kind && s->slabs[x].n_used == c->per_slab - n_free,
        "on a wrong list of slabs", x);
  }
  lls_pol_report_end_line(a);
  return true;
}

static void audit_class(struct lls_pol_slabs *s, struct lls_pol_report *a, uint32_t kind)
{
  const struct lls_pol_slab_class *c = &s->classes[kind];
  uint32_t slabs = 0, used = 0, held = 0;
  for (uint32_t x = 0; x < s->n_slabs; x++)
    if (s->slabs[x].kind == kind) {
      slabs++;
      used += s->slabs[x].n_used;
      held += s->slabs[x].n_held;
    }
  lls_pol_report_say(a, "class %" PRIu32 " of %" PRIu32 " units: %" PRIu32 " slabs, ",
                     kind, c->block_units, slabs);
  lls_pol_report_say(a, "%" PRIu32 " blocks, %" PRIu32 " held", used, held);
  lls_pol_report_end_line(a);
  lls_pol_report_check(a, slabs == c->n_slabs && used == c->n_used && held == c->n_held,
                       "a class is counted wrong", kind);
}

bool lls_pol_slabs_audit(struct lls_pol_slabs *s, struct lls_pol_report *a)
{
  audit_free_slabs(s, a);
  for (uint32_t x = 0; x < s->n_slabs && a->result == 0; x++)
    if (s->marks[x] == 0)
      audit_slab(s, a, x);
  for (uint32_t kind = 0; kind < s->n_classes && a->result == 0; kind++) {
    audit_class(s, a, kind);
    for (uint32_t n = 1; n <= s->classes[kind].per_slab && a->result == 0; n++)
      audit_list(s, a, kind, n);
  }
  for (uint32_t x = 0; x < s->n_slabs && a->result == 0; x++)
    lls_pol_report_check(
        a,
        (s->marks[x] == 0) ==
            (s->slabs[x].kind != LLS_POL_NIL &&
             s->slabs[x].n_used == s->classes[s->slabs[x].kind].per_slab),
        "a slab is on no list", x);
  return a->result == 0;
}
