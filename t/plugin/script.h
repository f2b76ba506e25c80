/* SPDX-License-Identifier: Apache-2.0 */
/* Worked examples step by step: requests of given lengths, and expected plans as
 * text. */
#ifndef LLS_T_SCRIPT_H
#define LLS_T_SCRIPT_H

#include "t/plugin/bed.h"

#include <string.h>

/* Submits a request of random tokens that will generate `output` tokens. */
static inline struct lls_live *submit(struct bed *bed, uint32_t length, uint32_t output)
{
  int32_t tokens[2048];
  assert_in_range(length, 1, 2048);
  for (uint32_t i = 0; i < length; i++)
    tokens[i] = (int32_t)(dice_next(&bed->dice) % BED_VOCABULARY);
  return bed_submit(bed, tokens, length, output);
}

/* Runs one step and expects its plan, in the notation of bed_plan_text. */
static inline void expect_plan(struct bed *bed, const char *expected)
{
  char text[4096];
  bed_step(bed);
  assert_string_equal(bed_plan_text(bed, text, sizeof text), expected);
}

/* Returns how many tokens of a request, by its number, the last plan runs. */
static inline uint32_t planned(const struct bed *bed, uint32_t number)
{
  for (uint32_t i = 0; i < bed->plan.n_items; i++)
    if (bed->plan.items[i].kind == LLS_PLAN_RUN &&
        bed_number(bed, bed->plan.items[i].request) == number)
      return bed->plan.items[i].tokens;
  return 0;
}

/* The common example of Sarathi-Serve and FastGen: with 512 tokens a step, 40 decodes
 * leave 472 tokens to prompts of 1200 and 300, in their order. */
static inline void expect_cut_prompts(const struct bed_options *o)
{
  static const uint32_t expected[][2] = {{472, 0}, {472, 0}, {256, 216}, {1, 84}, {1, 1}};
  struct bed bed;
  assert_int_equal(bed_open(&bed, o), 0);
  for (int i = 0; i < 40; i++)
    submit(&bed, 1, 100);
  assert_int_equal(bed_step(&bed), 40);
  submit(&bed, 1200, 20);
  submit(&bed, 300, 20);
  for (int i = 0; i < 5; i++) {
    bed_step(&bed);
    assert_int_equal(planned(&bed, 40), expected[i][0]);
    assert_int_equal(planned(&bed, 41), expected[i][1]);
    for (uint32_t number = 0; number < 40; number++)
      assert_int_equal(planned(&bed, number), 1);
  }
  bed_finish(&bed, 200);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 42);
  bed_close(&bed);
}

/* Is the line in the scheduler's dump? */
static inline bool dumps(struct bed *bed, const char *line)
{
  char wanted[256];
  snprintf(wanted, sizeof wanted, "\n%s\n", line);
  bed_dump(bed);
  return strstr(bed->text, wanted) != NULL;
}

#endif
