/* SPDX-License-Identifier: Apache-2.0 */
/* Converts JSON to values, and values to JSON as Python's json.dumps writes it. */
#include "core/base/json_cost.h"
#include "text/template/state.h"
#include "text/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ----------------------------------------------------------------------- */

static struct lls_value read(struct lls_render *render, const json_t *json, bool copy,
                             unsigned depth);

static struct lls_value read_string(struct lls_render *render, const char *text,
                                    size_t length, bool copy)
{
  if (length > LLS_OUTPUT_MAX)
    return lls_render_fail(render, NULL, "a text is longer than %d bytes",
                           LLS_OUTPUT_MAX);
  return copy ? lls_render_string(render, text, length) : lls_view(text, length);
}

static struct lls_value read_list(struct lls_render *render, const json_t *json,
                                  bool copy, unsigned depth)
{
  struct lls_list *list = lls_list_new(render, LLS_FORM_LIST);
  size_t i;
  json_t *item;
  json_array_foreach((json_t *)json, i, item)
  {
    if (!lls_list_push(render, list, read(render, item, copy, depth + 1)))
      break;
  }
  return lls_of_list(list);
}

static struct lls_value read_dict(struct lls_render *render, const json_t *json,
                                  bool copy, unsigned depth)
{
  struct lls_dict *dict = lls_dict_new(render);
  const char *key;
  json_t *item;
  json_object_foreach((json_t *)json, key, item)
  {
    struct lls_value name = read_string(render, key, strlen(key), copy);
    if (!lls_dict_set(render, dict, name, read(render, item, copy, depth + 1)))
      break;
  }
  return lls_of_dict(dict);
}

static struct lls_value read(struct lls_render *render, const json_t *json, bool copy,
                             unsigned depth)
{
  if (!lls_render_charge(render, NULL, 1))
    return lls_undefined();
  if (depth > LLS_VALUE_DEPTH)
    return lls_render_fail(render, NULL, "a value is nested too deeply");
  switch (json_typeof(json)) {
  case JSON_OBJECT:
    return read_dict(render, json, copy, depth);
  case JSON_ARRAY:
    return read_list(render, json, copy, depth);
  case JSON_STRING:
    return read_string(render, json_string_value(json), json_string_length(json), copy);
  case JSON_INTEGER:
    return lls_integer(json_integer_value(json));
  case JSON_REAL:
    return lls_real(json_real_value(json));
  case JSON_NULL:
    return lls_none();
  default:
    return lls_boolean(json_is_true(json));
  }
}

struct lls_value lls_from_json(struct lls_render *render, const json_t *json, bool copy)
{
  return read(render, json, copy, 0);
}

struct lls_value lls_parse_json(struct lls_render *render, const struct lls_node *node,
                                struct lls_value text)
{
  json_error_t error;
  /* the parsed text is outside of the arena: each of its bytes is charged as a step */
  if (!lls_render_charge(render, node, text.length))
    return lls_undefined();
  json_t *json =
      lls_json_load(text.text, text.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
  if (json == NULL)
    return lls_render_fail(render, node, "this text is no JSON: %s", error.text);
  struct lls_value value = lls_from_json(render, json, true);
  json_decref(json);
  return value;
}

/* ---- writing ----------------------------------------------------------------------- */

struct writer {
  struct lls_builder out;
  const struct lls_node *node;
  const struct lls_json_style *style;
};

static void write(struct writer *writer, struct lls_value value, unsigned depth);

static void put_unicode(struct lls_builder *out, int32_t character)
{
  char text[16];
  if (character >= 0x10000) {
    character -= 0x10000;
    snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800u + ((unsigned)character >> 10),
             0xdc00u + ((unsigned)character & 0x3ffu));
  } else {
    snprintf(text, sizeof text, "\\u%04x", (unsigned)character);
  }
  lls_builder_puts(out, text);
}

static void write_string(struct writer *writer, struct lls_value string)
{
  static const char letters[] = "\"\\\n\r\t\f\b", meant[] = "\"\\nrtfb";
  struct lls_builder *out = &writer->out;
  size_t start = 0, size;
  lls_render_charge(out->render, NULL, string.length / 32);
  lls_builder_puts(out, "\"");
  for (size_t at = 0; at < string.length; at += size) {
    unsigned char c = (unsigned char)string.text[at];
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;
    size = lls_utf8_length(string.text + at);
    if (letter == NULL && c >= 0x20 && (c < 0x80 || !writer->style->ascii))
      continue;
    lls_builder_put(out, string.text + start, at - start);
    start = at + size;
    if (letter == NULL)
      put_unicode(out, lls_utf8_char(string.text + at));
    else
      lls_builder_put(out, (char[]){'\\', meant[letter - letters]}, 2);
  }
  lls_builder_put(out, string.text + start, string.length - start);
  lls_builder_puts(out, "\"");
}

