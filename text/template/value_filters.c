/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of numbers, and of values of any type. */
#include "text/template/function.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct lls_value use_default(struct lls_render *render,
                                    const struct lls_call *call)
{
  (void)render;
  bool missing = call->subject.kind == LLS_UNDEFINED ||
                 (lls_truth(call->arguments[1]) && !lls_truth(call->subject));
  if (!missing)
    return call->subject;
  return lls_given(call, 0) ? call->arguments[0] : lls_view(NULL, 0);
}

static struct lls_value length(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value value = call->subject;
  switch (value.kind) {
  case LLS_STRING:
    return lls_integer((int64_t)lls_characters(render, value));
  case LLS_LIST:
    return lls_integer(value.list->count);
  case LLS_DICT:
    return lls_integer(value.dict->count);
  case LLS_LOOP:
    return lls_integer(value.loop->list->count);
  case LLS_UNDEFINED:
    return lls_integer(0);
  default:
    return lls_render_fail(render, call->node, "%s has no length", lls_type_name(value));
  }
}

/* Copies a number's text in C's syntax, without white space and _. Returns false if it
 * is too long, or an underscore is not between digits. */
static bool number_text(struct lls_render *render, struct lls_value string,
                        char out[static 64])
{
  size_t count = 0;
  string = lls_strip(render, string, lls_undefined(), true, true);
  for (size_t i = 0; i < string.length; i++) {
    char c = string.text[i];
    if (c == '_' && i > 0 && i + 1 < string.length && string.text[i - 1] != '_')
      continue;
    if (count == 63 || c == '\0' || c == '_' || c == ' ')
      return false;
    out[count++] = c;
  }
  out[count] = '\0';
  return count > 0;
}

static bool read_integer(const char *text, int base, int64_t *value)
{
  char *end;
  errno = 0;
  if (base == 8 || base == 2) /* 0o and 0b are not known to C */
    text += text[0] == '0' && strchr("oObB", text[1]) != NULL && text[1] != '\0' ? 2 : 0;
  *value = strtoll(text, &end, base);
  return errno == 0 && *end == '\0';
}

static bool read_real(const char *text, double *value)
{
  char *end;
  if (strpbrk(text, "xXpP(") != NULL) /* valid in C, not in Python */
    return false;
  *value = strtod(text, &end);
  return *end == '\0';
}

static struct lls_value to_integer(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value value = call->subject;
  struct lls_value otherwise = lls_given(call, 0) ? call->arguments[0] : lls_integer(0);
  int64_t base = lls_integer_argument(render, call, 1, 10), number;
  double real = NAN;
  char text[64];
  if (lls_is_integral(value))
    return lls_integer(lls_integer_of(value));
  if (value.kind == LLS_REAL)
    real = value.real;
  if (lls_is_string(value) && base >= 2 && base <= 36 &&
      number_text(render, value, text)) {
    if (read_integer(text, (int)base, &number))
      return lls_integer(number);
    if (!read_real(text, &real))
      return otherwise;
  }
  return fabs(real) < 9.2e18 ? lls_integer((int64_t)real) : otherwise;
}

static struct lls_value to_real(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value value = call->subject;
  double real;
  char text[64];
  if (lls_is_number(value))
    return lls_real(lls_real_of(value));
  if (lls_is_string(value) && number_text(render, value, text) && read_real(text, &real))
    return lls_real(real);
  return lls_given(call, 0) ? call->arguments[0] : lls_real(0);
}

static struct lls_value absolute(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value value = call->subject;
  if (value.kind == LLS_REAL)
    return lls_real(fabs(value.real));
  if (lls_is_integral(value) && lls_integer_of(value) != INT64_MIN)
    return lls_integer(llabs(lls_integer_of(value)));
  return lls_render_fail(render, call->node, "%s has no absolute value",
                         lls_type_name(value));
}

