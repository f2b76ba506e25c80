/* SPDX-License-Identifier: Apache-2.0 */
/* Python's two ways to format: "%5.2f" % x, and "{:5.2f}".format(x). */
#include "text/template/state.h"
#include "text/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_PRECISION 1000
#define MOST_NUMBER    1400 /* bytes of a number with that precision */

/* A format specification: the text between % and its letter, or after the colon. */
struct spec {
  struct lls_value fill;
  char align; /* < > ^ = or '\0' */
  char sign;  /* + - space */
  bool alternate;
  int64_t width;
  char group;    /* , _ or '\0' */
  int precision; /* -1: none */
  char type;     /* '\0': none */
};

/* A number in pieces, between which padding is inserted. */
struct number {
  char sign[2];
  char prefix[3];
  char body[2 * MOST_NUMBER];
};

/* ---- one value --------------------------------------------------------------------- */

static void put_padded(struct lls_builder *out, const struct spec *spec, const char *head,
                       struct lls_value body, char align)
{
  struct lls_render *render = out->render;
  int64_t width = (int64_t)strlen(head) + (int64_t)lls_characters(render, body);
  int64_t missing = spec->width > width ? spec->width - width : 0, before = 0;
  if (align == '>' || align == '=')
    before = missing;
  else if (align == '^')
    before = missing / 2;
  if (align == '=')
    lls_builder_puts(out, head);
  lls_builder_repeat(out, spec->fill.text, spec->fill.length, (size_t)before);
  if (align != '=')
    lls_builder_puts(out, head);
  lls_builder_put_value(out, body);
  lls_builder_repeat(out, spec->fill.text, spec->fill.length, (size_t)(missing - before));
}

static void put_text(struct lls_builder *out, const struct spec *spec,
                     struct lls_value text)
{
  if (spec->precision >= 0)
    text = lls_view(text.text, lls_character_offset(text, (size_t)spec->precision));
  put_padded(out, spec, "", text, spec->align != '\0' ? spec->align : '<');
}

/* Inserts separators between thousands in the digits before the point. */
static void group_digits(char *body, char group)
{
  size_t length = strlen(body), digits = strspn(body, "0123456789");
  for (size_t at = digits; at > 3; length++) {
    at -= 3;
    memmove(body + at + 1, body + at, length - at + 1);
    body[at] = group;
  }
}

static void put_number(struct lls_builder *out, const struct spec *spec, bool negative,
                       struct number *number)
{
  char head[4];
  if (spec->group != '\0')
    group_digits(number->body, spec->group);
  number->sign[0] = negative                                 ? '-'
                    : spec->sign == '+' || spec->sign == ' ' ? spec->sign
                                                             : '\0';
  snprintf(head, sizeof head, "%s%s", number->sign, number->prefix);
  put_padded(out, spec, head, lls_view(number->body, strlen(number->body)),
             spec->align != '\0' ? spec->align : '>');
}

