/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of text. They accept any printable value. */
#include "text/template/function.h"
#include "text/base/utf8.h"

#include <string.h>

static struct lls_value subject(struct lls_render *render, const struct lls_call *call)
{
  return lls_to_text(render, call->node, call->subject);
}

static struct lls_value trim(struct lls_render *render, const struct lls_call *call)
{
  return lls_strip(render, subject(render, call), call->arguments[0], true, true);
}

static struct lls_value upper(struct lls_render *render, const struct lls_call *call)
{
  return lls_upper(render, subject(render, call));
}

static struct lls_value lower(struct lls_render *render, const struct lls_call *call)
{
  return lls_lower(render, subject(render, call));
}

static struct lls_value capitalize(struct lls_render *render, const struct lls_call *call)
{
  return lls_capitalize(render, subject(render, call));
}

/* Words begin after white space and the characters -({[< */
static struct lls_value title(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value text = subject(render, call);
  struct lls_builder out = {.render = render};
  size_t at = 0, end, size;
  while (at < text.length && render->code == 0) {
    for (end = at; end < text.length; end += size) {
      int32_t c = lls_utf8_char(text.text + end);
      size = lls_utf8_length(text.text + end);
      if (lls_char_is_space(c) || (c < 0x80 && strchr("-({[<", c) != NULL && c != 0))
        break;
    }
    lls_builder_put_value(&out,
                          lls_capitalize(render, lls_view(text.text + at, end - at)));
    if (end < text.length) {
      lls_builder_put(&out, text.text + end, lls_utf8_length(text.text + end));
      end += lls_utf8_length(text.text + end);
    }
    lls_render_charge(render, call->node, 1);
    at = end;
  }
  return lls_builder_end(&out);
}

static struct lls_value replace(struct lls_render *render, const struct lls_call *call)
{
  int64_t count = lls_integer_argument(
      render, call, 2, call->arguments[2].kind == LLS_NONE ? -1 : INT64_MAX);
  struct lls_value old_text = lls_to_text(render, call->node, call->arguments[0]);
  struct lls_value new_text = lls_to_text(render, call->node, call->arguments[1]);
  struct lls_value text = subject(render, call);
  if (render->code < 0)
    return lls_undefined();
  text =
      lls_replace(render, text, old_text, new_text, count < 0 ? SIZE_MAX : (size_t)count);
  text.safe = false;
  return text;
}

static struct lls_value to_text(struct lls_render *render, const struct lls_call *call)
{
  return subject(render, call);
}

static struct lls_value mark_safe(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value text = subject(render, call);
  text.safe = true;
  return text;
}

static struct lls_value escape(struct lls_render *render, const struct lls_call *call)
{
  return lls_escape(render, subject(render, call));
}

static struct lls_value force_escape(struct lls_render *render,
                                     const struct lls_call *call)
{
  struct lls_value text = subject(render, call);
  text.safe = false;
  return lls_escape(render, text);
}

/* Returns the indentation: a number of spaces, or a text. */
static struct lls_value indentation(struct lls_render *render,
                                    const struct lls_call *call)
{
  struct lls_builder spaces = {.render = render};
  if (lls_is_string(call->arguments[0]))
    return call->arguments[0];
  int64_t width = lls_integer_argument(render, call, 0, 4);
  lls_builder_repeat(&spaces, " ", 1, width > 0 ? (size_t)width : 0);
  return lls_builder_end(&spaces);
}

static struct lls_value indent(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value text = subject(render, call), before = indentation(render, call);
  struct lls_builder out = {.render = render};
  bool first = true, blank = lls_truth(call->arguments[2]), ended = true;
  size_t at = 0, end = 0;
  /* A text that ends in a line end is followed by an empty line. */
  while ((at < text.length || ended) && render->code == 0) {
    struct lls_value line = lls_next_line(text, &at, &end);
    ended = end > 0;
    if (!first)
      lls_builder_puts(&out, "\n");
    if (first ? lls_truth(call->arguments[1]) : blank || line.length > 0)
      lls_builder_put_value(&out, before);
    lls_builder_put_value(&out, line);
    lls_render_charge(render, call->node, 1 + LLS_WORK_OF_TEXT(line.length));
    first = false;
  }
  return lls_builder_end(&out);
}

static struct lls_value center(struct lls_render *render, const struct lls_call *call)
{
  int64_t width = lls_integer_argument(render, call, 0, 80);
  return lls_pad(render, subject(render, call), lls_view(" ", 1), width, true, true);
}

static struct lls_value format(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value text = subject(render, call);
  if (call->keywords != NULL)
    return lls_format_percent(render, call->node, text,
                              lls_of_dict((struct lls_dict *)call->keywords));
  struct lls_list *none = lls_list_new(render, LLS_FORM_TUPLE);
  return lls_format_percent(
      render, call->node, text,
      lls_of_list(call->positional != NULL ? (struct lls_list *)call->positional : none));
}

