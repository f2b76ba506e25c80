/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of strings, as in Python. */
#include "text/template/function.h"
#include "text/base/unicode.h"
#include "text/base/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* ---- methods that return strings --------------------------------------------------- */

static struct lls_value strip(struct lls_render *render, const struct lls_call *call)
{
  return lls_strip(render, call->subject, call->arguments[0], true, true);
}

static struct lls_value lstrip(struct lls_render *render, const struct lls_call *call)
{
  return lls_strip(render, call->subject, call->arguments[0], true, false);
}

static struct lls_value rstrip(struct lls_render *render, const struct lls_call *call)
{
  return lls_strip(render, call->subject, call->arguments[0], false, true);
}

static struct lls_value upper(struct lls_render *render, const struct lls_call *call)
{
  return lls_upper(render, call->subject);
}

static struct lls_value lower(struct lls_render *render, const struct lls_call *call)
{
  return lls_lower(render, call->subject);
}

static struct lls_value capitalize(struct lls_render *render, const struct lls_call *call)
{
  return lls_capitalize(render, call->subject);
}

/* Puts the first letter of every run of letters in upper case. */
static struct lls_value title(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value text = call->subject;
  struct lls_bytes out = {0};
  bool begins = true;
  if (!lls_render_charge(render, call->node, text.length / 8))
    return lls_undefined();
  for (size_t at = 0, size; at < text.length; at += size) {
    size = lls_utf8_length(text.text + at);
    if (begins)
      lls_unicode_uppercase(text.text + at, size, &out);
    else
      lls_unicode_lowercase(text.text + at, size, &out);
    begins = !lls_char_is_letter(lls_utf8_char(text.text + at));
  }
  struct lls_value titled =
      out.failed ? lls_render_fail(render, call->node, "no memory")
                 : lls_like(lls_render_string(render, out.data, out.length), text);
  lls_bytes_free(&out);
  return titled;
}

static struct lls_value swapcase(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value text = call->subject;
  struct lls_builder out = {.render = render};
  lls_render_charge(render, call->node, text.length / 8);
  for (size_t at = 0; at < text.length && render->code == 0;
       at += lls_utf8_length(text.text + at)) {
    int32_t c = lls_utf8_char(text.text + at), other = utf8proc_toupper(c);
    lls_builder_put_char(&out, other != c ? other : utf8proc_tolower(c));
  }
  return lls_like(lls_builder_end(&out), text);
}

static struct lls_value replace(struct lls_render *render, const struct lls_call *call)
{
  int64_t count = lls_integer_argument(render, call, 2, -1);
  if (!lls_string_argument(render, call, 0) || !lls_string_argument(render, call, 1))
    return lls_undefined();
  return lls_like(lls_replace(render, call->subject, call->arguments[0],
                              call->arguments[1], count < 0 ? SIZE_MAX : (size_t)count),
                  call->subject);
}

static struct lls_value join(struct lls_render *render, const struct lls_call *call)
{
  const struct lls_list *list = lls_items_of(render, call->node, call->arguments[0]);
  struct lls_builder out = {.render = render};
  for (uint32_t i = 0; list != NULL && i < list->count && render->code == 0; i++) {
    if (!lls_is_string(list->items[i]))
      return lls_render_fail(render, call->node, "join needs strings, not %s",
                             lls_type_name(list->items[i]));
    if (i > 0)
      lls_builder_put_value(&out, call->subject);
    lls_builder_put_value(&out, list->items[i]);
    lls_render_charge(render, call->node, 1);
  }
  return lls_like(lls_builder_end(&out), call->subject);
}

static struct lls_value format(struct lls_render *render, const struct lls_call *call)
{
  return lls_format_braces(render, call->node, call->subject, call->positional,
                           call->keywords);
}

