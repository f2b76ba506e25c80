/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget of a rendering. A template is a program from an untrusted source, applied
 * to a client's messages: its work, memory, output and nesting are bounded.
 *
 * All values made during a rendering come from one arena, which is freed at its end. An
 * allocation charges its size in memory and in work, so nothing can be made for free;
 * work for data that is only read is charged by the reader.
 */
#ifndef LLS_TEMPLATE_BUDGET_H
#define LLS_TEMPLATE_BUDGET_H

#include "text/template/value.h"

/*
 * The unit of work is a visited node or value, or 64 bytes of text read or made. A chat
 * of 1,000 messages takes about 50,000 with the template of Llama-3.1.
 */
#define LLS_WORK_MAX             5000000
#define LLS_WORK_OF_TEXT(length) ((size_t)(length) / 64)
#define LLS_MEMORY_MAX           (256 << 20) /* bytes of values */
#define LLS_OUTPUT_MAX           (64 << 20)  /* bytes of text, or of one string */
/* Nested expressions and statements, calls of macros included. */
#define LLS_RENDER_DEPTH 1000

struct lls_budget {
  uint64_t work;
  size_t memory;
  unsigned depth;
  struct lls_chunk *chunk; /* the arena's chunks, the newest first */
};

/* Charges work. Returns false, and fails the rendering, if the limit is reached. */
bool lls_render_charge(struct lls_render *render, const struct lls_node *node,
                       size_t work);
/* Enters one more level of nesting; lls_render_leave leaves it. Returns false, and
 * fails the rendering, if the nesting is too deep. */
bool lls_render_enter(struct lls_render *render, const struct lls_node *node);
void lls_render_leave(struct lls_render *render);

/* Returns uninitialised memory that lives until the end of the rendering; NULL, and a
 * failure, if there is none. */
void *lls_render_alloc(struct lls_render *render, size_t size);
/* Returns a copy of text as a string; after a failure an empty string, like every
 * function that makes strings. */
struct lls_value lls_render_string(struct lls_render *render, const char *text,
                                   size_t length);
/* Returns left followed by right; works in place if left is the newest string of the
 * arena. */
struct lls_value lls_render_join(struct lls_render *render, struct lls_value left,
                                 struct lls_value right);
void lls_budget_free(struct lls_budget *budget);

/* A text that grows in the arena. It is empty if all members except render are zero. */
struct lls_builder {
  struct lls_render *render;
  char *data; /* (length) */
  size_t length;
  size_t capacity;
};

void lls_builder_put(struct lls_builder *builder, const char *text, size_t length);
void lls_builder_puts(struct lls_builder *builder, const char *text);
void lls_builder_put_value(struct lls_builder *builder, struct lls_value string);
void lls_builder_put_char(struct lls_builder *builder, int32_t codepoint);
void lls_builder_repeat(struct lls_builder *builder, const char *text, size_t length,
                        size_t count);
/* Returns the text as a string; the builder must not be used any more. */
struct lls_value lls_builder_end(struct lls_builder *builder);

#endif
