/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions as grammars: what ECMA 262 and Python's re have in common, without
 * what is not regular. Look-around, back references, word boundaries, atomic groups,
 * possessive quantifiers and flags are refused by name. Text is code points of UTF-8; \d
 * and \w are ASCII's, \s is Unicode's white space, a dot is all but ends of lines.
 *
 *   regex_parse.c    the text of an expression -> its tree
 *   regex_escape.c   \d, [a-z], \p{Lu}: sets of code points
 *   regex_anchors.c  ^ and $ taken out of its tree
 *   regex_length.c   lengths of what it matches
 *   regex_narrow.c   some of what it matches, that is short enough
 *   regex.c          its tree -> nodes of a grammar
 *   regex_scan.c     looked for in a text that grows
 */
#ifndef LLS_GRAMMAR_REGEX_H
#define LLS_GRAMMAR_REGEX_H

#include "text/grammar/grammar_tree.h"

#include <stdbool.h>

#define LLS_REGEX_REPEATS 65536 /* the most times that {m,n} may say */

struct lls_regex_use {
  bool search;  /* it may match anywhere in the text, as JSON Schema's patterns */
  bool json;    /* the text is the inside of a JSON string; see json_syntax.h */
  bool within;  /* it matches a part of a text without beginning or end: no anchors */
  bool bounded; /* it has from min to max code points */
  bool narrow;  /* ... and need not have all texts that it might */
  uint32_t min, max;
};

/* True if every text has a match: the expression has an empty one and no anchor. */
bool lls_regex_is_in_all(struct lls_grammar_tree *tree, const char *pattern);

/*
 * The node, or LLS_GRAMMAR_NONE and why. -EINVAL in *code: the expression, at which byte;
 * -ENOTSUP: it cannot be held to min and max; -E2BIG: the tree has failed.
 */
uint32_t lls_grammar_regex(struct lls_grammar_tree *tree, const char *pattern, size_t n,
                           struct lls_regex_use use, int *code, struct lls_error *err);

#endif