/* Pads the string to a width with a character. */
static struct lls_value pad(struct lls_render *render, const struct lls_call *call,
                            bool left, bool right)
{
  int64_t width = lls_integer_argument(render, call, 0, 0);
  struct lls_value fill = lls_view(" ", 1);
  if (lls_given(call, 1) && !lls_string_argument(render, call, 1))
    return lls_undefined();
  if (lls_given(call, 1))
    fill = call->arguments[1];
  if (fill.length == 0 || lls_utf8_length(fill.text) != fill.length)
    return lls_render_fail(render, call->node, "\"%s\" fills up with one character",
                           call->function->name);
  return lls_pad(render, call->subject, fill, width, left, right);
}

static struct lls_value center(struct lls_render *render, const struct lls_call *call)
{
  return pad(render, call, true, true);
}

static struct lls_value ljust(struct lls_render *render, const struct lls_call *call)
{
  return pad(render, call, false, true);
}

static struct lls_value rjust(struct lls_render *render, const struct lls_call *call)
{
  return pad(render, call, true, false);
}

static struct lls_value zfill(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value text = call->subject;
  int64_t width = lls_integer_argument(render, call, 0, 0);
  bool sign = text.length > 0 && (text.text[0] == '-' || text.text[0] == '+');
  struct lls_value digits = lls_view(text.text + sign, text.length - sign);
  digits = lls_pad(render, digits, lls_view("0", 1), width - sign, true, false);
  return sign ? lls_render_join(render, lls_view(text.text, 1), digits) : digits;
}

static bool starts_with(struct lls_value text, struct lls_value part)
{
  return part.length <= text.length && memcmp(text.text, part.text, part.length) == 0;
}

static bool ends_with(struct lls_value text, struct lls_value part)
{
  return part.length <= text.length &&
         memcmp(text.text + text.length - part.length, part.text, part.length) == 0;
}

static struct lls_value removeprefix(struct lls_render *render,
                                     const struct lls_call *call)
{
  struct lls_value text = call->subject, part = call->arguments[0];
  if (!lls_string_argument(render, call, 0) || !starts_with(text, part))
    return text;
  return lls_like(lls_view(text.text + part.length, text.length - part.length), text);
}

static struct lls_value removesuffix(struct lls_render *render,
                                     const struct lls_call *call)
{
  struct lls_value text = call->subject, part = call->arguments[0];
  if (!lls_string_argument(render, call, 0) || !ends_with(text, part))
    return text;
  return lls_like(lls_view(text.text, text.length - part.length), text);
}

/* ---- methods that return lists ----------------------------------------------------- */

static struct lls_value split_by(struct lls_render *render, const struct lls_call *call,
                                 bool from_right)
{
  int64_t most = lls_integer_argument(render, call, 1, -1);
  size_t count = most < 0 ? SIZE_MAX : (size_t)most;
  bool words = !lls_given(call, 0) || call->arguments[0].kind == LLS_NONE;
  if (render->code < 0 || (!words && !lls_string_argument(render, call, 0)))
    return lls_undefined();
  if (words)
    return lls_of_list(lls_split_words(render, call->subject, count, from_right));
  if (call->arguments[0].length == 0)
    return lls_render_fail(render, call->node, "the separator of %s is empty",
                           call->function->name);
  return lls_of_list(
      lls_split_at(render, call->subject, call->arguments[0], count, from_right));
}

static struct lls_value split(struct lls_render *render, const struct lls_call *call)
{
  return split_by(render, call, false);
}

static struct lls_value rsplit(struct lls_render *render, const struct lls_call *call)
{
  return split_by(render, call, true);
}

static struct lls_value splitlines(struct lls_render *render, const struct lls_call *call)
{
  struct lls_list *lines = lls_list_new(render, LLS_FORM_LIST);
  bool keep_ends = lls_truth(call->arguments[0]);
  lls_render_charge(render, call->node, LLS_WORK_OF_TEXT(call->subject.length));
  for (size_t at = 0, end; at < call->subject.length && render->code == 0;) {
    struct lls_value line = lls_next_line(call->subject, &at, &end);
    line.length += keep_ends ? (uint32_t)end : 0;
    lls_list_push(render, lines, lls_like(line, call->subject));
  }
  return lls_of_list(lines);
}

