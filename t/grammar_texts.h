/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of grammars for tests: each with texts that match and texts that do not,
 * checked with the simple recogniser, or with the error message of a faulty grammar. */
#ifndef LLS_T_GRAMMAR_TEXTS_H
#define LLS_T_GRAMMAR_TEXTS_H

#include "t/recogniser.h"
#include "t/tap.h"

#define MOST 8

struct grammar_texts {
  const char *source;
  const char *yes[MOST], *no[MOST];
};

struct grammar_mistake {
  const char *source, *says;
};

typedef uint32_t (*grammar_build)(struct lls_grammar_tree *tree, const char *source,
                                  size_t n);

static inline struct lls_grammar_tree *new_tree(void)
{
  struct lls_grammar_tree *tree =
      lls_grammar_tree_create(&(struct lls_grammar_bounds){100000, 4000000, 10000});
  assert_non_null(tree);
  return tree;
}

static inline void check_texts(const struct lls_grammar_tree *tree, const char *source,
                               const char *const *texts, bool valid)
{
  for (size_t i = 0; i < MOST && texts[i] != NULL; i++)
    if (recognises(tree, texts[i], strlen(texts[i])) != valid)
      fail_msg("%s %s %s", source, valid ? "refuses" : "accepts", texts[i]);
}

static inline void check_grammars(grammar_build build, const struct grammar_texts *cases,
                                  size_t n)
{
  for (size_t i = 0; i < n; i++) {
    struct lls_grammar_tree *tree = new_tree();
    struct lls_error err = {0};
    lls_grammar_set_root(tree, build(tree, cases[i].source, strlen(cases[i].source)));
    if (lls_grammar_tree_check(tree, &err) != 0)
      fail_msg("%s: %s", cases[i].source, err.text);
    check_texts(tree, cases[i].source, cases[i].yes, true);
    check_texts(tree, cases[i].source, cases[i].no, false);
    lls_grammar_tree_destroy(tree);
  }
}

static inline void check_mistakes(grammar_build build,
                                  const struct grammar_mistake *cases, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    struct lls_grammar_tree *tree = new_tree();
    struct lls_error err = {0};
    lls_grammar_set_root(tree, build(tree, cases[i].source, strlen(cases[i].source)));
    assert_int_not_equal(lls_grammar_tree_check(tree, &err), 0);
    if (strstr(err.text, cases[i].says) == NULL)
      fail_msg("%s: %s", cases[i].source, err.text);
    lls_grammar_tree_destroy(tree);
  }
}

#endif
