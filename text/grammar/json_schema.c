/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles a set of schemas to a node: first constants, then each branch of anyOf and
 * oneOf, then each type. A set that occurs again reuses its node; a set that occurs
 * inside itself becomes a rule.
 */
#include "text/grammar/json_schema.h"

#include "core/base/hash.h"
#include "text/grammar/schema_compile.h"
#include "text/grammar/schema_made.h"
#include "text/grammar/schema_names.h"

#include <stdlib.h>
#include <string.h>

/* A set whose compiling has begun. The key is its members with the choices made. */
struct lls_schema_memo {
  UT_hash_handle hh;
  bool done;
  uint32_t
      node; /* node of the set; until it is complete: the node of its rule, or none */
  size_t key_bytes;
  char key[];
};

struct key_part {
  const json_t *schema;
  uintptr_t made;
};

static struct lls_schema_memo *begin_memo(struct lls_schema *s,
                                          const struct lls_schema_set *set, bool *is_new)
{
  struct key_part parts[LLS_SCHEMA_TOGETHER] = {0};
  struct lls_schema_memo *memo;
  size_t bytes = set->n * sizeof parts[0];
  for (uint32_t i = 0; i < set->n; i++)
    parts[i] = (struct key_part){set->members[i].schema, set->members[i].made};
  HASH_FIND(hh, s->memos, parts, bytes, memo);
  *is_new = memo == NULL;
  if (memo != NULL)
    return memo;
  memo = calloc(1, sizeof *memo + bytes);
  if (memo == NULL)
    return NULL;
  memo->node = LLS_GRAMMAR_NONE;
  memo->key_bytes = bytes;
  memcpy(memo->key, parts, bytes);
  HASH_ADD_KEYPTR(hh, s->memos, memo->key, bytes, memo);
  if (memo->hh.tbl != NULL)
    return memo;
  free(memo);
  return NULL;
}

/* ---- constants ---- */

static const json_t *constants_of(const struct lls_schema_set *set, bool *single)
{
  const json_t *found = NULL;
  for (uint32_t i = 0; i < set->n && found == NULL; i++) {
    const json_t *one = lls_schema_get(set, i, "const");
    *single = one != NULL;
    found = one != NULL ? one : lls_schema_get(set, i, "enum");
  }
  return found;
}

static enum lls_schema_answer
holds_for_all(struct lls_schema *s, const struct lls_schema_set *set, const json_t *value)
{
  enum lls_schema_answer all = LLS_SCHEMA_YES;
  for (uint32_t i = 0; i < set->n && all != LLS_SCHEMA_NO; i++) {
    enum lls_schema_answer one = lls_schema_holds(s, set->members[i].schema, value, 0);
    all = one == LLS_SCHEMA_YES ? all : one;
  }
  return all;
}

/* The node of a constant, if the other members allow it; else json.nothing. */
static uint32_t constant(struct lls_schema *s, const struct lls_schema_set *set,
                         const json_t *value)
{
  enum lls_schema_answer valid = holds_for_all(s, set, value);
  if (valid == LLS_SCHEMA_UNKNOWN &&
      !lls_schema_leave_out(s, set->members[0].schema, "enum",
                            "beside keywords that it cannot be checked by"))
    return LLS_GRAMMAR_NONE;
  return valid == LLS_SCHEMA_NO ? s->json.nothing : lls_json_constant(&s->json, value);
}

static uint32_t constants(struct lls_schema *s, const struct lls_schema_set *set,
                          const json_t *values)
{
  size_t index, n = 0;
  const json_t *value;
  if (!json_is_array(values))
    return lls_schema_fail(s, set->members[0].schema, "'enum' must be an array");
  uint32_t *nodes = malloc((json_array_size(values) + 1) * sizeof *nodes);
  if (nodes == NULL)
    return lls_schema_fail(s, set->members[0].schema, "no memory for it");
  json_array_foreach((json_t *)values, index, value)
  {
    s->constants = values;
    s->constant = value;
    nodes[n++] = *s->work <= LLS_SCHEMA_WORK || lls_schema_step(s, set->members[0].schema)
                     ? constant(s, set, value)
                     : LLS_GRAMMAR_NONE;
  }
  s->constants = s->constant = NULL;
  uint32_t node =
      s->failed ? LLS_GRAMMAR_NONE : lls_json_one_of(&s->json, nodes, (uint32_t)n);
  free(nodes);
  return node;
}

