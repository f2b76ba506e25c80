/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines as the journal reads them. */
#include "t/tap.h"

#include "core/obs/journal.h"
#include "core/obs/log.h"
#include "core/obs/log_sink.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void assert_sent(int from, const char *expected)
{
  char text[8192];
  ssize_t n = recv(from, text, sizeof text - 1, MSG_DONTWAIT);
  assert_true(n >= 0);
  text[n] = '\0';
  assert_string_equal(text, expected);
}

static void test_a_line_has_fields(void **state)
{
  (void)state;
  int ends[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
  struct lls_log log = {.fd = ends[0], .level = LLS_LOG_INFO, .format = LLS_LOG_JOURNAL};
  lls_log(&log, LLS_LOG_INFO, "reload", "generation %d", 2);
  assert_sent(ends[1], "SYSLOG_IDENTIFIER=llmserve\nPRIORITY=6\nLLMSERVE_WHERE=reload\n"
                       "MESSAGE=reload: generation 2\n");
  lls_log(&log, LLS_LOG_PLUGIN_MISBEHAVING, "scheduler x", "two\nlines=3");
  assert_sent(ends[1], "SYSLOG_IDENTIFIER=llmserve\nPRIORITY=4\n"
                       "LLMSERVE_WHERE=scheduler x\nMESSAGE=scheduler x: two lines=3\n");
  close(ends[0]);
  close(ends[1]);
}

/* Reads lines until there are no more, and checks that they are whole and numbered in
 * order; returns how many. */
static uint64_t take_lines(int from, uint64_t *next)
{
  char text[8192];
  uint64_t count = 0;
  ssize_t n;
  while ((n = recv(from, text, sizeof text - 1, MSG_DONTWAIT)) > 0) {
    unsigned long long number;
    text[n] = '\0';
    const char *message = strstr(text, "MESSAGE=");
    assert_non_null(message);
    if (sscanf(message, "MESSAGE=log: %llu lines are missing", &number) == 1) {
      *next += number;
      continue;
    }
    assert_int_equal(sscanf(message, "MESSAGE=test: line %llu\n", &number), 1);
    assert_true(number >= *next);
    *next = number + 1;
    count++;
  }
  return count;
}

/* A journal that accepts nothing for a while: no thread waits, and lost lines are
 * counted. */
static void test_a_journal_that_hangs(void **state)
{
  (void)state;
  enum { LINES = 100000 };
  int ends[2];
  uint64_t next = 0;
  assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
  struct lls_log log = {.fd = ends[0],
                        .sink = lls_log_sink_create(ends[0]),
                        .level = LLS_LOG_INFO,
                        .format = LLS_LOG_JOURNAL};
  for (unsigned i = 0; i < LINES; i++)
    lls_log(&log, LLS_LOG_INFO, "test", "line %u", i);
  uint64_t came = 0, more;
  while ((more = take_lines(ends[1], &next)) > 0) {
    came += more;
    lls_log_flush(&log);
  }
  assert_true(came > 0 && came < LINES);
  assert_int_equal(next, LINES); /* including those reported as lost */
  lls_log_sink_destroy(log.sink, 0);
  close(ends[0]);
  close(ends[1]);
}

static void test_other_streams_are_no_journal(void **state)
{
  (void)state;
  char stream[64];
  struct stat st;
  unsetenv("JOURNAL_STREAM");
  assert_int_equal(lls_journal_open(2), -1);
  assert_int_equal(fstat(2, &st), 0);
  snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
           (unsigned long long)st.st_ino + 1);
  setenv("JOURNAL_STREAM", stream, 1);
  assert_int_equal(lls_journal_open(2), -1);
  setenv("JOURNAL_STREAM", "nonsense", 1);
  assert_int_equal(lls_journal_open(2), -1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_line_has_fields),
      cmocka_unit_test(test_a_journal_that_hangs),
      cmocka_unit_test(test_other_streams_are_no_journal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
