/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a batch's input: read one by one with bounded memory, and what each must have
 * to be run. Everything is of one thread.
 */
#ifndef LLS_BATCH_INPUT_LINE_H
#define LLS_BATCH_INPUT_LINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/text.h"

/* Empty lines are passed over, and have no number. */
struct lls_line_reader {
  int fd;
  size_t max_line;
  uint64_t number; /* of the next line, from 0 */
  int64_t offset;  /* where it begins */
  struct lls_text buffer;
  size_t used; /* of the buffer, before the next line */
  bool ended;  /* the file has no more than the buffer */
};

struct lls_raw_line {
  const char *text; /* in the reader's buffer; valid until the next one */
  size_t length;
  uint64_t number;
  int64_t offset;
};

/* 1: a line; 0: no more; -E2BIG: one of more than max_line bytes, where reading ends;
 * another negative errno. */
int lls_line_reader_next(struct lls_line_reader *reader, struct lls_raw_line *out);
void lls_line_reader_free(struct lls_line_reader *reader);

/* An error of a line, as OpenAI's errors of a batch have it. */
struct lls_line_error {
  const char *code;  /* static */
  const char *param; /* static, or NULL */
  char message[200];
};

/* A line that can be run; the texts are in `object`. */
struct lls_input_line {
  json_t *object; /* the caller releases it */
  const char *custom_id;
  const json_t *body;
};

/* 0, or -EINVAL and what is wrong, with nothing to release. model: that the body may
 * name; NULL: any. */
int lls_input_line_parse(const char *text, size_t length, const char *endpoint,
                         const char *model, struct lls_input_line *out,
                         struct lls_line_error *error);

#endif
