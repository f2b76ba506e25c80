/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a template. White space around tags is settled here, as Jinja does with
 * trim_blocks and lstrip_blocks, the settings chat templates are written for: the newline
 * after a tag goes, so does the indentation before one, and a - takes all there is.
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
  LLS_TOKEN_STRING, /* with its quotes */
  LLS_TOKEN_INTEGER,
  LLS_TOKEN_FLOAT,
  LLS_TOKEN_OPERATOR,
};

struct lls_word {
  enum lls_token_kind kind;
  size_t start; /* in the source */
  size_t length;
};

struct lls_words {
  struct lls_word *words; /* (count) the last is LLS_TOKEN_END */
  size_t count;
  size_t capacity;
};

/* Cuts source into words; source ends where its last newline, if any, begins. */
int lls_lex(const char *source, size_t length, struct lls_words *out,
            struct lls_error *err);

/* Writes "line L, column C" of a place in source. */
void lls_place(const char *source, size_t offset, char out[static 48]);

#endif
