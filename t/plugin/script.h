/* SPDX-License-Identifier: Apache-2.0 */
/* A worked example step by step: requests of given lengths, plans as text. */
#ifndef LLS_T_SCRIPT_H
#define LLS_T_SCRIPT_H

#include "t/plugin/fake.h"

#include <string.h>

/* A request of random tokens that will say `output` tokens. */
static inline struct fake_request *submit(struct fake *f, uint32_t length,
                                          uint32_t output)
{
  int32_t tokens[2048];
  assert_in_range(length, 1, 2048);
  for (uint32_t i = 0; i < length; i++)
    tokens[i] = (int32_t)(fake_random(f) % FAKE_VOCABULARY);
  return fake_submit(f, tokens, length, output);
}

/* One step, whose plan is `expected`, see fake_plan_text. */
static inline void expect_plan(struct fake *f, const char *expected)
{
  char text[4096];
  fake_step(f);
  assert_string_equal(fake_plan_text(f, text, sizeof text), expected);
}

/* Tokens that the last plan runs of a request. */
static inline uint32_t planned(const struct fake *f, uint64_t id)
{
  for (uint32_t i = 0; i < f->plan.n_items; i++)
    if (f->plan.items[i].kind == LLS_PLAN_RUN && f->plan.items[i].request == id)
      return f->plan.items[i].tokens;
  return 0;
}

/* The example of Sarathi-Serve and FastGen alike: with 512 tokens a step, 40 decodes and
 * prompts of 1200 and 300 leave 472 a step to the prompts, in their order. */
static inline void expect_cut_prompts(const struct fake_options *o)
{
  static const uint32_t expected[][2] = {{472, 0}, {472, 0}, {256, 216}, {1, 84}, {1, 1}};
  struct fake f;
  assert_int_equal(fake_open(&f, o), 0);
  for (int i = 0; i < 40; i++)
    submit(&f, 1, 100);
  assert_int_equal(fake_step(&f), 40);
  submit(&f, 1200, 20);
  submit(&f, 300, 20);
  for (int i = 0; i < 5; i++) {
    fake_step(&f);
    assert_int_equal(planned(&f, 40), expected[i][0]);
    assert_int_equal(planned(&f, 41), expected[i][1]);
    for (uint64_t id = 0; id < 40; id++)
      assert_int_equal(planned(&f, id), 1);
  }
  fake_finish(&f, 200);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 42);
  fake_close(&f);
}

/* Is the line in what the scheduler dumps? */
static inline bool dumps(struct fake *f, const char *line)
{
  char wanted[256];
  snprintf(wanted, sizeof wanted, "\n%s\n", line);
  fake_dump(f);
  return strstr(f->text, wanted) != NULL;
}

#endif
