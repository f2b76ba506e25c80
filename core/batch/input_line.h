/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a batch's input: read one by one with bounded memory, and checked. A reader
 * belongs to one thread.
 */
#ifndef LLS_BATCH_INPUT_LINE_H
#define LLS_BATCH_INPUT_LINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/text.h"

/* Reads lines; empty lines are skipped and get no number. */
struct lls_line_reader {
  int fd;
  size_t max_line;
  uint64_t number; /* number of the next line, from 0 */
  int64_t offset;  /* offset of the next line in the file */
  struct lls_text buffer;
  size_t used; /* bytes of the buffer before the next line */
  bool ended;  /* the rest of the file is in the buffer */
};

struct lls_raw_line {
  const char *text; /* the line, in the reader's buffer; valid until the next call */
  size_t length;
  uint64_t number;
  int64_t offset;
};

/* Returns 1 with a line; 0 at the end of the file; -E2BIG for a line of more than
 * max_line bytes, after which reading ends; or another negative errno. */
int lls_line_reader_next(struct lls_line_reader *reader, struct lls_raw_line *out);
void lls_line_reader_free(struct lls_line_reader *reader);

/* An error of a line, with the members of OpenAI's batch errors. */
struct lls_line_error {
  const char *code;  /* static */
  const char *param; /* static, or NULL */
  char message[200];
};

/* A line that can be run; the texts belong to `object`. */
struct lls_input_line {
  json_t *object; /* the caller releases it */
  const char *custom_id;
  const json_t *body;
};

/* Parses a line. Returns 0, or -EINVAL with *why and nothing to release. `model` is the
 * model that the body may name; NULL: any. */
int lls_input_line_parse(const char *text, size_t length, const char *endpoint,
                         const char *model, struct lls_input_line *out,
                         struct lls_line_error *error);

#endif
