/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON Schema with texts that it accepts and texts that it does not, checked with the
 * simple recogniser. */
#ifndef T_SCHEMA_CASE_H
#define T_SCHEMA_CASE_H

#include "core/base/json_parse.h"
#include "text/grammar/json_schema.h"

#include "t/recogniser.h"
#include "t/tap.h"

#define MOST 8

struct schema_case {
  const char *schema;
  const char *valid[MOST], *invalid[MOST];
};

static inline uint32_t compile(const char *text, bool strict,
                               struct lls_grammar_tree **tree, struct lls_error *err)
{
  json_error_t error;
  json_t *schema = lls_json_parse_string(text, JSON_DECODE_ANY, &error);
  if (schema == NULL)
    fail_msg("%s: %s", text, error.text);
  *tree = lls_grammar_tree_create(&(struct lls_grammar_bounds){100000, 4000000, 10000});
  assert_non_null(*tree);
  uint32_t node = lls_grammar_json_schema(*tree, schema, strict);
  lls_grammar_set_root(*tree, node);
  int rc = lls_grammar_tree_check(*tree, err);
  assert_int_equal(rc == 0, node != LLS_GRAMMAR_NONE);
  json_decref(schema);
  return node;
}

static inline void check(const struct schema_case *cases, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    struct lls_grammar_tree *tree;
    struct lls_error err = {0};
    if (compile(cases[i].schema, true, &tree, &err) == LLS_GRAMMAR_NONE)
      fail_msg("%s: %s", cases[i].schema, err.text);
    for (size_t k = 0; k < MOST && cases[i].valid[k] != NULL; k++)
      if (!recognises(tree, cases[i].valid[k], strlen(cases[i].valid[k])))
        fail_msg("%s refuses %s", cases[i].schema, cases[i].valid[k]);
    for (size_t k = 0; k < MOST && cases[i].invalid[k] != NULL; k++)
      if (recognises(tree, cases[i].invalid[k], strlen(cases[i].invalid[k])))
        fail_msg("%s accepts %s", cases[i].schema, cases[i].invalid[k]);
    lls_grammar_tree_destroy(tree);
  }
}

#define CHECK(...)                                                                       \
  static const struct schema_case cases[] = {__VA_ARGS__};                               \
  (void)state;                                                                           \
  check(cases, sizeof cases / sizeof cases[0])

#endif
