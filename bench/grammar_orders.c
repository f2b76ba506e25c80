/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a value property by property: each time a property which the grammar accepts
 * next, with backtracking where it accepts none. If it accepts two properties, the one
 * after which it still accepts the other is written first; otherwise every pair would be
 * tried in both orders. With schemas in branches this rule can miss an order, so a second
 * search runs without it.
 */
#include "grammar_orders.h"

#include <stdlib.h>
#include <string.h>

#define MOST_TRIES 300000

/* The values still to be written, the next one first. */
struct rest {
  enum { TEXT, VALUE, MEMBERS } kind;
  const char *text;    /* for TEXT */
  const json_t *value; /* for VALUE: the value; for MEMBERS: the object */
  bool *written;       /* for MEMBERS, by index in the object */
  const bool *before;  /* for MEMBERS: members which the grammar also accepted in place of
                          the last one */
  size_t left;         /* for MEMBERS: how many are not written yet */
  const struct rest *next;
};

struct search {
  unsigned tries;
  bool in_pairs;
};

static bool write_rest(struct search *search, const struct lls_grammar_state *from,
                       const struct rest *rest);

static struct lls_grammar_state *copy_of(const struct lls_grammar_state *state)
{
  struct lls_grammar_state *copy = malloc(lls_grammar_state_bytes());
  if (copy == NULL)
    abort();
  return memcpy(copy, state, lls_grammar_state_bytes());
}

static bool write_text(struct search *search, const struct lls_grammar_state *from,
                       const char *text, const struct rest *next)
{
  struct lls_grammar_state *state = copy_of(from);
  bool taken = ++search->tries <= MOST_TRIES &&
               lls_grammar_accept_bytes(state, text, strlen(text)) >= 0 &&
               write_rest(search, state, next);
  free(state);
  return taken;
}

/* Returns a scalar or a name as text between `before` and `behind`; the caller frees
 * it. */
static char *dumped(const json_t *value, const char *before, const char *behind)
{
  char *one = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)), *text;
  if (one == NULL || asprintf(&text, "%s%s%s", before, one, behind) < 0)
    abort();
  free(one);
  return text;
}

static char *name_of(const struct rest *members, const char *name)
{
  bool is_first = members->left == json_object_size(members->value);
  json_t *key = json_string(name);
  char *text = dumped(key, is_first ? "" : ", ", ": ");
  json_decref(key);
  return text;
}

/* Sets next[] for each unwritten member which the grammar accepts next. */
static void find_next(struct search *search, const struct lls_grammar_state *from,
                      const struct rest *rest, bool *next)
{
  const char *name;
  json_t *value;
  size_t at = 0;
  json_object_foreach((json_t *)rest->value, name, value)
  {
    if (!rest->written[at]) {
      struct lls_grammar_state *state = copy_of(from);
      char *text = name_of(rest, name);
      search->tries++;
      next[at] = lls_grammar_accept_bytes(state, text, strlen(text)) >= 0;
      free(text);
      free(state);
    }
    at++;
  }
}

/* Returns true if the grammar accepted a member in place of the last one, but not after
 * it. */
static bool has_lost(const struct rest *rest, const bool *next)
{
  for (size_t i = 0; i < json_object_size(rest->value); i++)
    if (rest->before[i] && !rest->written[i] && !next[i])
      return true;
  return false;
}

static bool write_each(struct search *search, const struct lls_grammar_state *from,
                       const struct rest *rest, const bool *next)
{
  const char *name;
  json_t *value;
  size_t at = 0;
  bool taken = false;
  json_object_foreach((json_t *)rest->value, name, value)
  {
    size_t this = at++;
    if (taken || rest->written[this] || !next[this])
      continue;
    struct rest others = *rest;
    others.left--;
    others.before = search->in_pairs ? next : rest->before;
    struct rest one = {.kind = VALUE, .value = value, .next = &others};
    char *text = name_of(rest, name);
    rest->written[this] = true;
    taken = write_text(search, from, text, &one);
    rest->written[this] = false;
    free(text);
  }
  return taken;
}

static bool write_members(struct search *search, const struct lls_grammar_state *from,
                          const struct rest *rest)
{
  if (rest->left == 0)
    return write_text(search, from, "}", rest->next);
  bool *next = calloc(json_object_size(rest->value), sizeof *next);
  if (next == NULL)
    abort();
  find_next(search, from, rest, next);
  bool taken = !has_lost(rest, next) && write_each(search, from, rest, next);
  free(next);
  return taken;
}

static bool write_object(struct search *search, const struct lls_grammar_state *from,
                         const json_t *object, const struct rest *next)
{
  size_t n = json_object_size(object);
  bool *written = calloc(2 * n + 1, sizeof *written);
  if (written == NULL)
    abort();
  struct rest members = {MEMBERS, NULL, object, written, written + n, n, next};
  bool taken = write_text(search, from, "{", &members);
  free(written);
  return taken;
}

/* Writes an array: a chain of its items and separators, followed by `next`. */
static bool write_array(struct search *search, const struct lls_grammar_state *from,
                        const json_t *array, const struct rest *next)
{
  size_t n = json_array_size(array);
  struct rest *parts = calloc(2 * n + 1, sizeof *parts);
  if (parts == NULL)
    abort();
  for (size_t i = 0; i < n; i++) {
    parts[2 * i] = (struct rest){.kind = VALUE, .value = json_array_get(array, i)};
    parts[2 * i + 1] = (struct rest){.kind = TEXT, .text = i + 1 < n ? ", " : "]"};
  }
  if (n == 0)
    parts[0] = (struct rest){.kind = TEXT, .text = "]"};
  size_t last = n == 0 ? 0 : 2 * n - 1;
  for (size_t i = 0; i <= last; i++)
    parts[i].next = i < last ? &parts[i + 1] : next;
  bool taken = write_text(search, from, "[", parts);
  free(parts);
  return taken;
}

static bool write_scalar(struct search *search, const struct lls_grammar_state *from,
                         const struct rest *rest)
{
  char *text = dumped(rest->value, "", "");
  bool taken = write_text(search, from, text, rest->next);
  free(text);
  return taken;
}

static bool write_rest(struct search *search, const struct lls_grammar_state *from,
                       const struct rest *rest)
{
  if (rest == NULL)
    return lls_grammar_may_end(from);
  if (rest->kind == TEXT)
    return write_text(search, from, rest->text, rest->next);
  if (rest->kind == MEMBERS)
    return write_members(search, from, rest);
  return json_is_object(rest->value) ? write_object(search, from, rest->value, rest->next)
         : json_is_array(rest->value) ? write_array(search, from, rest->value, rest->next)
                                      : write_scalar(search, from, rest);
}

bool grammar_takes_in_some_order(struct lls_grammar *grammar, const json_t *value)
{
  struct search pairs = {.in_pairs = true}, all = {.in_pairs = false};
  struct rest rest = {.kind = VALUE, .value = value};
  struct lls_grammar_state *begin = malloc(lls_grammar_state_bytes());
  if (begin == NULL)
    abort();
  lls_grammar_state_init(begin, grammar);
  bool taken = write_rest(&pairs, begin, &rest) || write_rest(&all, begin, &rest);
  free(begin);
  return taken;
}
