/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The automaton is built from its first state on, with one state for all digits that
 * are equivalent; each state from which a valid number can be completed becomes a rule.
 * With a multiple of unit / 10^places, digits that form r without their point, j of
 * them after it, are a multiple if r * 10^(places - j) is 0 modulo unit.
 */
#include "text/grammar/decimal_multiple.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PLACES 9
/* Slots of the hash table, a power of 2 above LLS_DECIMAL_STATES. */
#define SLOTS 8192
#define POINT 10 /* index of the point, after those of the ten digits */
#define WAYS  11
#define DEAD  UINT16_MAX

enum phase { BEGIN, ZERO, WHOLE, FRACTION };

struct state {
  uint16_t remainder, at; /* at: digits of this phase so far; all counts beyond the
                           * longest bound are one state */
  uint8_t phase;
  int8_t low, high; /* < 0: the digits so far are below the bound's */
  bool wanted, live;
  uint16_t to[WAYS];
  uint32_t rule;
};

struct automaton {
  const struct lls_decimal_multiples *m;
  uint32_t unit, places;
  uint16_t most_at;
  struct state *states; /* (n) */
  uint32_t n;
  uint16_t *slots; /* (SLOTS) state numbers, or DEAD */
};

/* ---- the unit of the multiples ---- */

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
  while (b != 0) {
    uint32_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Returns false if the number has too many digits. Without `integers`, a text may have
 * a point and zeros. */
static bool read_unit(struct automaton *a)
{
  const struct lls_decimal *of = &a->m->of;
  uint32_t power = 1;
  a->places = (uint32_t)strlen(of->fraction);
  if (strlen(of->whole) > 8 || a->places > MOST_PLACES)
    return false;
  uint64_t unit = strtoul(of->whole, NULL, 10);
  for (uint32_t i = 0; i < a->places; i++) {
    unit = 10 * unit + (uint64_t)(of->fraction[i] - '0');
    power *= 10;
  }
  if (!a->m->integers && a->places == 0) {
    a->places = 1;
    unit *= 10;
  }
  if (unit > UINT32_MAX)
    return false;
  a->unit = (uint32_t)unit;
  if (a->m->integers) {
    a->unit /= common_divisor(a->unit, power);
    a->places = 0;
  }
  return a->unit > 0 && a->unit <= LLS_DECIMAL_STATES;
}

/* ---- comparing with bounds ---- */

static int8_t sign(int difference)
{
  return (int8_t)(difference < 0 ? -1 : difference > 0);
}

/* Compares after one more digit before the point. `other`: the result if there is no
 * bound. */
static int8_t compare_whole(const struct lls_decimal *bound, int8_t so_far, uint16_t at,
                            int digit, int8_t other)
{
  if (!bound->set)
    return other;
  if (at >= strlen(bound->whole))
    return 1;
  return so_far != 0 ? so_far : sign('0' + digit - bound->whole[at]);
}

static int8_t compare_fraction(const struct lls_decimal *bound, int8_t so_far,
                               uint16_t at, int digit)
{
  char other = bound->set && at < strlen(bound->fraction) ? bound->fraction[at] : '0';
  return so_far != 0 ? so_far : sign('0' + digit - other);
}

/* Compares at the end of the digits before the point. */
static int8_t close_whole(const struct lls_decimal *bound, const struct state *s,
                          int8_t so_far)
{
  return bound->set && s->at < strlen(bound->whole) ? -1 : so_far;
}

/* Compares at the end of all digits. */
static int8_t close_all(const struct lls_decimal *bound, const struct state *s,
                        int8_t so_far)
{
  size_t written = s->phase == FRACTION ? s->at : 0;
  if (s->phase != FRACTION)
    so_far = close_whole(bound, s, so_far);
  return bound->set && so_far == 0 && written < strlen(bound->fraction) ? -1 : so_far;
}

/* ---- states ---- */

static bool is_wanted(const struct automaton *a, const struct state *s)
{
  const struct lls_decimal *low = &a->m->low, *high = &a->m->high;
  if (s->phase == BEGIN || (s->phase == FRACTION && s->at == 0))
    return false;
  int8_t above = close_all(low, s, s->low), below = close_all(high, s, s->high);
  uint64_t rest = s->remainder;
  for (uint32_t j = s->phase == FRACTION ? s->at : 0; j < a->places; j++)
    rest = rest * 10 % a->unit;
  return rest == 0 && (above > 0 || (above == 0 && !low->exclusive)) &&
         (below < 0 || (below == 0 && !high->exclusive));
}

static bool is_same(const struct state *a, const struct state *b)
{
  return a->remainder == b->remainder && a->at == b->at && a->phase == b->phase &&
         a->low == b->low && a->high == b->high;
}

/* Returns the number of a state, which is added if it is new; DEAD if there are too
 * many. */
static uint16_t number_of(struct automaton *a, struct state s)
{
  uint32_t slot = (s.remainder * 31u + s.at * 4099u + s.phase * 1543u +
                   (uint32_t)(s.low + 1) * 389u + (uint32_t)(s.high + 1) * 97u) %
                  SLOTS;
  for (; a->slots[slot] != DEAD; slot = (slot + 1) % SLOTS)
    if (is_same(&a->states[a->slots[slot]], &s))
      return a->slots[slot];
  if (a->n == LLS_DECIMAL_STATES)
    return DEAD;
  s.wanted = s.live = is_wanted(a, &s);
  a->states[a->n] = s;
  return a->slots[slot] = (uint16_t)a->n++;
}

/* Computes the state after a digit or the point. Returns false if no valid number
 * begins so. */
static bool step(const struct automaton *a, const struct state *s, int way,
                 struct state *to)
{
  const struct lls_decimal *low = &a->m->low, *high = &a->m->high;
  *to = (struct state){.remainder = s->remainder, .phase = FRACTION};
  if (way == POINT) {
    to->low = close_whole(low, s, s->low);
    to->high = close_whole(high, s, s->high);
    return a->places > 0 && (s->phase == ZERO || s->phase == WHOLE);
  }
  to->remainder = (uint16_t)((s->remainder * 10u + (uint32_t)way) % a->unit);
  to->at = (uint16_t)(s->at + 1);
  if (s->phase == FRACTION) {
    to->low = compare_fraction(low, s->low, s->at, way);
    to->high = compare_fraction(high, s->high, s->at, way);
    return s->at < a->places;
  }
  to->phase = s->phase == BEGIN && way == 0 ? ZERO : WHOLE;
  to->low = compare_whole(low, s->low, s->at, way, 1);
  to->high = compare_whole(high, s->high, s->at, way, -1);
  if (to->at > a->most_at)
    to->at = a->most_at;
  return s->phase != ZERO && !(high->set && s->at >= strlen(high->whole));
}

static bool explore(struct automaton *a)
{
  number_of(a, (struct state){.phase = BEGIN});
  for (uint32_t i = 0; i < a->n; i++)
    for (int way = 0; way < WAYS; way++) {
      struct state to;
      bool any = step(a, &a->states[i], way, &to);
      uint16_t number = any ? number_of(a, to) : DEAD;
      if (any && number == DEAD)
        return false;
      a->states[i].to[way] = number;
    }
  return true;
}

/* ---- rules ---- */

static void find_live(struct automaton *a)
{
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = a->n; i-- > 0;)
      for (int way = 0; way < WAYS && !a->states[i].live; way++) {
        uint16_t to = a->states[i].to[way];
        changed |= a->states[i].live = to != DEAD && a->states[to].live;
      }
  }
}

