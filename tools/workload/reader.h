/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers turn a file into rows, which are items with the values that the file has:
 * lengths and possibly times, class, SLOs, texts or ids. An error in a file is reported
 * with file and line, or with file and entry for a JSON list.
 */
#ifndef LLS_WORKLOAD_READER_H
#define LLS_WORKLOAD_READER_H

#include <jansson.h>
#include <stdio.h>

#include "core/model/model_text.h"
#include "tools/workload/arena.h"
#include "tools/workload/names.h"
#include "tools/workload/workload.h"

#define LLS_ROWS_MAX   (1u << 24) /* most rows of a file */
#define LLS_LENGTH_MAX (1u << 24) /* most tokens of a prompt or an answer */
/* Upper bound of a trace's arrivals and deadlines: 400 days, so that sums of them do
 * not overflow. */
#define LLS_TRACE_MAX_NS (INT64_C(400) * 86400 * LLS_NS_PER_S)

struct lls_rows {
  struct lls_item *items; /* (n) */
  uint32_t n, capacity;
  uint32_t n_tenants;
  struct lls_names sessions;
  bool timed; /* every row has its arrival_ns */
  /* times are multiples of it: jitter spreads such batches; 0: times are exact */
  int64_t grain_ns;
  struct lls_arena *arena;
  const struct lls_tokenizer *tokenizer; /* NULL: none was given */
};

/* The tokens of a turn's prompt that its reader knows. */
enum lls_growth {
  LLS_GROWTH_WHOLE, /* all; those of the turn before are kept as far as they fit */
  LLS_GROWTH_KEPT,  /* all, and kept_tokens */
  LLS_GROWTH_ADDED, /* those that the turn adds to all of the turn before */
};

/* Adds a zeroed row without SLOs, time and turns before and after it; returns NULL if
 * out of memory. */
struct lls_item *lls_rows_add(struct lls_rows *);
void lls_rows_free(struct lls_rows *); /* frees the rows, but not the arena */

/* The place of an error. */
struct lls_place {
  const char *file;
  unsigned line;
};
int lls_bad(const struct lls_place *, struct lls_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Makes the row a turn of the session with this name; "": of none. -EINVAL: a name that
 * our own format can't hold. */
int lls_row_session(const struct lls_place *, struct lls_rows *, struct lls_item *,
                    const char *name, size_t length, struct lls_error *);
/* Sets the tool that runs after the row; "": none. */
int lls_row_tool(const struct lls_place *, struct lls_rows *, struct lls_item *,
                 const char *name, size_t length, struct lls_error *);

/* Reads a file. The format is a name ("azure", ...) or, with "auto", guessed from its
 * beginning. */
int lls_read(const char *format, const char *path, struct lls_rows *, struct lls_error *);
/* The names of all formats: "a|b|c". */
extern const char lls_read_formats[];

int lls_read_csv(const char *format, const char *path, struct lls_rows *,
                 struct lls_error *);
int lls_read_jsonl(const char *format, const char *path, struct lls_rows *,
                   struct lls_error *);
int lls_read_recorded(const char *format, const char *path, struct lls_rows *,
                      struct lls_error *);
int lls_read_chats(const char *format, const char *path, struct lls_rows *,
                   struct lls_error *);

/* Reads one column of numbers of a CSV file, for length distributions; *values is
 * malloc'ed. */
int lls_read_column(const char *path, const char *column, uint32_t **values, size_t *n,
                    struct lls_error *);

/* Sets text, ids and prompt_tokens of a row, using the tokeniser. */
int lls_row_text(struct lls_rows *, struct lls_item *, const char *text, size_t length,
                 struct lls_error *);
/* Returns the number of tokens of a text. */
int lls_text_tokens(const struct lls_rows *, const char *text, size_t length,
                    uint32_t *tokens, struct lls_error *);

#endif