/* ---- branches ---- */

static bool branch_set(struct lls_schema *s, const struct lls_schema_set *set,
                       uint32_t at, uint32_t made, const json_t *branch,
                       struct lls_schema_set *out)
{
  *out = *set;
  out->members[at].made |= made;
  return lls_schema_add(s, out, branch, at);
}

/* Returns true if provably no value satisfies both branches. */
static bool are_apart(struct lls_schema *s, const struct lls_schema_set *set, uint32_t at,
                      const json_t *one, const json_t *other)
{
  struct lls_schema_set both;
  if (!branch_set(s, set, at, LLS_SCHEMA_ONE_OF, one, &both) ||
      !lls_schema_add(s, &both, other, at) || !lls_schema_complete(s, &both))
    return false;
  return lls_schema_is_empty(s, &both, 0);
}

/* If strict, adds the opposite of each other branch that might hold together with the
 * chosen one. If not strict, a value may be valid by two branches. */
static bool add_exclusion(struct lls_schema *s, const struct lls_schema_set *set,
                          uint32_t at, const json_t *branches, size_t chosen,
                          struct lls_schema_set *with)
{
  size_t n = json_array_size(branches);
  const json_t *branch = json_array_get(branches, chosen);
  for (size_t k = 0; k < n && s->strict; k++) {
    const json_t *other = json_array_get(branches, k);
    if (k == chosen || are_apart(s, set, at, branch, other))
      continue;
    const json_t *fails = lls_schema_not(s, other);
    if (fails == NULL || !lls_schema_mark(s, fails, LLS_SCHEMA_MAY_BE_NARROW))
      lls_schema_fail(s, other, "no memory for it");
    if (s->failed || !lls_schema_add(s, with, fails, at))
      return false;
  }
  return true;
}

/* Reports a branch of oneOf that the opposites of its siblings leave empty only because
 * one of these opposites lacks values (s->narrow). */
static uint32_t check_narrow(struct lls_schema *s, uint32_t made, uint32_t node)
{
  if (made == LLS_SCHEMA_ONE_OF && node == s->json.nothing && s->narrow != NULL)
    lls_schema_leave_out(s, s->narrow, s->narrow_for,
                         "in branches of 'oneOf' that nothing else tells apart");
  return s->failed ? LLS_GRAMMAR_NONE : node;
}

static uint32_t branch(struct lls_schema *s, const struct lls_schema_set *set,
                       uint32_t at, uint32_t made, const json_t *branches, size_t chosen)
{
  struct lls_schema_set with;
  if (!branch_set(s, set, at, made, json_array_get(branches, chosen), &with) ||
      (made == LLS_SCHEMA_ONE_OF && !add_exclusion(s, set, at, branches, chosen, &with)))
    return LLS_GRAMMAR_NONE;
  if (s->made != NULL && lls_schema_is_empty(s, &with, 0))
    return s->json.nothing;
  return s->failed ? LLS_GRAMMAR_NONE
                   : check_narrow(s, made, lls_schema_compile(s, &with));
}

static uint32_t branches_of(struct lls_schema *s, const struct lls_schema_set *set,
                            uint32_t at, uint32_t made, const char *keyword)
{
  const json_t *branches = lls_schema_get(set, at, keyword);
  size_t n = json_array_size(branches);
  if (n == 0)
    return lls_schema_fail(s, set->members[at].schema,
                           "'%s' must be an array of one or more schemas", keyword);
  uint32_t *nodes = malloc(n * sizeof *nodes);
  if (nodes == NULL)
    return lls_schema_fail(s, set->members[at].schema, "no memory for it");
  for (size_t i = 0; i < n; i++)
    nodes[i] = s->failed ? LLS_GRAMMAR_NONE : branch(s, set, at, made, branches, i);
  uint32_t node =
      s->failed ? LLS_GRAMMAR_NONE : lls_json_one_of(&s->json, nodes, (uint32_t)n);
  free(nodes);
  return node;
}

