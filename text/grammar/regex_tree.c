/* SPDX-License-Identifier: Apache-2.0 */
/* The growing arrays of a regular expression's nodes and ranges; see regex_tree.h. */
#include "text/grammar/regex_tree.h"

#include "text/base/utf8.h"

#include <errno.h>
#include <stdlib.h>

uint32_t lls_regex_fail(struct lls_regex *regex, const char *what)
{
  if (!regex->failed)
    lls_fail(regex->err, -EINVAL, "the regular expression at byte %zu: %s", regex->at,
             what);
  regex->failed = true;
  return LLS_REGEX_END;
}

uint32_t lls_regex_add(struct lls_regex *regex, enum lls_regex_kind kind)
{
  if (regex->n_nodes == regex->node_capacity) {
    uint32_t capacity = regex->node_capacity == 0 ? 64 : regex->node_capacity * 2;
    void *grown = realloc(regex->nodes, capacity * sizeof *regex->nodes);
    if (grown == NULL)
      return lls_regex_fail(regex, "no memory for it");
    regex->nodes = grown;
    regex->node_capacity = capacity;
  }
  regex->nodes[regex->n_nodes] =
      (struct lls_regex_node){.kind = kind, .part = LLS_REGEX_END, .next = LLS_REGEX_END};
  return regex->n_nodes++;
}

#define MOST_RANGES (1 << 21) /* 16 MiB, the bound of a grammar tree's contents */

void lls_regex_add_range(struct lls_regex *regex, uint32_t first, uint32_t last)
{
  if (regex->n_ranges == MOST_RANGES) {
    lls_regex_fail(regex, "the grammar is too large");
    return;
  }
  if (regex->n_ranges == regex->range_capacity) {
    uint32_t capacity = regex->range_capacity == 0 ? 64 : regex->range_capacity * 2;
    void *grown = realloc(regex->ranges, capacity * sizeof *regex->ranges);
    if (grown == NULL) {
      lls_regex_fail(regex, "no memory for it");
      return;
    }
    regex->ranges = grown;
    regex->range_capacity = capacity;
  }
  regex->ranges[regex->n_ranges++] = (struct lls_grammar_range){first, last};
}

void lls_regex_complement(struct lls_regex *regex, uint32_t from)
{
  uint32_t n = regex->n_ranges - from;
  uint32_t node =
      lls_grammar_class_but(regex->tree, n > 0 ? regex->ranges + from : NULL, n);
  regex->n_ranges = from;
  if (node == LLS_GRAMMAR_NONE) {
    lls_regex_fail(regex, "the grammar is too large");
    return;
  }
  struct lls_grammar_node others = lls_grammar_node_at(regex->tree, node);
  for (uint32_t i = 0; i < others.n; i++)
    lls_regex_add_range(regex, others.ranges[i].first, others.ranges[i].last);
}

uint32_t lls_regex_take(struct lls_regex *regex)
{
  uint32_t point = (uint32_t)lls_utf8_char(regex->text + regex->at);
  regex->at += lls_utf8_length(regex->text + regex->at);
  return point;
}

void lls_regex_free(struct lls_regex *regex)
{
  free(regex->nodes);
  free(regex->ranges);
}