/* Rounds to the nearest number, judged by the decimal that is printed. */
static double round_common(double value, int precision)
{
  char text[400];
  if (precision < 0) {
    double unit = pow(10, -precision);
    return rint(value / unit) * unit;
  }
  snprintf(text, sizeof text, "%.*f", precision, value);
  return strtod(text, NULL);
}

static struct lls_value round_number(struct lls_render *render,
                                     const struct lls_call *call)
{
  struct lls_value value = call->subject;
  struct lls_value method =
      lls_given(call, 1) ? call->arguments[1] : lls_view("common", 6);
  int64_t precision = lls_integer_argument(render, call, 0, 0);
  bool common = lls_text_is(method, "common"), ceiling = lls_text_is(method, "ceil");
  if (!lls_is_number(value) || precision < -300 || precision > 300 ||
      (!common && !ceiling && !lls_text_is(method, "floor")))
    return lls_render_fail(render, call->node, "round of %s, or by an unknown method",
                           lls_type_name(value));
  if (common && lls_is_integral(value) && precision >= 0)
    return lls_integer(lls_integer_of(value));
  double real = lls_real_of(value), unit = pow(10, (double)precision);
  if (common)
    real = round_common(real, (int)(precision > 30 ? 30 : precision));
  else
    real = (ceiling ? ceil(real * unit) : floor(real * unit)) / unit;
  if (common && lls_is_integral(value) && fabs(real) < 9.2e18)
    return lls_integer((int64_t)real);
  return lls_real(real);
}

static struct lls_value to_json(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value indent = call->arguments[1], separators = call->arguments[2];
  struct lls_json_style style = {.ascii = lls_truth(call->arguments[0]),
                                 .sorted = lls_truth(call->arguments[3]),
                                 .key_separator = lls_view(": ", 2)};
  bool lines = indent.kind != LLS_NONE && indent.kind != LLS_UNDEFINED;
  if (lls_is_string(indent)) {
    style.indent = indent;
  } else if (lines) {
    struct lls_builder spaces = {.render = render};
    int64_t width = lls_integer_argument(render, call, 1, 0);
    lls_builder_repeat(&spaces, " ", 1, width > 0 ? (size_t)width : 0);
    style.indent = lls_builder_end(&spaces);
  }
  style.item_separator = lines ? lls_view(",", 1) : lls_view(", ", 2);
  if (lls_is_sequence(separators) && separators.list->count == 2) {
    style.item_separator = separators.list->items[0];
    style.key_separator = separators.list->items[1];
  }
  return render->code == 0 ? lls_to_json(render, call->node, call->subject, &style)
                           : lls_undefined();
}

static struct lls_value from_json(struct lls_render *render, const struct lls_call *call)
{
  if (!lls_is_string(call->subject))
    return lls_render_fail(render, call->node, "from_json needs a string, not %s",
                           lls_type_name(call->subject));
  return lls_parse_json(render, call->node, call->subject);
}

static struct lls_value attribute(struct lls_render *render, const struct lls_call *call)
{
  if (!lls_string_argument(render, call, 0))
    return lls_undefined();
  struct lls_value object = call->subject;
  if (object.kind == LLS_DICT) /* a mapping's items are not attributes */
    return lls_undefined();
  return lls_member(render, call->node, object, call->arguments[0]);
}

const struct lls_function lls_value_filters[] = {
    {.name = "abs", .body = absolute},
    {.name = "attr", .body = attribute, .required = 1, .parameters = {"name"}},
    {.name = "count", .body = length},
    {.name = "d", .body = use_default, .parameters = {"default_value", "boolean"}},
    {.name = "default", .body = use_default, .parameters = {"default_value", "boolean"}},
    {.name = "float", .body = to_real, .parameters = {"default"}},
    {.name = "from_json", .body = from_json},
    {.name = "int", .body = to_integer, .parameters = {"default", "base"}},
    {.name = "length", .body = length},
    {.name = "round", .body = round_number, .parameters = {"precision", "method"}},
    {.name = "tojson",
     .body = to_json,
     .parameters = {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {.name = NULL},
};
