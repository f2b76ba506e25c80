/* SPDX-License-Identifier: Apache-2.0 */
/* The budget of a thought, on answers whose tokens are letters. */
#include "t/tap.h"

#include <string.h>

#include "core/instance/thought.h"

/* The answer that a model writes which would say `drawn`, with forced tokens in place of
 * those that it drew. With `forgets` the state is lost after each token. */
static const char *said(const char *open, const char *close, uint32_t budget,
                        const char *drawn, bool forgets)
{
  static char text[64];
  int32_t answer[64];
  struct lls_thought_state s = {.thought = {.limited = true, .budget = budget}};
  struct lls_thought *t = &s.thought;
  for (; open[t->n_open] != '\0'; t->n_open++)
    t->open[t->n_open] = open[t->n_open];
  for (; close[t->n_close] != '\0'; t->n_close++)
    t->close[t->n_close] = close[t->n_close];
  memset(text, 0, sizeof text);
  for (uint32_t n = 0; drawn[n] != '\0'; n++) {
    int32_t forced = lls_thought_next(&s, answer, n);
    answer[n] = forced >= 0 ? forced : drawn[n];
    text[n] = (char)answer[n];
    if (forgets)
      s = (struct lls_thought_state){.thought = s.thought};
  }
  return text;
}

static void test_budget(void **state)
{
  (void)state;
  for (int forgets = 0; forgets < 2; forgets++) {
    assert_string_equal(said("", ">", 3, "aaaaaabb", forgets), "aaa>aabb");
    assert_string_equal(said("", "/>", 3, "aaaaaabb", forgets), "aaa/>abb");
    assert_string_equal(said("", ">", 3, "a>aaaabb", forgets), "a>aaaabb");
    assert_string_equal(said("", ">", 3, "aaa>aabb", forgets), "aaa>aabb");
    assert_string_equal(said("", ">", 0, "aaa", forgets), ">aa");
    assert_string_equal(said("<", ">", 2, "<aaaabb", forgets), "<aa>abb");
    assert_string_equal(said("<t", "</t", 2, "\n<taaaaabb", forgets), "\n<taa</tbb");
    /* half of the mark by itself, at the end of the budget */
    assert_string_equal(said("", "/>", 3, "aa/bbb", forgets), "aa/>bb");
  }
}

static void test_no_thought(void **state)
{
  static const char late[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa<aaaaaa";
  (void)state;
  for (int forgets = 0; forgets < 2; forgets++) {
    assert_string_equal(said("<", ">", 2, "aaaaaa", forgets), "aaaaaa");
    assert_string_equal(said("<", ">", 2, late, forgets), late);
  }
  struct lls_thought_state none = {0};
  assert_int_equal(lls_thought_next(&none, (const int32_t[]){1}, 1), -1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_budget),
      cmocka_unit_test(test_no_thought),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
