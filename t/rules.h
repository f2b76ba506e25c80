/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for cutting, mixing and interrupting steps, all of which must give the same
 * logits. */
#ifndef LLS_T_RULES_H
#define LLS_T_RULES_H

#include "t/drive.h"

#define TOLERANCE 1e-4
#define WHOLE     DRIVE_MAX_TOKENS

struct rule_case {
  const char *what;
  struct drive_rule rule;
};

static const struct rule_case rule_cases[] = {
    {"whole prompts, one at a time", {.chunk = WHOLE, .stagger = 70}},
    {"whole prompts together", {.chunk = WHOLE}},
    {"prefills beside decodes", {.chunk = WHOLE, .stagger = 7}},
    {"token by token", {.chunk = 1}},
    {"chunks of 3", {.chunk = 3, .stagger = 2}},
    {"chunks of 16", {.chunk = 16, .stagger = 1}},
    {"chunks of 17", {.chunk = 17, .stagger = 3}},
    {"dropped and computed again", {.chunk = WHOLE, .preempt = 5}},
    {"dropped and computed again in chunks", {.chunk = 13, .stagger = 4, .preempt = 11}},
    {"swapped out and in", {.chunk = 16, .stagger = 2, .preempt = 4, .swap = true}},
};

static const struct rule_case rule_left[] = {
    {"blocks filled from both sides", {.chunk = 17, .stagger = 3, .reversed = true}},
};

/* Sequences in hidden form, mixed with KV form in one batch, and changing from one to
 * the other. */
static const struct rule_case rule_hidden[] = {
    {"hidden, whole prompts", {.chunk = WHOLE, .hidden = true}},
    {"hidden, token by token", {.chunk = 1, .hidden = true}},
    {"hidden, chunks of 13", {.chunk = 13, .stagger = 2, .hidden = true}},
    {"hidden, dropped", {.chunk = 16, .stagger = 2, .preempt = 5, .hidden = true}},
    {"hidden, to KV", {.chunk = 16, .stagger = 3, .hidden = true, .convert = 4}},
    {"hidden, to KV, reversed",
     {.chunk = 7, .stagger = 1, .hidden = true, .convert = 7, .reversed = true}},
};

/* Returns the worst error of a logit. */
static inline double rule_check(const struct drive_model *m, const char *model,
                                const struct rule_case *c)
{
  struct drive_outcome o = drive_run(m, &c->rule);
  if (!(o.worst_absolute <= TOLERANCE) || o.wrong_tokens > 0)
    fail_msg("%s, %s: worst logit error %g, %u wrong tokens", model, c->what,
             o.worst_absolute, o.wrong_tokens);
  return o.worst_absolute;
}

static inline void rule_check_all(const char *model, const struct drive_options *options)
{
  struct drive_model m = {0};
  double worst = 0;
  drive_open(&m, model, options);
  for (size_t i = 0; i < sizeof rule_cases / sizeof rule_cases[0]; i += TAP_STEP(3))
    worst = fmax(worst, rule_check(&m, model, &rule_cases[i]));
  worst = fmax(worst, rule_check(&m, model, &rule_left[0]));
  bool offered = lls_engine_why_no_hidden(m.engine) == NULL;
  for (size_t i = 0; offered && i < sizeof rule_hidden / sizeof rule_hidden[0];
       i += TAP_STEP(3))
    worst = fmax(worst, rule_check(&m, model, &rule_hidden[i]));
  assert_int_equal(offered, (lls_engine_caps(m.engine)->forms & LLS_BIT_HIDDEN) != 0);
  print_message("# %s: worst error of a logit %.2g%s\n", model, worst,
                offered ? ", hidden form too" : "");
  drive_close(&m);
}

#endif
