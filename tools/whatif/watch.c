/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --watch: asks repeatedly. A candidate that was best three times in a row is reported,
 * once: one good quarter of an hour is no reason for a change. See question.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "tools/whatif/question.h"

#define IN_A_ROW 3

struct streak {
  char *best; /* best candidate of the last answer; NULL: none */
  unsigned length;
};

/* Counts an answer. Returns true when the streak has just become long enough. */
static bool lengthen(struct streak *s, const char *best)
{
  bool same = best != NULL && s->best != NULL && strcmp(best, s->best) == 0;
  if (!same) {
    free(s->best);
    s->best = best != NULL ? strdup(best) : NULL;
    s->length = 0;
  }
  s->length += s->best != NULL;
  return s->length == IN_A_ROW;
}

static void notify(const struct whatif_options *o, const struct answered *a)
{
  printf("%d times in a row: %s\n", IN_A_ROW, a->sentence);
  if (o->notify)
    syslog(LOG_NOTICE, "%d times in a row: %s", IN_A_ROW, a->sentence);
}

static void wait_for(int64_t ns)
{
  const int64_t s = 1000000000;
  struct timespec left = {.tv_sec = ns / s, .tv_nsec = ns % s};
  while (nanosleep(&left, &left) < 0)
    continue;
}

int question_watch(const struct whatif_options *o, const struct lls_candidates *all,
                   struct lls_error *err)
{
  struct streak streak = {0};
  openlog("llmserve-whatif", LOG_PID, LOG_DAEMON);
  for (;; wait_for(o->watch)) {
    struct answered a;
    int rc = question_ask(o, all, &a, err);
    if (rc < 0)
      fprintf(stderr, "llmserve-whatif: %s\n", lls_error_text(err, rc));
    else if (lengthen(&streak, a.best))
      notify(o, &a);
    answered_free(&a);
    fflush(stdout);
    *err = (struct lls_error){0};
  }
}
