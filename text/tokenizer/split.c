/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits in one pass: the text alternates between matches and gaps, and each behaviour
 * is a rule for joining a section to the span before it.
 */
#include "text/tokenizer/split.h"

#include "text/base/utf8.h"

#include <errno.h>
#include <string.h>

struct cutter {
  const struct lls_split *split;
  struct lls_pieces *out;
  size_t begin; /* where the span being built begins */
  size_t end;
  bool open;     /* a span is being built */
  bool is_match; /* the span's last section is a match */
};

int lls_behavior_parse(const char *name, enum lls_behavior *out, struct lls_error *err)
{
  static const char *const names[] = {
      [LLS_REMOVED] = "Removed",
      [LLS_ISOLATED] = "Isolated",
      [LLS_WITH_PREVIOUS] = "MergedWithPrevious",
      [LLS_WITH_NEXT] = "MergedWithNext",
      [LLS_CONTIGUOUS] = "Contiguous",
  };
  for (size_t i = 0; name != NULL && i < sizeof names / sizeof *names; i++) {
    if (strcmp(name, names[i]) == 0) {
      *out = (enum lls_behavior)i;
      return 0;
    }
  }
  return lls_fail(err, -ENOTSUP, "behavior \"%s\" is not supported",
                  name != NULL ? name : "(none)");
}

static bool joins(const struct cutter *cutter, bool is_match)
{
  if (!cutter->open)
    return false;
  switch (cutter->split->behavior) {
  case LLS_WITH_PREVIOUS:
    return is_match && !cutter->is_match;
  case LLS_WITH_NEXT:
    return !is_match && cutter->is_match;
  case LLS_CONTIGUOUS:
    return is_match == cutter->is_match;
  default:
    return false;
  }
}

static void close_span(struct cutter *cutter)
{
  if (cutter->open && !(cutter->is_match && cutter->split->behavior == LLS_REMOVED))
    lls_pieces_append(cutter->out, cutter->begin, cutter->end);
  cutter->open = false;
}

static void add_section(struct cutter *cutter, size_t start, size_t end, bool is_match)
{
  is_match ^= cutter->split->invert;
  if (!joins(cutter, is_match)) {
    close_span(cutter);
    cutter->begin = start;
  }
  cutter->end = end;
  cutter->open = true;
  cutter->is_match = is_match;
}

int lls_split(const struct lls_split *split, struct lls_matcher *matcher,
              const char *text, struct lls_span span, struct lls_pieces *out)
{
  struct cutter cutter = {.split = split, .out = out};
  const char *subject = text + span.start;
  size_t at = 0, gap = 0, start, end;
  while (at <= span.length) {
    int found =
        lls_pattern_find(split->pattern, matcher, subject, span.length, at, &start, &end);
    if (found < 0)
      return found;
    if (found == 0)
      break;
    if (start > gap)
      add_section(&cutter, span.start + gap, span.start + start, false);
    add_section(&cutter, span.start + start, span.start + end, true);
    gap = end;
    at = end > start         ? end
         : end < span.length ? end + lls_utf8_length(subject + end)
                             : end + 1;
  }
  if (gap < span.length)
    add_section(&cutter, span.start + gap, span.start + span.length, false);
  close_span(&cutter);
  return out->failed ? -ENOMEM : 0;
}
