/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the tree of a regular expression without anchors into nodes of a grammar. */
#include "text/grammar/regex.h"

#include "text/grammar/json_escape.h"
#include "text/grammar/regex_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t build(struct lls_regex *regex, uint32_t at, bool json);

static uint32_t build_parts(struct lls_regex *regex, const struct lls_regex_node *node,
                            bool json)
{
  uint32_t n = 0;
  for (uint32_t at = node->part; at != LLS_REGEX_END; at = regex->nodes[at].next)
    n++;
  uint32_t *parts = malloc((n + 1) * sizeof *parts), i = 0;
  if (parts == NULL)
    return lls_grammar_fail(regex->tree, "no memory for the regular expression");
  for (uint32_t at = node->part; at != LLS_REGEX_END; at = regex->nodes[at].next)
    parts[i++] = build(regex, at, json);
  uint32_t built = node->kind == LLS_REGEX_CHOICE
                       ? lls_grammar_choice(regex->tree, parts, n)
                       : lls_grammar_sequence(regex->tree, parts, n);
  free(parts);
  return built;
}

static uint32_t build(struct lls_regex *regex, uint32_t at, bool json)
{
  const struct lls_regex_node *node = &regex->nodes[at];
  /* a tree without classes has no array of ranges */
  const struct lls_grammar_range *ranges =
      node->kind == LLS_REGEX_CLASS ? regex->ranges + node->range : NULL;
  switch (node->kind) {
  case LLS_REGEX_CLASS:
    return json ? lls_json_class(regex->tree, ranges, node->n_ranges)
                : lls_grammar_class(regex->tree, ranges, node->n_ranges);
  case LLS_REGEX_REPEAT:
    return lls_grammar_repeat(regex->tree, build(regex, node->part, json), node->min,
                              node->max);
  default:
    return build_parts(regex, node, json);
  }
}

bool lls_regex_is_in_all(struct lls_grammar_tree *tree, const char *pattern)
{
  struct lls_regex regex;
  struct lls_error err;
  uint32_t root = lls_regex_parse(&regex, tree, pattern, strlen(pattern), &err);
  bool is = root != LLS_REGEX_END && !lls_regex_has_anchor(&regex, root) &&
            lls_regex_length_of(&regex, root).min == 0;
  lls_regex_free(&regex);
  return is;
}

uint32_t lls_grammar_regex(struct lls_grammar_tree *tree, const char *pattern, size_t n,
                           struct lls_regex_use use, int *code, struct lls_error *err)
{
  struct lls_regex regex;
  uint32_t node = LLS_GRAMMAR_NONE;
  uint32_t root = lls_regex_parse(&regex, tree, pattern, n, err);
  *code = -EINVAL;
  if (root != LLS_REGEX_END && use.within && lls_regex_has_anchor(&regex, root))
    lls_regex_fail(&regex, "an anchor (^ or $): it is looked for anywhere");
  if (root == LLS_REGEX_END || !lls_regex_resolve_anchors(&regex, root, use.search))
    goto done;
  *code = lls_fail(err, -ENOTSUP, "the regular expression cannot be held to a length");
  if (use.narrow && !lls_regex_narrow(&regex, root, use.min, use.max))
    goto done;
  if (use.bounded && !use.narrow && !lls_regex_bound(&regex, root, use.min, use.max))
    goto done;
  node = build(&regex, root, use.json);
  *code = node == LLS_GRAMMAR_NONE ? lls_grammar_tree_check(tree, err) : 0;
done:
  lls_regex_free(&regex);
  return node;
}
