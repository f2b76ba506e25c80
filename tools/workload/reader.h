/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers: from a file to rows, which are items with what the file says of them: lengths,
 * and where it has them times, class, SLOs, texts or ids. Whatever a file is wrong about
 * is an error with file and line, or with file and entry where it is one JSON list.
 */
#ifndef LLS_WORKLOAD_READER_H
#define LLS_WORKLOAD_READER_H

#include <jansson.h>
#include <stdio.h>

#include "core/model/model_text.h"
#include "tools/workload/arena.h"
#include "tools/workload/workload.h"

#define LLS_ROWS_MAX   (1u << 24) /* of one file */
#define LLS_LENGTH_MAX (1u << 24) /* tokens of one prompt or one answer */
/* Arrivals and deadlines of a trace: 400 days, so that sums of them are no overflow. */
#define LLS_TRACE_MAX_NS (INT64_C(400) * 86400 * LLS_NS_PER_S)

struct lls_rows {
  struct lls_item *items; /* (n) */
  uint32_t n, capacity;
  uint32_t n_tenants;
  bool timed;       /* every row has its arrival_ns */
  int64_t grain_ns; /* times are multiples of it: batches that jitter spreads; 0: exact */
  struct lls_arena *arena;
  const struct lls_tokenizer *tokenizer; /* NULL: none was given */
};

/* A zeroed row with no SLOs and no time; NULL where there is no memory. */
struct lls_item *lls_rows_add(struct lls_rows *);
void lls_rows_free(struct lls_rows *); /* not the arena */

/* Where an error is. */
struct lls_place {
  const char *file;
  unsigned line;
};
int lls_bad(const struct lls_place *, struct lls_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A file's format by its name ("azure", ...) or, for "auto", by how it begins. */
int lls_read(const char *format, const char *path, struct lls_rows *, struct lls_error *);
/* The names, "a|b|c". */
extern const char lls_read_formats[];

int lls_read_csv(const char *format, const char *path, struct lls_rows *,
                 struct lls_error *);
int lls_read_jsonl(const char *format, const char *path, struct lls_rows *,
                   struct lls_error *);
int lls_read_recorded(const char *format, const char *path, struct lls_rows *,
                      struct lls_error *);
int lls_read_chats(const char *format, const char *path, struct lls_rows *,
                   struct lls_error *);

/* One column of numbers of a CSV file, for length distributions; malloc'ed. */
int lls_read_column(const char *path, const char *column, uint32_t **values, size_t *n,
                    struct lls_error *);

/* Sets text, ids and prompt_tokens of a row by the tokeniser. */
int lls_row_text(struct lls_rows *, struct lls_item *, const char *text, size_t length,
                 struct lls_error *);
/* Tokens of a text. */
int lls_text_tokens(const struct lls_rows *, const char *text, size_t length,
                    uint32_t *tokens, struct lls_error *);

#endif