/* Returns the text before a separator, the separator, and the text after it. */
static struct lls_value partition_at(struct lls_render *render,
                                     const struct lls_call *call, bool last)
{
  struct lls_value text = call->subject, separator = call->arguments[0];
  struct lls_list *parts = lls_list_new(render, LLS_FORM_TUPLE);
  if (!lls_string_argument(render, call, 0) || separator.length == 0)
    return lls_render_fail(render, call->node, "the separator of %s is empty",
                           call->function->name);
  lls_render_charge(render, call->node, LLS_WORK_OF_TEXT(text.length));
  size_t found = last ? lls_find_last(render, text, text.length, separator)
                      : lls_find(text, 0, separator);
  struct lls_value empty = lls_view(NULL, 0);
  if (found == SIZE_MAX) {
    lls_list_push(render, parts, last ? empty : text);
    lls_list_push(render, parts, empty);
    lls_list_push(render, parts, last ? text : empty);
  } else {
    size_t end = found + separator.length;
    lls_list_push(render, parts, lls_view(text.text, found));
    lls_list_push(render, parts, separator);
    lls_list_push(render, parts, lls_view(text.text + end, text.length - end));
  }
  return lls_of_list(parts);
}

static struct lls_value partition(struct lls_render *render, const struct lls_call *call)
{
  return partition_at(render, call, false);
}

static struct lls_value rpartition(struct lls_render *render, const struct lls_call *call)
{
  return partition_at(render, call, true);
}

/* ---- methods that return booleans or numbers --------------------------------------- */

/* Returns true if the string begins or ends with the argument, or with one of a tuple. */
static struct lls_value has_end(struct lls_render *render, const struct lls_call *call,
                                bool (*has)(struct lls_value, struct lls_value))
{
  struct lls_value part = call->arguments[0];
  bool several = lls_is_sequence(part) && part.list->form == LLS_FORM_TUPLE;
  if (!several)
    return lls_string_argument(render, call, 0) ? lls_boolean(has(call->subject, part))
                                                : lls_undefined();
  for (uint32_t i = 0; i < part.list->count; i++)
    if (lls_render_charge(render, call->node, 1) && lls_is_string(part.list->items[i]) &&
        has(call->subject, part.list->items[i]))
      return lls_boolean(true);
  return lls_boolean(false);
}

static struct lls_value startswith(struct lls_render *render, const struct lls_call *call)
{
  return has_end(render, call, starts_with);
}

static struct lls_value endswith(struct lls_render *render, const struct lls_call *call)
{
  return has_end(render, call, ends_with);
}

/* Returns the part of the string between start and end, which count characters; *start
 * is its byte offset. */
static struct lls_value window(struct lls_render *render, const struct lls_call *call,
                               size_t *start)
{
  struct lls_value text = call->subject;
  int64_t size = (int64_t)lls_characters(render, text);
  int64_t from = lls_integer_argument(render, call, 1, 0);
  int64_t to = lls_integer_argument(render, call, 2, size);
  from = from < 0 ? (from + size < 0 ? 0 : from + size) : from > size ? size : from;
  to = to < 0 ? (to + size < 0 ? 0 : to + size) : to > size ? size : to;
  *start = lls_character_offset(text, (size_t)from);
  size_t end = lls_character_offset(text, (size_t)to);
  return lls_view(text.text + *start, end > *start ? end - *start : 0);
}

/* Returns the index of the character where the argument occurs, or -1. */
static int64_t position(struct lls_render *render, const struct lls_call *call, bool last)
{
  size_t start;
  if (!lls_string_argument(render, call, 0))
    return -1;
  struct lls_value text = window(render, call, &start);
  if (render->code < 0)
    return -1;
  size_t found = last ? lls_find_last(render, text, text.length, call->arguments[0])
                      : lls_find(text, 0, call->arguments[0]);
  if (found == SIZE_MAX)
    return -1;
  return (int64_t)lls_characters(render, lls_view(call->subject.text, start + found));
}

static struct lls_value find(struct lls_render *render, const struct lls_call *call)
{
  return lls_integer(position(render, call, false));
}

