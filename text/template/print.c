/* SPDX-License-Identifier: Apache-2.0 */
/* Converts values to text like Python: str() and repr(). */
#include "text/template/function.h"
#include "text/template/state.h"
#include "text/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* The shortest digits of a number, without sign, that read back as the same number. */
struct digits {
  char text[20];
  int count;
  int exponent; /* power of ten of the first digit */
};

static struct digits shortest(double number)
{
  struct digits digits = {.count = 0};
  char text[40] = "";
  for (int precision = 0; precision <= 16; precision++) {
    snprintf(text, sizeof text, "%.*e", precision, number);
    if (strtod(text, NULL) == number)
      break;
  }
  for (const char *at = text; *at != 'e'; at++)
    if (*at >= '0' && *at <= '9')
      digits.text[digits.count++] = *at;
  digits.exponent = atoi(strchr(text, 'e') + 1);
  return digits;
}

static void put_zeros(struct lls_builder *builder, int count)
{
  for (; count > 0; count--)
    lls_builder_puts(builder, "0");
}

static void put_plain(struct lls_builder *builder, const struct digits *digits)
{
  int before = digits->exponent + 1; /* digits before the point */
  if (before <= 0) {
    lls_builder_puts(builder, "0.");
    put_zeros(builder, -before);
    lls_builder_put(builder, digits->text, (size_t)digits->count);
    return;
  }
  int whole = digits->count < before ? digits->count : before;
  lls_builder_put(builder, digits->text, (size_t)whole);
  put_zeros(builder, before - whole);
  lls_builder_puts(builder, ".");
  if (digits->count > whole)
    lls_builder_put(builder, digits->text + whole, (size_t)(digits->count - whole));
  else
    lls_builder_puts(builder, "0");
}

void lls_put_real(struct lls_builder *builder, double number)
{
  char exponent[16];
  if (signbit(number) && !isnan(number))
    lls_builder_puts(builder, "-");
  if (!isfinite(number)) {
    lls_builder_puts(builder, isnan(number) ? "nan" : "inf");
    return;
  }
  struct digits digits = shortest(fabs(number));
  if (digits.exponent >= -4 && digits.exponent < 16) {
    put_plain(builder, &digits);
    return;
  }
  lls_builder_put(builder, digits.text, 1);
  if (digits.count > 1) {
    lls_builder_puts(builder, ".");
    lls_builder_put(builder, digits.text + 1, (size_t)digits.count - 1);
  }
  snprintf(exponent, sizeof exponent, "e%+03d", digits.exponent);
  lls_builder_puts(builder, exponent);
}

static bool is_printable(int32_t character)
{
  switch (utf8proc_category(character)) {
  case UTF8PROC_CATEGORY_CN:
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_CS:
  case UTF8PROC_CATEGORY_CO:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
  case UTF8PROC_CATEGORY_ZS:
    return character == ' ';
  default:
    return true;
  }
}

static void put_escape(struct lls_builder *builder, int32_t character)
{
  char text[16];
  const char *const letter = character == '\n'   ? "\\n"
                             : character == '\r' ? "\\r"
                             : character == '\t' ? "\\t"
                                                 : NULL;
  if (letter == NULL)
    snprintf(text, sizeof text,
             character < 0x100     ? "\\x%02x"
             : character < 0x10000 ? "\\u%04x"
                                   : "\\U%08x",
             (unsigned)character);
  lls_builder_puts(builder, letter != NULL ? letter : text);
}

static void put_string(struct lls_builder *builder, struct lls_value string)
{
  bool single = memchr(string.text, '\'', string.length) == NULL ||
                memchr(string.text, '"', string.length) != NULL;
  char quote = single ? '\'' : '"';
  size_t size;
  lls_render_charge(builder->render, NULL, string.length / 16);
  lls_builder_put(builder, &quote, 1);
  for (size_t at = 0; at < string.length && builder->render->code == 0; at += size) {
    int32_t character = lls_utf8_char(string.text + at);
    size = lls_utf8_length(string.text + at);
    if (character == quote || character == '\\')
      lls_builder_puts(builder, "\\");
    if (is_printable(character))
      lls_builder_put(builder, string.text + at, size);
    else
      put_escape(builder, character);
  }
  lls_builder_put(builder, &quote, 1);
}