/* ---- a property that must be outside of `properties` ---- */

/* Chooses the property's name: one that another member names, which is then required,
 * or (NULL) one that no member names. */
static bool beyond_set(struct lls_schema *s, const struct lls_schema_set *set,
                       uint32_t at, const char *name, struct lls_schema_set *with)
{
  const json_t *named = lls_schema_get(set, at, "properties");
  *with = *set;
  with->members[at].made |= LLS_SCHEMA_BEYOND | (name == NULL ? LLS_SCHEMA_OTHER : 0);
  if (name == NULL)
    return true;
  if (json_object_get(named, name) != NULL) {
    with->impossible = true;
    return true;
  }
  const json_t *requires = lls_schema_requires(s, name); /* beyond() handles NULL */
  return requires != NULL && lls_schema_add(s, with, requires, at);
}

static uint32_t beyond(struct lls_schema *s, const struct lls_schema_set *set,
                       uint32_t at)
{
  struct lls_schema_names names = {0};
  uint32_t *nodes = NULL, node = LLS_GRAMMAR_NONE, n = 0;
  if (lls_schema_names_read(s, set, &names))
    nodes = malloc((names.n + 1) * sizeof *nodes);
  for (uint32_t i = 0; nodes != NULL && i <= names.n && !s->failed; i++) {
    struct lls_schema_set with;
    if (!beyond_set(s, set, at, i < names.n ? names.names[i] : NULL, &with) ||
        with.impossible || lls_schema_is_empty(s, &with, 0))
      continue;
    nodes[n++] = lls_schema_compile(s, &with);
  }
  if (nodes != NULL && !s->failed)
    node = lls_json_one_of(&s->json, nodes, n);
  else
    lls_schema_fail(s, set->members[at].schema, "no memory for it");
  free(nodes);
  lls_schema_names_free(&names);
  return node;
}

/* ---- types ---- */

static uint32_t by_types(struct lls_schema *s, const struct lls_schema_set *set)
{
  unsigned types;
  uint32_t nodes[6], n = 0;
  if (!lls_schema_types_of(s, set, &types) || !lls_schema_check_keywords(s, set, types))
    return LLS_GRAMMAR_NONE;
  if (types & LLS_SCHEMA_OBJECT)
    nodes[n++] = lls_schema_object(s, set);
  if (types & LLS_SCHEMA_ARRAY)
    nodes[n++] = lls_schema_array(s, set);
  if (types & LLS_SCHEMA_STRING)
    nodes[n++] = lls_schema_string(s, set);
  if (types & (LLS_SCHEMA_INTEGER | LLS_SCHEMA_FRACTION))
    nodes[n++] = lls_schema_number(s, set, types);
  if (types & LLS_SCHEMA_BOOLEAN)
    nodes[n++] = s->json.boolean;
  if (types & LLS_SCHEMA_NULL)
    nodes[n++] = s->json.null;
  return lls_json_one_of(&s->json, nodes, n);
}

static uint32_t compile_complete(struct lls_schema *s, const struct lls_schema_set *set)
{
  bool single = false;
  const json_t *values = constants_of(set, &single);
  if (values != NULL)
    return single ? constant(s, set, values) : constants(s, set, values);
  for (uint32_t i = 0; i < set->n; i++) {
    uint32_t made = set->members[i].made;
    if (!(made & LLS_SCHEMA_ANY_OF) && lls_schema_get(set, i, "anyOf") != NULL)
      return branches_of(s, set, i, LLS_SCHEMA_ANY_OF, "anyOf");
    if (!(made & LLS_SCHEMA_ONE_OF) && lls_schema_get(set, i, "oneOf") != NULL)
      return branches_of(s, set, i, LLS_SCHEMA_ONE_OF, "oneOf");
  }
  for (uint32_t i = 0; i < set->n; i++)
    if (!(set->members[i].made & LLS_SCHEMA_BEYOND) &&
        lls_schema_has_mark(s, set->members[i].schema, LLS_SCHEMA_IS_BEYOND))
      return beyond(s, set, i);
  return by_types(s, set);
}