static struct lls_value rfind(struct lls_render *render, const struct lls_call *call)
{
  return lls_integer(position(render, call, true));
}

static struct lls_value must_find(struct lls_render *render, const struct lls_call *call,
                                  bool last)
{
  int64_t found = position(render, call, last);
  return found >= 0 ? lls_integer(found)
                    : lls_render_fail(render, call->node, "the text is not found");
}

static struct lls_value index_of(struct lls_render *render, const struct lls_call *call)
{
  return must_find(render, call, false);
}

static struct lls_value rindex_of(struct lls_render *render, const struct lls_call *call)
{
  return must_find(render, call, true);
}

static struct lls_value count(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value part = call->arguments[0];
  size_t start, found = 0;
  int64_t times = 0;
  if (!lls_string_argument(render, call, 0))
    return lls_undefined();
  struct lls_value text = window(render, call, &start);
  if (part.length == 0)
    return lls_integer((int64_t)lls_characters(render, text) + 1);
  while (render->code == 0 && (found = lls_find(text, found, part)) != SIZE_MAX) {
    found += part.length;
    times++;
    lls_render_charge(render, call->node, 1);
  }
  return lls_integer(times);
}

enum character_class {
  CLASS_ALPHA = 1,
  CLASS_DIGIT = 2,
  CLASS_DECIMAL = 4,
  CLASS_NUMERIC = 8,
  CLASS_SPACE = 16,
  CLASS_UPPER = 32,
  CLASS_LOWER = 64,
  CLASS_ASCII = 128,
};

static unsigned classes_of(int32_t c)
{
  unsigned classes = c < 0x80 ? CLASS_ASCII : 0;
  if (lls_char_is_space(c) || (c >= 0x1c && c <= 0x1f))
    classes |= CLASS_SPACE;
  switch (utf8proc_category(c)) {
  case UTF8PROC_CATEGORY_LU:
    return classes | CLASS_ALPHA | CLASS_UPPER;
  case UTF8PROC_CATEGORY_LL:
    return classes | CLASS_ALPHA | CLASS_LOWER;
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
    return classes | CLASS_ALPHA;
  case UTF8PROC_CATEGORY_ND:
    return classes | CLASS_DIGIT | CLASS_DECIMAL | CLASS_NUMERIC;
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_NO:
    return classes | CLASS_NUMERIC;
  default:
    return classes;
  }
}

/* Returns true if the string is not empty, and all characters are of these classes. */
static struct lls_value all_are(struct lls_render *render, const struct lls_call *call,
                                unsigned classes)
{
  struct lls_value text = call->subject;
  lls_render_charge(render, call->node, LLS_WORK_OF_TEXT(text.length));
  for (size_t at = 0; at < text.length; at += lls_utf8_length(text.text + at))
    if ((classes_of(lls_utf8_char(text.text + at)) & classes) == 0)
      return lls_boolean(false);
  return lls_boolean(text.length > 0);
}

static struct lls_value isalnum_(struct lls_render *render, const struct lls_call *call)
{
  return all_are(render, call, CLASS_ALPHA | CLASS_NUMERIC);
}

static struct lls_value isalpha_(struct lls_render *render, const struct lls_call *call)
{
  return all_are(render, call, CLASS_ALPHA);
}

static struct lls_value isdigit_(struct lls_render *render, const struct lls_call *call)
{
  return all_are(render, call, CLASS_DIGIT);
}

static struct lls_value isdecimal(struct lls_render *render, const struct lls_call *call)
{
  return all_are(render, call, CLASS_DECIMAL);
}

static struct lls_value isnumeric(struct lls_render *render, const struct lls_call *call)
{
  return all_are(render, call, CLASS_NUMERIC);
}

static struct lls_value isspace_(struct lls_render *render, const struct lls_call *call)
{
  return all_are(render, call, CLASS_SPACE);
}

static struct lls_value isascii_(struct lls_render *render, const struct lls_call *call)
{
  return call->subject.length == 0 ? lls_boolean(true)
                                   : all_are(render, call, CLASS_ASCII);
}