static void write_real(struct writer *writer, double number)
{
  if (isfinite(number))
    lls_put_real(&writer->out, number);
  else
    lls_builder_puts(&writer->out, isnan(number) ? "NaN"
                                   : number > 0  ? "Infinity"
                                                 : "-Infinity");
}

/* Begins a new line if an indentation is set. */
static void new_line(struct writer *writer, unsigned depth)
{
  struct lls_value indent = writer->style->indent;
  if (!lls_is_string(indent))
    return;
  lls_builder_puts(&writer->out, "\n");
  lls_builder_repeat(&writer->out, indent.text, indent.length, depth);
}

static void write_list(struct writer *writer, const struct lls_list *list, unsigned depth)
{
  lls_builder_puts(&writer->out, "[");
  for (uint32_t i = 0; i < list->count && writer->out.render->code == 0; i++) {
    if (i > 0)
      lls_builder_put_value(&writer->out, writer->style->item_separator);
    new_line(writer, depth + 1);
    write(writer, list->items[i], depth + 1);
  }
  if (list->count > 0)
    new_line(writer, depth);
  lls_builder_puts(&writer->out, "]");
}

/* Keys that are not strings are converted to strings, as in Python. */
static void write_key(struct writer *writer, struct lls_value key)
{
  if (lls_is_string(key)) {
    write_string(writer, key);
    return;
  }
  lls_builder_puts(&writer->out, "\"");
  write(writer, key, 0);
  lls_builder_puts(&writer->out, "\"");
}

static void sort_entries(struct lls_render *render, const struct lls_node *node,
                         struct lls_list *keys)
{
  struct lls_list *copy = lls_list_copy(render, node, lls_of_list(keys));
  if (copy != NULL)
    lls_sort(render, node, copy->items, keys->items, keys->count, false);
}

static void write_dict(struct writer *writer, const struct lls_dict *dict, unsigned depth)
{
  struct lls_render *render = writer->out.render;
  struct lls_list *keys = lls_dict_list(render, dict, LLS_FORM_KEYS);
  if (keys != NULL && writer->style->sorted)
    sort_entries(render, writer->node, keys);
  lls_builder_puts(&writer->out, "{");
  for (uint32_t i = 0; keys != NULL && i < keys->count && render->code == 0; i++) {
    const struct lls_value *value = lls_dict_find(render, dict, keys->items[i]);
    if (i > 0)
      lls_builder_put_value(&writer->out, writer->style->item_separator);
    new_line(writer, depth + 1);
    write_key(writer, keys->items[i]);
    lls_builder_put_value(&writer->out, writer->style->key_separator);
    if (value != NULL)
      write(writer, *value, depth + 1);
  }
  if (dict->count > 0)
    new_line(writer, depth);
  lls_builder_puts(&writer->out, "}");
}

static void write(struct writer *writer, struct lls_value value, unsigned depth)
{
  struct lls_render *render = writer->out.render;
  if (!lls_render_charge(render, writer->node, 1))
    return;
  if (depth > LLS_VALUE_DEPTH) {
    lls_render_fail(render, writer->node, "a value is nested too deeply for JSON");
    return;
  }
  switch (value.kind) {
  case LLS_NONE:
    lls_builder_puts(&writer->out, "null");
    break;
  case LLS_BOOLEAN:
    lls_builder_puts(&writer->out, value.boolean ? "true" : "false");
    break;
  case LLS_INTEGER:
    lls_put_repr(&writer->out, writer->node, value, 0);
    break;
  case LLS_REAL:
    write_real(writer, value.real);
    break;
  case LLS_STRING:
    write_string(writer, value);
    break;
  case LLS_DICT:
    write_dict(writer, value.dict, depth);
    break;
  default:
    if (lls_is_sequence(value))
      write_list(writer, value.list, depth);
    else
      lls_render_fail(render, writer->node, "%s cannot be written as JSON",
                      lls_type_name(value));
  }
}

struct lls_value lls_to_json(struct lls_render *render, const struct lls_node *node,
                             struct lls_value value, const struct lls_json_style *style)
{
  struct writer writer = {.out = {.render = render}, .node = node, .style = style};
  write(&writer, value, 0);
  return lls_builder_end(&writer.out);
}
