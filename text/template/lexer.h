/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts a template into words. It also removes white space around tags like Jinja with
 * trim_blocks and lstrip_blocks, the settings for which chat templates are written: the
 * newline after a tag and the indentation before it are removed; a - removes all white
 * space on its side.
 */
#ifndef LLS_TEMPLATE_LEXER_H
#define LLS_TEMPLATE_LEXER_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum lls_token_kind {
  LLS_TOKEN_END,
  LLS_TOKEN_TEXT,          /* between tags */
  LLS_TOKEN_PRINT,         /* {{ */
  LLS_TOKEN_PRINT_END,     /* }} */
  LLS_TOKEN_STATEMENT,     /* {% */
  LLS_TOKEN_STATEMENT_END, /* %} */
  LLS_TOKEN_NAME,
  LLS_TOKEN_STRING, /* a string with its quotes */
  LLS_TOKEN_INTEGER,
  LLS_TOKEN_FLOAT,
  LLS_TOKEN_OPERATOR,
};

struct lls_word {
  enum lls_token_kind kind;
  size_t start; /* offset in the source */
  size_t length;
};

struct lls_words {
  struct lls_word *words; /* (count) the last is LLS_TOKEN_END */
  size_t count;
  size_t capacity;
};

/* Cuts source into words. The source's last newline, if any, is ignored. */
int lls_lex(const char *source, size_t length, struct lls_words *out,
            struct lls_error *err);

/* Writes a source position as "line L, column C". */
void lls_place(const char *source, size_t offset, char out[static 48]);

#endif
