/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions as grammars: the common subset of ECMA 262 and Python's re that
 * is regular. Look-around, back references, word boundaries, atomic groups, possessive
 * quantifiers and flags are refused by name. Text is code points of UTF-8; \d and \w
 * are ASCII, \s is Unicode's white space, a dot matches everything except line
 * terminators.
 *
 *   regex_parse.c    parses the text of an expression into its tree
 *   regex_escape.c   \d, [a-z], \p{Lu}: sets of code points
 *   regex_anchors.c  removes ^ and $ from the tree
 *   regex_length.c   computes and bounds the lengths of matches
 *   regex_narrow.c   leaves out matches until the rest is short enough
 *   regex.c          turns the tree into nodes of a grammar
 *   regex_scan.c     searches a growing text for matches
 */
#ifndef LLS_GRAMMAR_REGEX_H
#define LLS_GRAMMAR_REGEX_H

#include "text/grammar/grammar_tree.h"

#include <stdbool.h>

#define LLS_REGEX_REPEATS 65536 /* largest number in {m,n} */

struct lls_regex_use {
  bool search; /* the expression may match anywhere in the text, as JSON Schema's patterns
                  do */
  bool json;   /* the text is the inside of a JSON string; see json_syntax.h */
  bool within; /* the expression is a part of a longer text: anchors are refused */
  bool bounded; /* matches are limited to min to max code points */
  bool narrow;  /* some matches between min and max may be left out */
  uint32_t min, max;
};

/* Returns true if the expression has a match in every text: it matches the empty text
 * and has no anchor. */
bool lls_regex_is_in_all(struct lls_grammar_tree *tree, const char *pattern);

/*
 * Returns the node; or LLS_GRAMMAR_NONE and the reason in err. *code is then -EINVAL
 * for a fault in the expression, at the byte in err; -ENOTSUP if its matches cannot be
 * bounded by min and max; -E2BIG if the tree has failed.
 */
uint32_t lls_grammar_regex(struct lls_grammar_tree *tree, const char *pattern, size_t n,
                           struct lls_regex_use use, int *code, struct lls_error *err);

#endif