/* Shortens to `length` characters, cut at a word and followed by "..."; text that
 * exceeds the length by the leeway at most stays whole. */
static struct lls_value truncate(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value text = subject(render, call);
  struct lls_value end = lls_given(call, 2) ? call->arguments[2] : lls_view("...", 3);
  int64_t length = lls_integer_argument(render, call, 0, 255);
  int64_t leeway = lls_integer_argument(render, call, 3, 5);
  if (!lls_is_string(end))
    return lls_render_fail(render, call->node, "truncate needs a string for its end");
  int64_t kept = length - (int64_t)lls_characters(render, end);
  if (render->code < 0 || kept < 0)
    return lls_render_fail(render, call->node,
                           "truncate to fewer characters than its end");
  if ((int64_t)lls_characters(render, text) <= length + (leeway > 0 ? leeway : 0))
    return text;
  text = lls_view(text.text, lls_character_offset(text, (size_t)kept));
  if (!lls_truth(call->arguments[1])) {
    size_t space = lls_find_last(render, text, text.length, lls_view(" ", 1));
    if (space != SIZE_MAX)
      text = lls_view(text.text, space);
  }
  return lls_render_join(render, text, end);
}

static struct lls_value wordcount(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value text = subject(render, call);
  int64_t count = 0;
  bool inside = false;
  lls_render_charge(render, call->node, LLS_WORK_OF_TEXT(text.length));
  for (size_t at = 0; at < text.length; at += lls_utf8_length(text.text + at)) {
    bool word = lls_char_is_word(lls_utf8_char(text.text + at));
    count += word && !inside;
    inside = word;
  }
  return lls_integer(count);
}

static void put_quoted(struct lls_builder *out, struct lls_value text, bool query)
{
  static const char digits[] = "0123456789ABCDEF";
  lls_render_charge(out->render, NULL, text.length / 16);
  for (size_t i = 0; i < text.length; i++) {
    unsigned char c = (unsigned char)text.text[i];
    bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                (c >= '0' && c <= '9') ||
                (c != 0 && strchr(query ? "-_.~" : "-_.~/", c) != NULL);
    if (kept)
      lls_builder_put(out, text.text + i, 1);
    else if (query && c == ' ')
      lls_builder_puts(out, "+");
    else
      lls_builder_put(out, (char[]){'%', digits[c >> 4], digits[c & 15]}, 3);
  }
}

/* Encodes a text for the path of a URL, or pairs for its query. */
static struct lls_value urlencode(struct lls_render *render, const struct lls_call *call)
{
  struct lls_builder out = {.render = render};
  if (call->subject.kind != LLS_DICT && call->subject.kind != LLS_LIST) {
    put_quoted(&out, subject(render, call), false);
    return lls_builder_end(&out);
  }
  const struct lls_list *pairs =
      call->subject.kind == LLS_DICT
          ? lls_dict_list(render, call->subject.dict, LLS_FORM_ITEMS)
          : call->subject.list;
  for (uint32_t i = 0; pairs != NULL && i < pairs->count && render->code == 0; i++) {
    struct lls_value pair = pairs->items[i];
    if (pair.kind != LLS_LIST || pair.list->count != 2)
      return lls_render_fail(render, call->node, "urlencode needs pairs");
    if (i > 0)
      lls_builder_puts(&out, "&");
    put_quoted(&out, lls_to_text(render, call->node, pair.list->items[0]), true);
    lls_builder_puts(&out, "=");
    put_quoted(&out, lls_to_text(render, call->node, pair.list->items[1]), true);
  }
  return lls_builder_end(&out);
}

const struct lls_function lls_text_filters[] = {
    {.name = "capitalize", .body = capitalize},
    {.name = "center", .body = center, .parameters = {"width"}},
    {.name = "e", .body = escape},
    {.name = "escape", .body = escape},
    {.name = "forceescape", .body = force_escape},
    {.name = "format", .body = format, .open = true},
    {.name = "indent", .body = indent, .parameters = {"width", "first", "blank"}},
    {.name = "lower", .body = lower},
    {.name = "replace",
     .body = replace,
     .required = 2,
     .parameters = {"old", "new", "count"}},
    {.name = "safe", .body = mark_safe},
    {.name = "string", .body = to_text},
    {.name = "title", .body = title},
    {.name = "trim", .body = trim, .parameters = {"chars"}},
    {.name = "truncate",
     .body = truncate,
     .parameters = {"length", "killwords", "end", "leeway"}},
    {.name = "upper", .body = upper},
    {.name = "urlencode", .body = urlencode},
    {.name = "wordcount", .body = wordcount},
    {.name = NULL},
};
