/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a piece at the matches of a pattern. */
#ifndef LLS_TOKENIZER_SPLIT_H
#define LLS_TOKENIZER_SPLIT_H

#include "core/base/error.h"
#include "text/tokenizer/pattern.h"
#include "text/base/buffer.h"

/* Treatment of the matches, shown for the text "a-b--c" and the pattern "-". */
enum lls_behavior {
  LLS_REMOVED,       /* a b c */
  LLS_ISOLATED,      /* a - b - - c */
  LLS_WITH_PREVIOUS, /* a- b- - c */
  LLS_WITH_NEXT,     /* a -b - -c */
  LLS_CONTIGUOUS,    /* a - b -- c */
};

struct lls_split {
  struct lls_pattern *pattern;
  enum lls_behavior behavior;
  bool invert; /* the gaps between matches count as the matches */
};

/* Finds the behaviour with this name in tokenizer.json. */
int lls_behavior_parse(const char *name, enum lls_behavior *out, struct lls_error *err);

/* Appends to out the spans that result from splitting a span of text. */
int lls_split(const struct lls_split *split, struct lls_matcher *matcher,
              const char *text, struct lls_span span, struct lls_pieces *out);

#endif
