/* SPDX-License-Identifier: Apache-2.0 */
/* The syntax tree of a regular expression, between the parser and the files that make a
 * grammar of it. */
#ifndef LLS_GRAMMAR_REGEX_TREE_H
#define LLS_GRAMMAR_REGEX_TREE_H

#include "text/grammar/grammar_tree.h"

#include <stdbool.h>

#define LLS_REGEX_DEPTH 200 /* groups inside each other */
#define LLS_REGEX_END   UINT32_MAX

enum lls_regex_kind {
  LLS_REGEX_CLASS,    /* one code point of its ranges */
  LLS_REGEX_SEQUENCE, /* the parts one after the other */
  LLS_REGEX_CHOICE,   /* one of its parts */
  LLS_REGEX_REPEAT,   /* the part, min to max times */
  LLS_REGEX_FIRST,    /* an anchor: the beginning of the text */
  LLS_REGEX_LAST,     /* an anchor: the end of the text */
};

struct lls_regex_node {
  enum lls_regex_kind kind;
  uint32_t min, max;        /* repetitions of LLS_REGEX_REPEAT */
  uint32_t part, next;      /* first part of the node; its next sibling */
  uint32_t range, n_ranges; /* the class's ranges in the tree's array */
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

/* Parses text. Returns the root; or LLS_REGEX_END and the reason in err. The caller
 * frees the tree in both cases. */
uint32_t lls_regex_parse(struct lls_regex *regex, struct lls_grammar_tree *tree,
                         const char *text, size_t n, struct lls_error *err);
void lls_regex_free(struct lls_regex *regex);

/* Returns true if the node, or a node below it, is an anchor. */
bool lls_regex_has_anchor(const struct lls_regex *regex, uint32_t at);

/*
 * Removes anchors: afterwards the expression matches whole texts. With `search`, the
 * text around a match becomes part of the expression. Returns false, and the reason,
 * for an anchor between other parts or in a repetition.
 */
bool lls_regex_resolve_anchors(struct lls_regex *regex, uint32_t root, bool search);

struct lls_regex_length {
  uint64_t min, max; /* code points; LLS_REGEX_ENDLESS */
};

#define LLS_REGEX_ENDLESS (UINT64_C(1) << 40)

/* Returns the minimum and maximum length of the matches of a node without anchors. */
struct lls_regex_length lls_regex_length_of(const struct lls_regex *regex, uint32_t at);

/* Leaves out matches until none is longer than max: the variable parts share the
 * available length. Returns false if all matches are longer, or a remaining one may be
 * shorter than min. */
bool lls_regex_narrow(struct lls_regex *regex, uint32_t root, uint32_t min, uint32_t max);

/* Makes the expression match texts of min to max code points only. Returns false if
 * this takes more than changing the bounds of one repetition in each branch, and
 * enumerating few lengths of other parts; the tree is then unusable. */
bool lls_regex_bound(struct lls_regex *regex, uint32_t root, uint32_t min, uint32_t max);

/* ---- between the files of the parser ---- */

/* Reports the fault and its byte offset. Returns LLS_REGEX_END. */
uint32_t lls_regex_fail(struct lls_regex *regex, const char *what);
/* Adds a node without parts. Returns it, or LLS_REGEX_END. */
uint32_t lls_regex_add(struct lls_regex *regex, enum lls_regex_kind kind);
/* Appends a range to the class being read. */
void lls_regex_add_range(struct lls_regex *regex, uint32_t first, uint32_t last);
/* Replaces all ranges from index `from` on by their complement. */
void lls_regex_complement(struct lls_regex *regex, uint32_t from);
/* Takes the next code point; the text must not be at its end. */
uint32_t lls_regex_take(struct lls_regex *regex);

/* regex_escape.c: reads the characters after a backslash and appends their ranges.
 * *is_point: it was one code point, *point, which may begin a range. Returns false on
 * error. */
bool lls_regex_escape(struct lls_regex *regex, bool in_class, uint32_t *point,
                      bool *is_point);
/* Reads the characters after a [, including the closing ]. Returns false on error. */
bool lls_regex_bracket(struct lls_regex *regex);

#endif