uint32_t lls_schema_compile(struct lls_schema *s, const struct lls_schema_set *set)
{
  struct lls_schema_set whole = *set;
  bool is_new;
  if (!lls_schema_complete(s, &whole))
    return LLS_GRAMMAR_NONE;
  if (whole.impossible)
    return s->json.nothing;
  if (whole.n == 0)
    return s->json.value;
  struct lls_schema_memo *memo = begin_memo(s, &whole, &is_new);
  if (memo == NULL)
    return lls_schema_fail(s, whole.members[0].schema, "no memory for it");
  if (!is_new) {
    if (!memo->done && memo->node == LLS_GRAMMAR_NONE)
      memo->node = lls_grammar_rule(s->json.tree, "a schema that holds itself");
    return memo->node;
  }
  if (++s->depth > LLS_SCHEMA_DEPTH)
    return lls_schema_fail(s, whole.members[0].schema,
                           "schemas inside each other, more "
                           "than %d deep",
                           LLS_SCHEMA_DEPTH);
  uint32_t node = compile_complete(s, &whole);
  s->depth--;
  if (memo->node != LLS_GRAMMAR_NONE)
    lls_grammar_define(s->json.tree, memo->node, node);
  else
    memo->node = node;
  memo->done = true;
  return memo->node;
}

/* ---- the entry points ---- */

static uint32_t compile_schema(struct lls_grammar_tree *tree, const json_t *schema,
                               bool strict, bool closed)
{
  struct lls_schema s = {.root = schema,
                         .strict = strict,
                         .closed = closed,
                         .work = lls_grammar_tree_schema_work(tree)};
  struct lls_schema_set set = {0};
  struct lls_schema_memo *memo, *next;
  uint32_t node = LLS_GRAMMAR_NONE;
  lls_json_syntax_init(&s.json, tree);
  if (lls_schema_add(&s, &set, schema, 0))
    node = lls_schema_compile(&s, &set);
  if (node == s.json.nothing && !s.failed)
    node = lls_schema_fail(&s, schema, "no value is valid by it");
  HASH_ITER(hh, s.memos, memo, next)
  {
    HASH_DEL(s.memos, memo);
    free(memo);
  }
  lls_schema_free_made(&s);
  return node;
}

uint32_t lls_grammar_json_schema(struct lls_grammar_tree *tree, const json_t *schema,
                                 bool strict)
{
  return compile_schema(tree, schema, strict, false);
}

/* Keywords of which at least one must be present for a schema to concern an object's
 * properties. */
static bool says_properties(const json_t *schema)
{
  static const char *const keywords[] = {"properties",
                                         "required",
                                         "additionalProperties",
                                         "propertyNames",
                                         "patternProperties",
                                         "unevaluatedProperties",
                                         "minProperties",
                                         "maxProperties",
                                         "$ref",
                                         "anyOf",
                                         "oneOf",
                                         "allOf",
                                         "not",
                                         "if",
                                         "dependencies",
                                         "dependentSchemas",
                                         "dependentRequired",
                                         "enum",
                                         "const"};
  for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
    if (json_object_get(schema, keywords[i]) != NULL)
      return true;
  return false;
}

uint32_t lls_grammar_json_arguments(struct lls_grammar_tree *tree, const json_t *schema,
                                    bool strict)
{
  json_t *object = json_is_object(schema) ? json_copy((json_t *)schema) : json_object();
  if (json_object_get(object, "type") == NULL)
    json_object_set_new(object, "type", json_string("object"));
  if (!says_properties(object))
    json_object_set_new(object, "properties", json_object());
  uint32_t node = compile_schema(tree, object, strict, true);
  json_decref(object);
  return node;
}

uint32_t lls_grammar_json_object(struct lls_grammar_tree *tree)
{
  struct lls_json_syntax json;
  lls_json_syntax_init(&json, tree);
  return json.object;
}