static void put_list(struct lls_builder *builder, const struct lls_node *node,
                     const struct lls_list *list, unsigned depth)
{
  static const char *const opens[] = {
      [LLS_FORM_LIST] = "[",
      [LLS_FORM_TUPLE] = "(",
      [LLS_FORM_GROUP] = "(",
      [LLS_FORM_KEYS] = "dict_keys([",
      [LLS_FORM_VALUES] = "dict_values([",
      [LLS_FORM_ITEMS] = "dict_items([",
  };
  static const char *const closes[] = {
      [LLS_FORM_LIST] = "]",  [LLS_FORM_TUPLE] = ")",   [LLS_FORM_GROUP] = ")",
      [LLS_FORM_KEYS] = "])", [LLS_FORM_VALUES] = "])", [LLS_FORM_ITEMS] = "])",
  };
  lls_builder_puts(builder, opens[list->form]);
  for (uint32_t i = 0; i < list->count && builder->render->code == 0; i++) {
    if (i > 0)
      lls_builder_puts(builder, ", ");
    lls_put_repr(builder, node, list->items[i], depth + 1);
  }
  if (list->form == LLS_FORM_TUPLE && list->count == 1)
    lls_builder_puts(builder, ",");
  lls_builder_puts(builder, closes[list->form]);
}

static void put_dict(struct lls_builder *builder, const struct lls_node *node,
                     const struct lls_dict *dict, unsigned depth)
{
  const struct lls_entry *entry;
  uint32_t at = 0;
  bool first = true;
  lls_builder_puts(builder, "{");
  while ((entry = lls_dict_next(dict, &at)) != NULL && builder->render->code == 0) {
    if (!first)
      lls_builder_puts(builder, ", ");
    first = false;
    lls_put_repr(builder, node, entry->key, depth + 1);
    lls_builder_puts(builder, ": ");
    lls_put_repr(builder, node, entry->value, depth + 1);
  }
  lls_builder_puts(builder, "}");
}

static void put_scalar(struct lls_builder *builder, const struct lls_node *node,
                       struct lls_value value)
{
  char text[64] = "";
  switch (value.kind) {
  case LLS_UNDEFINED:
    lls_builder_puts(builder, "Undefined");
    return;
  case LLS_NONE:
    lls_builder_puts(builder, "None");
    return;
  case LLS_BOOLEAN:
    lls_builder_puts(builder, value.boolean ? "True" : "False");
    return;
  case LLS_INTEGER:
    snprintf(text, sizeof text, "%lld", (long long)value.integer);
    lls_builder_puts(builder, text);
    return;
  case LLS_REAL:
    lls_put_real(builder, value.real);
    return;
  case LLS_LOOP:
    snprintf(text, sizeof text, "<LoopContext %u/%u>", value.loop->index + 1,
             value.loop->list->count);
    lls_builder_puts(builder, text);
    return;
  case LLS_MACRO:
    lls_builder_puts(builder, "<Macro ");
    put_string(builder, value.macro->node->value);
    lls_builder_puts(builder, ">");
    return;
  default:
    lls_render_fail(builder->render, node, "%s cannot be printed", lls_type_name(value));
  }
}

void lls_put_repr(struct lls_builder *builder, const struct lls_node *node,
                  struct lls_value value, unsigned depth)
{
  if (!lls_render_charge(builder->render, node, 1))
    return;
  if (depth > LLS_VALUE_DEPTH) {
    lls_render_fail(builder->render, node,
                    "a value that is nested too deeply cannot be printed");
    return;
  }
  switch (value.kind) {
  case LLS_STRING:
    if (value.safe)
      lls_builder_puts(builder, "Markup(");
    put_string(builder, value);
    if (value.safe)
      lls_builder_puts(builder, ")");
    break;
  case LLS_LIST:
    put_list(builder, node, value.list, depth);
    break;
  case LLS_DICT:
    put_dict(builder, node, value.dict, depth);
    break;
  case LLS_NAMESPACE:
    lls_builder_puts(builder, "<Namespace ");
    put_dict(builder, node, value.dict, depth);
    lls_builder_puts(builder, ">");
    break;
  default:
    put_scalar(builder, node, value);
  }
}

struct lls_value lls_to_text(struct lls_render *render, const struct lls_node *node,
                             struct lls_value value)
{
  struct lls_builder text = {.render = render};
  if (value.kind == LLS_STRING)
    return value;
  if (value.kind == LLS_UNDEFINED)
    return lls_view(NULL, 0);
  lls_put_repr(&text, node, value, 0);
  return lls_builder_end(&text);
}
