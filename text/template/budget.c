/* SPDX-License-Identifier: Apache-2.0 */
/* How a rendering fails, its limits and its arena; see budget.h. */
#include "text/template/budget.h"

#include "text/template/lexer.h"
#include "text/template/state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define FIRST_CHUNK ((size_t)16 << 10)
#define MOST_CHUNK  ((size_t)1 << 20)

struct lls_chunk {
  struct lls_chunk *next;
  size_t size;
  size_t used;
  char data[];
};

static void fail(struct lls_render *render, const struct lls_node *node, int code,
                 const char *what)
{
  char place[48] = "";
  if (render->code < 0)
    return;
  if (node != NULL)
    lls_place(render->tree->source, node->offset, place);
  render->code = lls_fail(render->err, code, "chat template%s%s: %s",
                          node != NULL ? ", " : "", place, what);
}

struct lls_value lls_render_fail(struct lls_render *render, const struct lls_node *node,
                                 const char *format, ...)
{
  char what[LLS_ERROR_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  fail(render, node, -EINVAL, what);
  return lls_undefined();
}

struct lls_value lls_render_unknown(struct lls_render *render,
                                    const struct lls_node *node, const char *what,
                                    const char *name)
{
  char sentence[LLS_ERROR_MAX];
  snprintf(sentence, sizeof sentence, "the %s \"%s\" is not supported", what, name);
  fail(render, node, -ENOTSUP, sentence);
  return lls_undefined();
}

bool lls_render_charge(struct lls_render *render, const struct lls_node *node,
                       size_t work)
{
  render->budget.work += work;
  if (render->budget.work > LLS_WORK_MAX)
    lls_render_fail(render, node, "it does not come to an end within %d steps",
                    LLS_WORK_MAX);
  return render->code == 0;
}

bool lls_render_enter(struct lls_render *render, const struct lls_node *node)
{
  if (++render->budget.depth > LLS_RENDER_DEPTH)
    lls_render_fail(render, node, "expressions or macros are nested too deeply");
  return render->code == 0;
}

void lls_render_leave(struct lls_render *render)
{
  render->budget.depth--;
}

static bool add_chunk(struct lls_render *render, size_t needed)
{
  struct lls_budget *budget = &render->budget;
  size_t size = budget->chunk != NULL ? 2 * budget->chunk->size : FIRST_CHUNK;
  size = size > MOST_CHUNK ? MOST_CHUNK : size;
  size = size < needed ? needed : size;
  if (size > LLS_MEMORY_MAX - budget->memory) {
    lls_render_fail(render, NULL, "it needs more than %d MiB of memory",
                    LLS_MEMORY_MAX >> 20);
    return false;
  }
  struct lls_chunk *chunk = malloc(sizeof *chunk + size);
  if (chunk == NULL) {
    if (render->code == 0)
      render->code = lls_fail(render->err, -ENOMEM, "chat template: no memory");
    return false;
  }
  *chunk = (struct lls_chunk){.next = budget->chunk, .size = size};
  budget->chunk = chunk;
  budget->memory += size;
  return true;
}

/* Takes memory from the arena, aligned to `alignment` bytes. */
static void *take(struct lls_render *render, size_t size, size_t alignment)
{
  struct lls_chunk *chunk = render->budget.chunk;
  if (size > LLS_MEMORY_MAX) {
    lls_render_fail(render, NULL, "it needs more than %d MiB of memory",
                    LLS_MEMORY_MAX >> 20);
    return NULL;
  }
  if (!lls_render_charge(render, NULL, LLS_WORK_OF_TEXT(size)))
    return NULL;
  size_t start =
      chunk != NULL ? (chunk->used + alignment - 1) / alignment * alignment : 0;
  if (chunk == NULL || start > chunk->size || chunk->size - start < size) {
    if (!add_chunk(render, size))
      return NULL;
    chunk = render->budget.chunk;
    start = 0;
  }
  chunk->used = start + size;
  return chunk->data + start;
}

void *lls_render_alloc(struct lls_render *render, size_t size)
{
  return take(render, size, _Alignof(struct lls_value));
}

/* Extends the newest block, if it ends at `end` and its chunk has room. */
static bool extend(struct lls_render *render, const char *end, size_t size)
{
  struct lls_chunk *chunk = render->budget.chunk;
  if (chunk == NULL || end != chunk->data + chunk->used ||
      chunk->size - chunk->used < size ||
      !lls_render_charge(render, NULL, LLS_WORK_OF_TEXT(size)))
    return false;
  chunk->used += size;
  return true;
}

static bool too_long(struct lls_render *render, size_t length)
{
  if (length > LLS_OUTPUT_MAX)
    lls_render_fail(render, NULL, "it makes a text longer than %d bytes", LLS_OUTPUT_MAX);
  return length > LLS_OUTPUT_MAX;
}

struct lls_value lls_render_string(struct lls_render *render, const char *text,
                                   size_t length)
{
  char *copy = too_long(render, length) ? NULL : take(render, length, 1);
  if (copy == NULL)
    return lls_view(NULL, 0);
  if (length > 0)
    memcpy(copy, text, length);
  return lls_view(copy, length);
}

struct lls_value lls_render_join(struct lls_render *render, struct lls_value left,
                                 struct lls_value right)
{
  size_t length = (size_t)left.length + right.length;
  if (right.length == 0 || too_long(render, length))
    return left;
  if (left.length == 0)
    return right;
  if (extend(render, left.text + left.length, right.length)) {
    memcpy((char *)left.text + left.length, right.text, right.length);
    return lls_view(left.text, length);
  }
  char *joined = take(render, length, 1);
  if (joined == NULL)
    return lls_view(NULL, 0);
  memcpy(joined, left.text, left.length);
  memcpy(joined + left.length, right.text, right.length);
  return lls_view(joined, length);
}

void lls_budget_free(struct lls_budget *budget)
{
  while (budget->chunk != NULL) {
    struct lls_chunk *chunk = budget->chunk;
    budget->chunk = chunk->next;
    free(chunk);
  }
}

/* ---- growing texts ----------------------------------------------------------------- */

static bool reserve(struct lls_builder *builder, size_t length)
{
  size_t needed = builder->length + length, capacity = 2 * builder->capacity;
  if (builder->render->code < 0 || too_long(builder->render, needed))
    return false;
  if (needed <= builder->capacity)
    return true;
  capacity = capacity < 64 ? 64 : capacity;
  capacity = capacity < needed ? needed : capacity;
  if (builder->data == NULL || !extend(builder->render, builder->data + builder->capacity,
                                       capacity - builder->capacity)) {
    char *data = take(builder->render, capacity, 1);
    if (data == NULL)
      return false;
    if (builder->length > 0)
      memcpy(data, builder->data, builder->length);
    builder->data = data;
  }
  builder->capacity = capacity;
  return true;
}

void lls_builder_put(struct lls_builder *builder, const char *text, size_t length)
{
  if (length == 0 || !reserve(builder, length))
    return;
  memcpy(builder->data + builder->length, text, length);
  builder->length += length;
}

void lls_builder_puts(struct lls_builder *builder, const char *text)
{
  lls_builder_put(builder, text, strlen(text));
}

void lls_builder_put_value(struct lls_builder *builder, struct lls_value string)
{
  if (string.kind == LLS_STRING)
    lls_builder_put(builder, string.text, string.length);
}

void lls_builder_put_char(struct lls_builder *builder, int32_t codepoint)
{
  utf8proc_uint8_t text[4];
  utf8proc_ssize_t length = utf8proc_encode_char(codepoint, text);
  lls_builder_put(builder, (const char *)text, (size_t)length);
}

void lls_builder_repeat(struct lls_builder *builder, const char *text, size_t length,
                        size_t count)
{
  if (length == 0 || count == 0)
    return;
  if (count > LLS_OUTPUT_MAX / length) {
    too_long(builder->render, (size_t)LLS_OUTPUT_MAX + 1);
    return;
  }
  if (!reserve(builder, length * count))
    return;
  for (; count > 0; count--, builder->length += length)
    memcpy(builder->data + builder->length, text, length);
}

struct lls_value lls_builder_end(struct lls_builder *builder)
{
  struct lls_chunk *chunk = builder->render->budget.chunk;
  if (builder->render->code < 0)
    return lls_view(NULL, 0);
  if (builder->data != NULL &&
      builder->data + builder->capacity == chunk->data + chunk->used)
    chunk->used -= builder->capacity - builder->length;
  return lls_view(builder->data, builder->length);
}