static void put_integer(struct lls_builder *out, const struct spec *spec, int64_t value)
{
  struct number number = {0};
  uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
  char digits[72];
  size_t at = sizeof digits - 1;
  unsigned base = spec->type == 'x' || spec->type == 'X' ? 16
                  : spec->type == 'o'                    ? 8
                  : spec->type == 'b'                    ? 2
                                                         : 10;
  digits[at] = '\0';
  do
    digits[--at] =
        (spec->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[size % base];
  while ((size /= base) > 0);
  int zeros = spec->precision - (int)(sizeof digits - 1 - at);
  memset(number.body, '0', zeros > 0 ? (size_t)zeros : 0);
  strcat(number.body, digits + at);
  if (spec->alternate && base != 10)
    snprintf(number.prefix, sizeof number.prefix, "0%c", spec->type);
  put_number(out, spec, value < 0, &number);
}

static void put_real(struct lls_builder *out, const struct spec *spec, double value)
{
  struct number number = {0};
  char format[8] = "%.*f";
  int precision = spec->precision >= 0 ? spec->precision : 6;
  bool percent = spec->type == '%';
  if (spec->type == '\0' && spec->precision < 0) { /* like str() */
    struct lls_builder text = {.render = out->render};
    lls_put_real(&text, fabs(value));
    struct lls_value digits = lls_builder_end(&text);
    snprintf(number.body, sizeof number.body, "%.*s", (int)digits.length, digits.text);
  } else {
    format[3] = spec->type == '\0' ? 'g' : percent ? 'f' : spec->type;
    snprintf(number.body, MOST_NUMBER, format, precision,
             fabs(percent ? value * 100 : value));
  }
  if (percent)
    strcat(number.body, "%");
  put_number(out, spec, signbit(value) != 0 && !isnan(value), &number);
}

/* Formats a value by a specification; repr is for %r and !r. */
static void put_value(struct lls_builder *out, const struct lls_node *node,
                      const struct spec *spec, struct lls_value value)
{
  struct lls_render *render = out->render;
  if (spec->width > LLS_OUTPUT_MAX || spec->precision > MOST_PRECISION) {
    lls_render_fail(render, node, "a format with a width or precision that is too large");
    return;
  }
  bool real = spec->type != '\0' && strchr("eEfFgG%", spec->type) != NULL;
  bool whole = spec->type != '\0' && strchr("dxXobn", spec->type) != NULL;
  if (real ? !lls_is_number(value) : whole && !lls_is_integral(value)) {
    lls_render_fail(render, node, "%s cannot be formatted as \"%c\"",
                    lls_type_name(value), spec->type);
    return;
  }
  if (real || (value.kind == LLS_REAL && spec->type == '\0'))
    put_real(out, spec, lls_real_of(value));
  else if (whole || (value.kind == LLS_INTEGER && spec->type == '\0'))
    put_integer(out, spec, lls_integer_of(value));
  else
    put_text(out, spec, lls_to_text(render, node, value));
}

static struct lls_value representation(struct lls_render *render,
                                       const struct lls_node *node,
                                       struct lls_value value)
{
  struct lls_builder text = {.render = render};
  lls_put_repr(&text, node, value, 0);
  return lls_builder_end(&text);
}

/* Reads digits at *at and moves past them; digits past INT32_MAX are ignored. */
static int64_t read_number(struct lls_value text, size_t *at)
{
  int64_t number = 0;
  for (; *at < text.length && text.text[*at] >= '0' && text.text[*at] <= '9'; ++*at)
    if (number < INT32_MAX)
      number = number * 10 + (text.text[*at] - '0');
  return number;
}

static char peek(struct lls_value text, size_t at)
{
  return at < text.length ? text.text[at] : '\0';
}

/* ---- % ----------------------------------------------------------------------------- */

struct percent {
  struct lls_render *render;
  const struct lls_node *node;
  struct lls_value format;
  size_t at;
  struct lls_value values;
  uint32_t next;
};

static struct lls_value next_value(struct percent *percent)
{
  bool several =
      lls_is_sequence(percent->values) && percent->values.list->form != LLS_FORM_LIST;
  uint32_t count = several ? percent->values.list->count : 1;
  if (percent->next >= count)
    return lls_render_fail(percent->render, percent->node,
                           "there are not enough values for the format");
  percent->next++;
  return several ? percent->values.list->items[percent->next - 1] : percent->values;
}

/* %(name)s: returns the value with that name. */
static struct lls_value named_value(struct percent *percent)
{
  struct lls_value rest =
      lls_view(percent->format.text + percent->at, percent->format.length - percent->at);
  size_t end = lls_find(rest, 0, lls_view(")", 1));
  if (percent->values.kind != LLS_DICT || end == SIZE_MAX)
    return lls_render_fail(percent->render, percent->node, "the format needs a mapping");
  const struct lls_value *found =
      lls_dict_find(percent->render, percent->values.dict, lls_view(rest.text, end));
  percent->at += end + 1;
  percent->next = 1;
  return found != NULL ? *found
                       : lls_render_fail(percent->render, percent->node,
                                         "the format names a key that the mapping lacks");
}

static void read_flags(struct percent *percent, struct spec *spec)
{
  for (char c; (c = peek(percent->format, percent->at)) != '\0'; percent->at++) {
    if (c == '-')
      spec->align = '<';
    else if (c == '+' || (c == ' ' && spec->sign != '+'))
      spec->sign = c;
    else if (c == '#')
      spec->alternate = true;
    else if (c == '0' && spec->align == '\0')
      spec->fill = lls_view("0", 1);
    else if (c != '0' && c != ' ')
      break;
  }
  if (spec->align == '<')
    spec->fill = lls_view(" ", 1);
}

static int64_t read_size(struct percent *percent)
{
  if (peek(percent->format, percent->at) != '*')
    return read_number(percent->format, &percent->at);
  percent->at++;
  struct lls_value size = next_value(percent);
  return lls_is_integral(size) && lls_integer_of(size) > 0 ? lls_integer_of(size) : 0;
}

/* Formats one conversion, after "%". */
static void convert(struct percent *percent, struct lls_builder *out)
{
  struct spec spec = {.fill = lls_view(" ", 1), .precision = -1};
  struct lls_value value = lls_undefined();
  bool named = peek(percent->format, percent->at) == '(';
  if (named) {
    percent->at++;
    value = named_value(percent);
  }
  read_flags(percent, &spec);
  spec.width = read_size(percent);
  if (peek(percent->format, percent->at) == '.') {
    percent->at++;
    int64_t precision = read_size(percent);
    spec.precision = precision > INT32_MAX ? INT32_MAX : (int)precision;
  }
  char type = peek(percent->format, percent->at++);
  if (type == '%') {
    lls_builder_puts(out, "%");
    return;
  }
  if (!named)
    value = next_value(percent);
  if (percent->render->code < 0)
    return;
  if (spec.align == '\0')
    spec.align = spec.fill.text[0] == '0' ? '=' : '>';
  if (type == 's' || type == 'r') {
    spec.fill = lls_view(" ", 1);
    spec.align = spec.align == '=' ? '>' : spec.align;
    value = type == 's' ? lls_to_text(percent->render, percent->node, value)
                        : representation(percent->render, percent->node, value);
  } else if (type == 'd' || type == 'i' || type == 'u') {
    spec.type = 'd';
    if (value.kind == LLS_REAL && fabs(value.real) < 9e18)
      value = lls_integer((int64_t)value.real);
  } else if (type != '\0' && strchr("xXoeEfFgG", type) != NULL) {
    spec.type = type;
  } else {
    lls_render_fail(percent->render, percent->node, "the format \"%%%c\" is not known",
                    type >= ' ' && type < 0x7f ? type : '?');
    return;
  }
  put_value(out, percent->node, &spec, value);
}

struct lls_value lls_format_percent(struct lls_render *render,
                                    const struct lls_node *node, struct lls_value format,
                                    struct lls_value values)
{
  struct percent percent = {
      .render = render, .node = node, .format = format, .values = values};
  struct lls_builder out = {.render = render};
  while (percent.at < format.length && render->code == 0) {
    size_t next = lls_find(format, percent.at, lls_view("%", 1));
    size_t end = next != SIZE_MAX ? next : format.length;
    lls_builder_put(&out, format.text + percent.at, end - percent.at);
    percent.at = end + 1;
    if (next != SIZE_MAX && lls_render_charge(render, node, 1))
      convert(&percent, &out);
  }
  bool several = lls_is_sequence(values) && values.list->form != LLS_FORM_LIST;
  uint32_t count = several ? values.list->count : 1;
  if (percent.next < count && values.kind != LLS_DICT)
    lls_render_fail(render, node, "there are more values than the format takes");
  return lls_like(lls_builder_end(&out), format);
}

/* ---- {} ---------------------------------------------------------------------------- */

struct braces {
  struct lls_render *render;
  const struct lls_node *node;
  const struct lls_list *positional;
  const struct lls_dict *keywords;
  uint32_t next;
  bool numbered; /* a field had an explicit number, so every field must */
};

static bool is_number(struct lls_value text)
{
  for (uint32_t i = 0; i < text.length; i++)
    if (text.text[i] < '0' || text.text[i] > '9')
      return false;
  return text.length > 0;
}

/* Returns the argument with a number or name; the next one if the name is empty. */
static struct lls_value argument(struct braces *braces, struct lls_value name)
{
  size_t at = 0;
  if (name.length == 0 || is_number(name)) {
    int64_t number = name.length == 0 ? braces->next++ : read_number(name, &at);
    braces->numbered |= name.length > 0;
    if (braces->numbered && braces->next > 0)
      return lls_render_fail(braces->render, braces->node,
                             "some fields of the format are numbered and some are not");
    if (braces->positional != NULL && number < braces->positional->count)
      return braces->positional->items[number];
  } else if (braces->keywords != NULL) {
    const struct lls_value *found = lls_dict_find(braces->render, braces->keywords, name);
    if (found != NULL)
      return *found;
  }
  return lls_render_fail(braces->render, braces->node,
                         "there is no value for {%.*s} of the format", (int)name.length,
                         name.text);
}

/* Evaluates "name.member[item]". */
static struct lls_value field(struct braces *braces, struct lls_value text)
{
  size_t at = 0;
  while (at < text.length && text.text[at] != '.' && text.text[at] != '[')
    at++;
  struct lls_value value = argument(braces, lls_view(text.text, at));
  while (at < text.length && braces->render->code == 0) {
    bool item = text.text[at] == '[';
    size_t start = ++at, digits = 0;
    while (at < text.length &&
           (item ? text.text[at] != ']' : text.text[at] != '.' && text.text[at] != '['))
      at++;
    struct lls_value name = lls_view(text.text + start, at - start);
    at += item;
    if (item && is_number(name))
      name = lls_integer(read_number(name, &digits));
    value = item ? lls_index(braces->render, braces->node, value, name)
                 : lls_member(braces->render, braces->node, value, name);
  }
  return value;
}

static bool is_align(char c)
{
  return c == '<' || c == '>' || c == '^' || c == '=';
}

/* Reads [[fill]align][sign][#][0][width][,][.precision][type]. */
static bool read_spec(struct braces *braces, struct lls_value text, struct spec *spec)
{
  size_t at = 0, first = text.length > 0 ? lls_utf8_length(text.text) : 0;
  if (first > 0 && is_align(peek(text, first))) {
    spec->fill = lls_view(text.text, first);
    spec->align = text.text[first];
    at = first + 1;
  } else if (is_align(peek(text, 0))) {
    spec->align = text.text[at++];
  }
  if (peek(text, at) == '+' || peek(text, at) == '-' || peek(text, at) == ' ')
    spec->sign = text.text[at++];
  if (peek(text, at) == '#') {
    spec->alternate = true;
    at++;
  }
  if (peek(text, at) == '0' && spec->align == '\0') {
    spec->fill = lls_view("0", 1);
    spec->align = '=';
  }
  spec->width = read_number(text, &at);
  if (peek(text, at) == ',' || peek(text, at) == '_')
    spec->group = text.text[at++];
  if (peek(text, at) == '.') {
    at++;
    spec->precision = (int)read_number(text, &at);
  }
  if (at < text.length)
    spec->type = text.text[at++];
  bool known = spec->type == '\0' || strchr("sdxXobeEfFgG%", spec->type) != NULL;
  if (at < text.length || !known)
    lls_render_fail(braces->render, braces->node, "the format \"%.*s\" is not known",
                    (int)text.length, text.text);
  return braces->render->code == 0;
}

static void format_text(struct braces *braces, struct lls_value format,
                        struct lls_builder *out, unsigned depth);

/* Replaces a field between { and }: field[!conversion][:spec]. */
static void replace_field(struct braces *braces, struct lls_value text,
                          struct lls_builder *out, unsigned depth)
{
  struct spec spec = {.fill = lls_view(" ", 1), .precision = -1};
  size_t end = 0;
  bool item = false; /* inside [ ], where ! and : are ordinary characters */
  while (end < text.length &&
         (item || (text.text[end] != '!' && text.text[end] != ':'))) {
    item = text.text[end] == '[' || (item && text.text[end] != ']');
    end++;
  }
  struct lls_value value = field(braces, lls_view(text.text, end));
  if (peek(text, end) == '!') {
    char conversion = peek(text, end + 1);
    if (conversion == 'r')
      value = representation(braces->render, braces->node, value);
    else if (conversion == 's')
      value = lls_to_text(braces->render, braces->node, value);
    else
      lls_render_fail(braces->render, braces->node, "the conversion is not known");
    end += 2;
  }
  if (end < text.length && braces->render->code == 0) {
    struct lls_builder inner = {.render = braces->render};
    format_text(braces, lls_view(text.text + end + 1, text.length - end - 1), &inner,
                depth + 1);
    if (!read_spec(braces, lls_builder_end(&inner), &spec))
      return;
  }
  if (braces->render->code == 0)
    put_value(out, braces->node, &spec, value);
}

/* Returns the offset of the } that matches a {, or the end of the text. */
static size_t closing(struct lls_value text, size_t at)
{
  for (unsigned open = 0; at < text.length; at++) {
    if (text.text[at] == '{')
      open++;
    else if (text.text[at] == '}' && open-- == 0)
      break;
  }
  return at;
}

static void format_text(struct braces *braces, struct lls_value format,
                        struct lls_builder *out, unsigned depth)
{
  size_t at = 0, start = 0;
  if (depth > 2)
    lls_render_fail(braces->render, braces->node, "a format is nested too deeply");
  while (at < format.length && braces->render->code == 0) {
    char c = format.text[at];
    if (c != '{' && c != '}') {
      at++;
      continue;
    }
    lls_builder_put(out, format.text + start, at - start);
    lls_render_charge(braces->render, braces->node, 1);
    if (peek(format, at + 1) == c) {
      lls_builder_put(out, &c, 1);
      at += 2;
    } else {
      size_t end = c == '{' ? closing(format, at + 1) : format.length;
      if (end == format.length) {
        lls_render_fail(braces->render, braces->node,
                        "a \"%c\" of the format stands alone", c);
        return;
      }
      replace_field(braces, lls_view(format.text + at + 1, end - at - 1), out, depth);
      at = end + 1;
    }
    start = at;
  }
  lls_builder_put(out, format.text + start, at - start);
}

struct lls_value lls_format_braces(struct lls_render *render, const struct lls_node *node,
                                   struct lls_value format,
                                   const struct lls_list *positional,
                                   const struct lls_dict *keywords)
{
  struct braces braces = {
      .render = render, .node = node, .positional = positional, .keywords = keywords};
  struct lls_builder out = {.render = render};
  format_text(&braces, format, &out, 0);
  return lls_like(lls_builder_end(&out), format);
}
