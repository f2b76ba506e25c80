/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments as elements whose names are the keys, as MiniMax M3 writes them, with a mark
 * before each tag:
 *
 *   <city>Bern</city><days><item>1</item><item>2</item></days><at><x>1</x></at>
 *
 * An element with elements inside is an object, or an array if they are called "item".
 * Each argument is converted to JSON when its end arrives, by the tool's schema, see
 * lls_tool_emit_value.
 */
#include <stdio.h>
#include <string.h>

#include "text/tools/tool_parser_internal.h"
#include "text/tools/tool_types.h"

#define MAX_DEPTH 32

struct element {
  const char *name;
  size_t length;
  const char *inner, *end; /* what is between its tags */
  const char *next;        /* after its closing tag */
};

static const char *skip(const char *text, const char *end)
{
  while (text < end && lls_tool_is_space(*text))
    text++;
  return text;
}

/* Reads an opening tag. Returns like lls_tool_begins; -1 for a closing tag, too. */
static int read_tag(const struct lls_tool_format *f, const char *text, const char *end,
                    struct element *out)
{
  const char *over;
  size_t mark = strlen(f->key_begin);
  int begins = lls_tool_begins(text, (size_t)(end - text), f->key_begin);
  if (begins <= 0)
    return begins;
  out->name = text + mark;
  int near = lls_tool_find_near(out->name, (size_t)(end - out->name), f->key_end,
                                LLS_TOOL_NAME_BYTES, &over);
  if (near <= 0)
    return near;
  out->length = (size_t)(over - out->name);
  out->inner = over + strlen(f->key_end);
  return out->length > 0 && *out->name != '/' ? 1 : -1;
}

/* Finds the closing tag, past elements of the same name. Returns false if there is none:
 * then the element reaches to the end. */
static bool find_close(const struct lls_tool_format *f, struct element *e,
                       const char *end)
{
  char open[LLS_TOOL_NAME_BYTES + 32], close[LLS_TOOL_NAME_BYTES + 32];
  snprintf(open, sizeof open, "%s%.*s%s", f->key_begin, (int)e->length, e->name,
           f->key_end);
  snprintf(close, sizeof close, "%s/%.*s%s", f->key_begin, (int)e->length, e->name,
           f->key_end);
  unsigned depth = 1;
  for (const char *at = e->inner; depth > 0;) {
    const char *closes = memmem(at, (size_t)(end - at), close, strlen(close));
    const char *opens = memmem(at, (size_t)(end - at), open, strlen(open));
    e->end = closes != NULL ? closes : end;
    e->next = closes != NULL ? closes + strlen(close) : end;
    if (closes == NULL)
      return false;
    bool inside = opens != NULL && opens < closes;
    depth += inside ? 1 : -1u;
    at = inside ? opens + strlen(open) : e->next;
  }
  return true;
}

static void emit(struct lls_tool_parser *parser, const char *text)
{
  lls_tool_emit_arguments(parser, text, strlen(text));
}

static void emit_key(struct lls_tool_parser *parser, const struct element *e)
{
  lls_tool_emit_value(parser, LLS_TOOL_TYPE_STRING, e->name, e->length);
  emit(parser, ": ");
}

static const json_t *property(const json_t *schema, const char *name, size_t n)
{
  return json_object_getn(json_object_get(schema, "properties"), name, n);
}

static void emit_inside(struct lls_tool_parser *parser, const json_t *schema,
                        const struct element *e, unsigned depth);

/* Emits the elements inside of one, of which the first was read. */
static void emit_elements(struct lls_tool_parser *parser, const json_t *schema,
                          struct element first, const char *end, unsigned depth)
{
  const struct lls_tool_format *f = parser->options.format;
  bool list = first.length == 4 && memcmp(first.name, "item", 4) == 0 &&
              property(schema, "item", 4) == NULL;
  const char *before = list ? "[" : "{";
  int more = 1;
  for (struct element e = first; more > 0; before = ", ") {
    const json_t *inner =
        list ? json_object_get(schema, "items") : property(schema, e.name, e.length);
    find_close(f, &e, end);
    emit(parser, before);
    if (!list)
      emit_key(parser, &e);
    emit_inside(parser, inner, &e, depth + 1);
    more = read_tag(f, skip(e.next, end), end, &e);
  }
  emit(parser, list ? "]" : "}");
}

static void emit_inside(struct lls_tool_parser *parser, const json_t *schema,
                        const struct element *e, unsigned depth)
{
  const char *type = json_string_value(json_object_get(schema, "type"));
  const char *text = skip(e->inner, e->end);
  struct element first;
  if (depth < MAX_DEPTH && read_tag(parser->options.format, text, e->end, &first) > 0)
    emit_elements(parser, schema, first, e->end, depth);
  else if (text == e->end && type != NULL && strcmp(type, "array") == 0)
    emit(parser, "[]");
  else if (text == e->end && type != NULL && strcmp(type, "object") == 0)
    emit(parser, "{}");
  else
    lls_tool_emit_value(parser, lls_tool_types(lls_tool_parameters(parser), schema),
                        e->inner, (size_t)(e->end - e->inner));
}

/* Takes an argument. Returns 1; 0 if more text is needed; -1 if none begins here. `over`:
 * no more text comes. */
static int take_argument(struct lls_tool_parser *parser, bool over)
{
  const char *text = parser->held.data, *end = text + parser->held.length;
  struct element e;
  int read = read_tag(parser->options.format, text, end, &e);
  if (read <= 0)
    return read;
  if (!find_close(parser->options.format, &e, end) && !over)
    return 0;
  emit(parser, parser->has_arguments ? ", " : "{");
  emit_key(parser, &e);
  emit_inside(parser, property(lls_tool_parameters(parser), e.name, e.length), &e, 1);
  parser->at = (size_t)(e.next - text);
  lls_tool_take(parser);
  return 1;
}

static void take_space(struct lls_tool_parser *parser)
{
  const char *text = parser->held.data;
  parser->at = (size_t)(skip(text, text + parser->held.length) - text);
  lls_tool_take(parser);
}

bool lls_tool_step_tags(struct lls_tool_parser *parser)
{
  const struct lls_tool_format *f = parser->options.format;
  if (parser->held.length == 0)
    return false;
  take_space(parser);
  size_t n = parser->held.length;
  int ends = lls_tool_begins(parser->held.data, n, f->call_end);
  int closes = lls_tool_begins(parser->held.data, n, f->close);
  if (ends > 0 || closes > 0) { /* step_after handles the mark after all calls */
    if (parser->has_arguments)
      emit(parser, "}");
    parser->at = ends > 0 ? strlen(f->call_end) : 0;
    lls_tool_take(parser);
    lls_tool_end_call(parser);
    return true;
  }
  int taken = n > 0 ? take_argument(parser, false) : 0;
  if (taken >= 0 || ends == 0 || closes == 0)
    return taken > 0;
  if (parser->has_arguments)
    emit(parser, "}");
  return lls_tool_give_up(parser);
}

void lls_tool_finish_tags(struct lls_tool_parser *parser, bool cut)
{
  if (cut || parser->held.length == 0)
    return;
  take_space(parser);
  while (parser->held.length > 0 && take_argument(parser, true) > 0)
    take_space(parser);
  if (parser->has_arguments)
    emit(parser, "}");
  lls_text_clear(&parser->held);
}
