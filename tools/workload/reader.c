/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the reader that a file needs, by the name of its format or by its first bytes. */
#include "tools/workload/reader.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

const char lls_read_formats[] =
    "auto|csv|azure|burstgpt|servegen|distserve|lengths|tracelab|mooncake|timed_trace|"
    "rounds|llmservingsim|custom|spec_bench|sharegpt|lmbench|alpaca|decisions";

typedef int (*read_file)(const char *format, const char *path, struct lls_rows *,
                         struct lls_error *);

/* Guesses the format from the beginning of the file: a JSON list of chats, lines of
 * JSON objects, a decision log, or a table. */
static int guess(const char *path, read_file *out, struct lls_error *err)
{
  FILE *file = fopen(path, "r");
  int c, next;
  if (file == NULL)
    return lls_fail(err, -errno, "%s: cannot be read: %s", path, strerror(errno));
  do
    c = fgetc(file);
  while (c != EOF && isspace(c));
  next = fgetc(file);
  fclose(file);
  *out = c == '['                  ? lls_read_chats
         : c == '{'                ? lls_read_jsonl
         : c == 'H' && next == ' ' ? lls_read_recorded
                                   : lls_read_csv;
  return 0;
}

static read_file reader_of(const char *format)
{
  static const struct {
    const char *format;
    read_file reader;
  } readers[] = {
      {"mooncake", lls_read_jsonl},     {"timed_trace", lls_read_jsonl},
      {"custom", lls_read_jsonl},       {"llmservingsim", lls_read_jsonl},
      {"spec_bench", lls_read_jsonl},   {"lmbench", lls_read_chats},
      {"alpaca", lls_read_chats},       {"sharegpt", lls_read_chats},
      {"decisions", lls_read_recorded}, {"rounds", lls_read_jsonl},
  };
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
    if (strcmp(format, readers[i].format) == 0)
      return readers[i].reader;
  return lls_read_csv;
}

int lls_read(const char *format, const char *path, struct lls_rows *rows,
             struct lls_error *err)
{
  read_file reader = reader_of(format);
  if (strcmp(format, "auto") == 0) {
    int rc = guess(path, &reader, err);
    if (rc < 0)
      return rc;
  }
  int rc = reader(format, path, rows, err);
  if (rc == 0 && rows->n == 0)
    return lls_fail(err, -EINVAL, "%s: has no requests", path);
  return rc;
}
