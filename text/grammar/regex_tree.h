/* SPDX-License-Identifier: Apache-2.0 */
/* A regular expression as it was written, between its parser and what makes a grammar of
 * it. */
#ifndef LLS_GRAMMAR_REGEX_TREE_H
#define LLS_GRAMMAR_REGEX_TREE_H

#include "text/grammar/grammar_tree.h"

#include <stdbool.h>

#define LLS_REGEX_DEPTH 200 /* groups inside each other */
#define LLS_REGEX_END   UINT32_MAX

enum lls_regex_kind {
  LLS_REGEX_CLASS,    /* one code point of its ranges */
  LLS_REGEX_SEQUENCE, /* its parts in a row */
  LLS_REGEX_CHOICE,   /* one of its parts */
  LLS_REGEX_REPEAT,   /* its part, min to max times */
  LLS_REGEX_FIRST,    /* an anchor: here the text begins */
  LLS_REGEX_LAST,     /* an anchor: here it ends */
};

struct lls_regex_node {
  enum lls_regex_kind kind;
  uint32_t min, max;        /* of a repetition */
  uint32_t part, next;      /* its first part; the one after itself in its parent */
  uint32_t range, n_ranges; /* of a class, in the tree's ranges */
};

struct lls_regex {
  struct lls_grammar_tree *tree;
  struct lls_error *err;
  const char *text; /* (n) */
  size_t n, at;
  unsigned depth;
  struct lls_regex_node *nodes; /* (n_nodes) */
  uint32_t n_nodes, node_capacity;
  struct lls_grammar_range *ranges; /* (n_ranges) */
  uint32_t n_ranges, range_capacity;
  bool failed;
};

/* Parses text; the root, or LLS_REGEX_END and why in err. The caller frees it in both
 * cases. */
uint32_t lls_regex_parse(struct lls_regex *regex, struct lls_grammar_tree *tree,
                         const char *text, size_t n, struct lls_error *err);
void lls_regex_free(struct lls_regex *regex);

/* Below a node, or at it. */
bool lls_regex_has_anchor(const struct lls_regex *regex, uint32_t at);

/*
 * Replaces anchors by what they say: afterwards the expression has none, and matches
 * whole texts. Where it may match anywhere, the text around it becomes a part of it.
 * False and why: an anchor that stands between other parts, or is repeated.
 */
bool lls_regex_resolve_anchors(struct lls_regex *regex, uint32_t root, bool search);

struct lls_regex_length {
  uint64_t min, max; /* code points; LLS_REGEX_ENDLESS */
};

#define LLS_REGEX_ENDLESS (UINT64_C(1) << 40)

/* The lengths between which all matches of a node without anchors are. */
struct lls_regex_length lls_regex_length_of(const struct lls_regex *regex, uint32_t at);

/* Leaves out matches until none is longer than max: parts that vary share what there is.
 * False: all are longer, or one may be shorter than min. */
bool lls_regex_narrow(struct lls_regex *regex, uint32_t root, uint32_t min, uint32_t max);

/* Makes the expression match texts of min to max code points only. False, and nothing is
 * changed but for the worse, where that takes more than other bounds of one repetition in
 * each branch, and branches for few lengths of others. */
bool lls_regex_bound(struct lls_regex *regex, uint32_t root, uint32_t min, uint32_t max);

/* ---- between the files of the parser ---- */

/* Says what is wrong and at which byte; returns LLS_REGEX_END. */
uint32_t lls_regex_fail(struct lls_regex *regex, const char *what);
/* A node without parts, or LLS_REGEX_END. */
uint32_t lls_regex_add(struct lls_regex *regex, enum lls_regex_kind kind);
/* Appends a range to those of the class that is being read. */
void lls_regex_add_range(struct lls_regex *regex, uint32_t first, uint32_t last);
/* Makes all ranges from `from` on what they leave out. */
void lls_regex_complement(struct lls_regex *regex, uint32_t from);
/* The next code point, which is not at the end. */
uint32_t lls_regex_take(struct lls_regex *regex);

/* regex_escape.c: reads what follows a backslash, as ranges; whether it was one code
 * point is told, for it may begin a range. False with the error. */
bool lls_regex_escape(struct lls_regex *regex, bool in_class, uint32_t *point,
                      bool *is_point);
/* Reads what follows a [, with its ]; false with the error. */
bool lls_regex_bracket(struct lls_regex *regex);

#endif