/* Returns true if the string has letters of the wanted case, and none of the other
 * case. */
static struct lls_value cased(struct lls_render *render, const struct lls_call *call,
                              unsigned wanted, unsigned other)
{
  struct lls_value text = call->subject;
  bool some = false;
  lls_render_charge(render, call->node, LLS_WORK_OF_TEXT(text.length));
  for (size_t at = 0; at < text.length; at += lls_utf8_length(text.text + at)) {
    unsigned classes = classes_of(lls_utf8_char(text.text + at));
    if ((classes & other) != 0)
      return lls_boolean(false);
    some |= (classes & wanted) != 0;
  }
  return lls_boolean(some);
}

static struct lls_value isupper_(struct lls_render *render, const struct lls_call *call)
{
  return cased(render, call, CLASS_UPPER, CLASS_LOWER);
}

static struct lls_value islower_(struct lls_render *render, const struct lls_call *call)
{
  return cased(render, call, CLASS_LOWER, CLASS_UPPER);
}

#define FROM_TO(NAME, BODY)                                                              \
  {                                                                                      \
    .name = NAME, .body = BODY, .required = 1, .parameters = { "sub", "start", "end" }   \
  }

const struct lls_function lls_string_methods[] = {
    {.name = "capitalize", .body = capitalize},
    {.name = "casefold", .body = lower},
    {.name = "center",
     .body = center,
     .required = 1,
     .parameters = {"width", "fillchar"}},
    FROM_TO("count", count),
    {.name = "endswith", .body = endswith, .required = 1, .parameters = {"suffix"}},
    FROM_TO("find", find),
    {.name = "format", .body = format, .open = true},
    FROM_TO("index", index_of),
    {.name = "isalnum", .body = isalnum_},
    {.name = "isalpha", .body = isalpha_},
    {.name = "isascii", .body = isascii_},
    {.name = "isdecimal", .body = isdecimal},
    {.name = "isdigit", .body = isdigit_},
    {.name = "islower", .body = islower_},
    {.name = "isnumeric", .body = isnumeric},
    {.name = "isspace", .body = isspace_},
    {.name = "isupper", .body = isupper_},
    {.name = "join", .body = join, .required = 1, .parameters = {"iterable"}},
    {.name = "ljust", .body = ljust, .required = 1, .parameters = {"width", "fillchar"}},
    {.name = "lower", .body = lower},
    {.name = "lstrip", .body = lstrip, .parameters = {"chars"}},
    {.name = "partition", .body = partition, .required = 1, .parameters = {"sep"}},
    {.name = "removeprefix",
     .body = removeprefix,
     .required = 1,
     .parameters = {"prefix"}},
    {.name = "removesuffix",
     .body = removesuffix,
     .required = 1,
     .parameters = {"suffix"}},
    {.name = "replace",
     .body = replace,
     .required = 2,
     .parameters = {"old", "new", "count"}},
    FROM_TO("rfind", rfind),
    FROM_TO("rindex", rindex_of),
    {.name = "rjust", .body = rjust, .required = 1, .parameters = {"width", "fillchar"}},
    {.name = "rpartition", .body = rpartition, .required = 1, .parameters = {"sep"}},
    {.name = "rsplit", .body = rsplit, .parameters = {"sep", "maxsplit"}},
    {.name = "rstrip", .body = rstrip, .parameters = {"chars"}},
    {.name = "split", .body = split, .parameters = {"sep", "maxsplit"}},
    {.name = "splitlines", .body = splitlines, .parameters = {"keepends"}},
    {.name = "startswith", .body = startswith, .required = 1, .parameters = {"prefix"}},
    {.name = "strip", .body = strip, .parameters = {"chars"}},
    {.name = "swapcase", .body = swapcase},
    {.name = "title", .body = title},
    {.name = "upper", .body = upper},
    {.name = "zfill", .body = zfill, .required = 1, .parameters = {"width"}},
    {.name = NULL},
};