/* Returns the number of ranges of the digits that lead where `way` does; 0 if a smaller
 * digit does too, whose class has them. */
static uint32_t digits_like(const struct state *s, int way,
                            struct lls_grammar_range *ranges)
{
  uint32_t n = 0;
  for (int digit = 0; digit < POINT; digit++) {
    if (s->to[digit] != s->to[way])
      continue;
    if (digit < way)
      return 0;
    uint32_t point = '0' + (uint32_t)digit;
    if (n > 0 && ranges[n - 1].last + 1 == point)
      ranges[n - 1].last = point;
    else
      ranges[n++] = (struct lls_grammar_range){point, point};
  }
  return n;
}

static void define(struct automaton *a, struct lls_json_syntax *json,
                   const struct state *s)
{
  struct lls_grammar_range ranges[POINT];
  uint32_t parts[WAYS + 1], n = 0;
  if (s->wanted)
    parts[n++] = json->empty;
  for (int way = 0; way < WAYS; way++) {
    uint16_t to = s->to[way];
    uint32_t n_ranges = to == DEAD || way == POINT ? 0 : digits_like(s, way, ranges);
    if (to == DEAD || !a->states[to].live || (way < POINT && n_ranges == 0))
      continue;
    uint32_t first = way == POINT ? lls_json_bytes(json, ".")
                                  : lls_grammar_class(json->tree, ranges, n_ranges);
    parts[n++] = LLS_JSON_ROW(json, first, a->states[to].rule);
  }
  lls_grammar_define(json->tree, s->rule, lls_grammar_choice(json->tree, parts, n));
}

static uint32_t make_rules(struct automaton *a, struct lls_json_syntax *json)
{
  find_live(a);
  if (!a->states[0].live)
    return json->nothing;
  for (uint32_t i = 0; i < a->n; i++)
    if (a->states[i].live)
      a->states[i].rule = lls_grammar_rule(json->tree, "multiple");
  for (uint32_t i = 0; i < a->n; i++)
    if (a->states[i].live)
      define(a, json, &a->states[i]);
  return a->states[0].rule;
}

bool lls_decimal_multiples(struct lls_json_syntax *json,
                           const struct lls_decimal_multiples *m, unsigned *work,
                           uint32_t *node)
{
  size_t low = m->low.set ? strlen(m->low.whole) : 0;
  size_t high = m->high.set ? strlen(m->high.whole) : 0;
  struct automaton a = {.m = m, .most_at = (uint16_t)((low > high ? low : high) + 1)};
  bool made = false;
  if (!read_unit(&a))
    return false;
  a.states = malloc(LLS_DECIMAL_STATES * sizeof *a.states);
  a.slots = malloc(SLOTS * sizeof *a.slots);
  if (a.states != NULL && a.slots != NULL) {
    memset(a.slots, 0xff, SLOTS * sizeof *a.slots);
    made = explore(&a);
  }
  *work += a.n;
  if (made)
    *node = make_rules(&a, json);
  free(a.states);
  free(a.slots);
  return made;
}
