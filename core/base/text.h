/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growable text for replies, headers and metrics. A zeroed struct is empty text.
 *
 * An append that runs out of memory sets `failed` and adds nothing, so that a writer
 * appends freely and checks `failed` once, at the end.
 */
#ifndef LLS_BASE_TEXT_H
#define LLS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct lls_text {
  char *data; /* (length), followed by a NUL after the first append */
  size_t length, capacity;
  bool failed;
};

void lls_text_append(struct lls_text *text, const void *data, size_t length);
void lls_text_puts(struct lls_text *text, const char *string);
void lls_text_printf(struct lls_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Makes room for `more` bytes. Returns false without memory. */
bool lls_text_reserve(struct lls_text *text, size_t more);
/* Drops the first `count` bytes. */
void lls_text_consume(struct lls_text *text, size_t count);
/* Empties the text and keeps its memory. */
void lls_text_clear(struct lls_text *text);
/* Empties the text and frees its memory. */
void lls_text_free(struct lls_text *text);

#endif
