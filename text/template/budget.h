/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget of a rendering. A template is a stranger's program, applied to what a client
 * sent: its work, its memory, its output and its nesting are bounded.
 *
 * All that is made while rendering comes from one arena, which is freed at the end. An
 * allocation charges its size in memory and in work, so that nothing can be made for
 * free; what is only read is charged by its reader.
 */
#ifndef LLS_TEMPLATE_BUDGET_H
#define LLS_TEMPLATE_BUDGET_H

#include "text/template/value.h"

/*
 * Work is counted in visited nodes and values, and in bytes of text that are read or
 * made, 64 to a unit. A chat of 1,000 messages takes about 50,000 with the template of
 * Llama-3.1.
 */
#define LLS_WORK_MAX             5000000
#define LLS_WORK_OF_TEXT(length) ((size_t)(length) / 64)
#define LLS_MEMORY_MAX           (256 << 20) /* bytes of values */
#define LLS_OUTPUT_MAX           (64 << 20)  /* bytes of text, or of one string */
/* Expressions and statements inside each other, calls of macros included. */
#define LLS_RENDER_DEPTH 1000

struct lls_budget {
  uint64_t work;
  size_t memory;
  unsigned depth;
  struct lls_chunk *chunk; /* of the arena, the latest first */
};

/* Counts work; false, and a failure, when the limit is reached. */
bool lls_render_charge(struct lls_render *render, const struct lls_node *node,
                       size_t work);
/* One level deeper; false, and a failure, if that is too deep. Undone by leave. */
bool lls_render_enter(struct lls_render *render, const struct lls_node *node);
void lls_render_leave(struct lls_render *render);

/* Uninitialised memory until the end of the rendering; NULL, and a failure, without. */
void *lls_render_alloc(struct lls_render *render, size_t size);
/* A copy as a string; as all that makes strings, an empty one after a failure. */
struct lls_value lls_render_string(struct lls_render *render, const char *text,
                                   size_t length);
/* left followed by right, in place where left was made last. */
struct lls_value lls_render_join(struct lls_render *render, struct lls_value left,
                                 struct lls_value right);
void lls_budget_free(struct lls_budget *budget);

/* A text that grows in the arena. Zeroed but for render it is empty. */
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
/* The text as a string; the builder must not be used any more. */
struct lls_value lls_builder_end(struct lls_builder *builder);

#endif
