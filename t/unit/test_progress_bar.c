/* SPDX-License-Identifier: Apache-2.0 */
/* Long work shows its progress at the right times; the test sets the clock back instead
 * of waiting. */
#include "t/tap.h"

#include "core/base/progress_bar.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define S 1000000000ll

static void take(void *context, const char *text)
{
  snprintf(context, 200, "%s", text);
}

/* A progress bar that began, and was last shown, `seconds` ago. */
static struct lls_progress begun(double seconds, bool terminal, char *line)
{
  struct lls_progress p;
  lls_progress_begin(&p, true, "test");
  p.terminal = terminal;
  p.line = take;
  p.context = line;
  p.began_ns -= (int64_t)(seconds * S);
  p.shown_ns = p.began_ns;
  return p;
}

/* Returns the text written to stderr. */
static const char *drawn(struct lls_progress *p, size_t n, size_t total)
{
  static char text[400];
  FILE *file = tmpfile();
  int before = dup(STDERR_FILENO);
  fflush(stderr);
  dup2(fileno(file), STDERR_FILENO);
  lls_progress_count(p, n, total, "things", NULL);
  fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  rewind(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return text;
}

static void test_a_line_every_ten_seconds(void **state)
{
  char line[200] = "";
  (void)state;
  struct lls_progress p = begun(9, false, line);
  lls_progress_count(&p, 1, 10, "things", NULL);
  assert_string_equal(line, "");
  p = begun(40, false, line);
  lls_progress_count(&p, 2000, 10000, "things", "so far good");
  assert_string_equal(line, "20 %, 2000 of 10000 things, 50/s, 3 min left, so far good");
  line[0] = '\0';
  lls_progress_count(&p, 2001, 10000, "things", NULL);
  assert_string_equal(line, "");
}

static void test_a_total_that_is_not_known(void **state)
{
  char line[200];
  (void)state;
  struct lls_progress p = begun(20, false, line);
  const struct lls_progress_state s = {.share = 0.5, .n = 30, .unit = "steps"};
  lls_progress_show(&p, &s);
  assert_string_equal(line, "50 %, 30 steps, 1.5/s, 20 s left");
}

static void test_a_bar_on_a_terminal(void **state)
{
  (void)state;
  struct lls_progress p = begun(10, true, NULL);
  assert_string_equal(drawn(&p, 1, 4),
                      "\r[======                  ] 25 %, 1 of 4 things, 0.1/s, 30 s "
                      "left\033[K");
  assert_string_equal(drawn(&p, 2, 4), "");
}

static void test_nothing_where_it_is_not_wanted(void **state)
{
  (void)state;
  struct lls_progress p = begun(60, true, NULL);
  p.on = false;
  assert_string_equal(drawn(&p, 1, 4), "");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_line_every_ten_seconds),
      cmocka_unit_test(test_a_total_that_is_not_known),
      cmocka_unit_test(test_a_bar_on_a_terminal),
      cmocka_unit_test(test_nothing_where_it_is_not_wanted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
