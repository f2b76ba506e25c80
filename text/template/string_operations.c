/* SPDX-License-Identifier: Apache-2.0 */
/* String operations that filters and methods share; see state.h. */
#include "text/template/state.h"
#include "text/base/unicode.h"
#include "text/base/utf8.h"

#include <string.h>

size_t lls_characters(struct lls_render *render, struct lls_value string)
{
  size_t count = 0;
  if (!lls_render_charge(render, NULL, LLS_WORK_OF_TEXT(string.length)))
    return 0;
  for (size_t at = 0; at < string.length; at += lls_utf8_length(string.text + at))
    count++;
  return count;
}

size_t lls_character_offset(struct lls_value string, size_t number)
{
  size_t at = 0;
  for (; at < string.length && number > 0; number--)
    at += lls_utf8_length(string.text + at);
  return at;
}

/* Has a branch for one byte, the usual needle: under AddressSanitizer memmem checks the
 * whole range it might read, which makes splitting a long text quadratic. */
size_t lls_find(struct lls_value text, size_t from, struct lls_value needle)
{
  if (from > text.length)
    return SIZE_MAX;
  const char *begin = text.text + from, *found;
  size_t length = text.length - from;
  if (needle.length == 1 && length > 0)
    found = memchr(begin, needle.text[0], length);
  else
    found = memmem(begin, length, needle.text, needle.length);
  return found != NULL ? (size_t)(found - text.text) : SIZE_MAX;
}

struct lls_value lls_like(struct lls_value string, struct lls_value other)
{
  if (lls_is_string(string))
    string.safe = other.safe;
  return string;
}

/* ---- stripping and case ------------------------------------------------------------ */

static bool is_space(int32_t character)
{
  return lls_char_is_space(character) || (character >= 0x1c && character <= 0x1f);
}

/* Returns true if the character is in the set to be stripped. */
static bool is_stripped(int32_t character, struct lls_value characters)
{
  if (!lls_is_string(characters))
    return is_space(character);
  for (size_t at = 0; at < characters.length; at += lls_utf8_length(characters.text + at))
    if (lls_utf8_char(characters.text + at) == character)
      return true;
  return false;
}

/* Returns true if one more character is stripped at an end; false if not, or if the
 * work limit is reached. */
static bool strips(struct lls_render *render, int32_t character,
                   struct lls_value characters)
{
  size_t work = lls_is_string(characters) ? characters.length / 8 : 0;
  return (work == 0 || lls_render_charge(render, NULL, work)) &&
         is_stripped(character, characters);
}

struct lls_value lls_strip(struct lls_render *render, struct lls_value string,
                           struct lls_value characters, bool left, bool right)
{
  const char *text = string.text;
  size_t start = 0, end = string.length, size = 0;
  lls_render_charge(render, NULL, LLS_WORK_OF_TEXT(string.length));
  while (left && start < end && strips(render, lls_utf8_char(text + start), characters))
    start += lls_utf8_length(text + start);
  while (right && end > start &&
         strips(render, lls_utf8_last(text + start, end - start, &size), characters))
    end -= size;
  return lls_like(lls_view(text + start, end - start), string);
}

typedef void (*change)(const char *text, size_t length, struct lls_bytes *out);

static void put_changed(struct lls_builder *out, change apply, const char *text,
                        size_t length)
{
  struct lls_bytes bytes = {0};
  if (!lls_render_charge(out->render, NULL, length / 16))
    return;
  apply(text, length, &bytes);
  if (bytes.failed)
    lls_render_fail(out->render, NULL, "no memory");
  lls_builder_put(out, bytes.data, bytes.length);
  lls_bytes_free(&bytes);
}

struct lls_value lls_upper(struct lls_render *render, struct lls_value string)
{
  struct lls_builder out = {.render = render};
  put_changed(&out, lls_unicode_uppercase, string.text, string.length);
  return lls_like(lls_builder_end(&out), string);
}

struct lls_value lls_lower(struct lls_render *render, struct lls_value string)
{
  struct lls_builder out = {.render = render};
  put_changed(&out, lls_unicode_lowercase, string.text, string.length);
  return lls_like(lls_builder_end(&out), string);
}

struct lls_value lls_capitalize(struct lls_render *render, struct lls_value string)
{
  struct lls_builder out = {.render = render};
  size_t first = string.length > 0 ? lls_utf8_length(string.text) : 0;
  put_changed(&out, lls_unicode_uppercase, string.text, first);
  put_changed(&out, lls_unicode_lowercase, string.text + first, string.length - first);
  return lls_like(lls_builder_end(&out), string);
}

/* ---- splitting and replacing ------------------------------------------------------- */

/* Inserts new_text before every character and at the end, as Python replaces "". */
static struct lls_value interleave(struct lls_render *render, struct lls_value string,
                                   struct lls_value new_text, size_t count)
{
  struct lls_builder out = {.render = render};
  size_t at = 0, size;
  for (; count > 0 && render->code == 0; count--, at += size) {
    lls_builder_put_value(&out, new_text);
    if (at >= string.length)
      break;
    size = lls_utf8_length(string.text + at);
    lls_builder_put(&out, string.text + at, size);
    lls_render_charge(render, NULL, 1);
  }
  if (at < string.length)
    lls_builder_put(&out, string.text + at, string.length - at);
  return lls_builder_end(&out);
}

struct lls_value lls_replace(struct lls_render *render, struct lls_value string,
                             struct lls_value old_text, struct lls_value new_text,
                             size_t count)
{
  struct lls_builder out = {.render = render};
  size_t at = 0, found;
  if (!lls_render_charge(render, NULL, LLS_WORK_OF_TEXT(string.length)))
    return lls_undefined();
  if (old_text.length == 0)
    return interleave(render, string, new_text, count);
  for (; count > 0 && render->code == 0; count--, at = found + old_text.length) {
    found = lls_find(string, at, old_text);
    if (found == SIZE_MAX)
      break;
    lls_builder_put(&out, string.text + at, found - at);
    lls_builder_put_value(&out, new_text);
    lls_render_charge(render, NULL, 1);
  }
  if (at == 0)
    return lls_view(string.text, string.length);
  lls_builder_put(&out, string.text + at, string.length - at);
  return lls_builder_end(&out);
}

static void reverse(struct lls_list *list)
{
  for (uint32_t i = 0; list != NULL && i < list->count / 2; i++) {
    struct lls_value item = list->items[i];
    list->items[i] = list->items[list->count - 1 - i];
    list->items[list->count - 1 - i] = item;
  }
}

static size_t skip_spaces(struct lls_value string, size_t at)
{
  while (at < string.length && is_space(lls_utf8_char(string.text + at)))
    at += lls_utf8_length(string.text + at);
  return at;
}

static struct lls_list *words_from_left(struct lls_render *render,
                                        struct lls_value string, size_t most)
{
  struct lls_list *list = lls_list_new(render, LLS_FORM_LIST);
  size_t at = skip_spaces(string, 0), end;
  for (; at < string.length; at = skip_spaces(string, end)) {
    end = most == 0 ? string.length : at;
    while (end < string.length && !is_space(lls_utf8_char(string.text + end)))
      end += lls_utf8_length(string.text + end);
    most -= most > 0;
    if (!lls_list_push(render, list,
                       lls_like(lls_view(string.text + at, end - at), string)))
      break;
  }
  return list;
}

static size_t skip_spaces_back(struct lls_value string, size_t end)
{
  size_t size;
  while (end > 0 && is_space(lls_utf8_last(string.text, end, &size)))
    end -= size;
  return end;
}

static struct lls_list *words_from_right(struct lls_render *render,
                                         struct lls_value string, size_t most)
{
  struct lls_list *list = lls_list_new(render, LLS_FORM_LIST);
  size_t end = skip_spaces_back(string, string.length), start, size;
  for (; end > 0; end = skip_spaces_back(string, start)) {
    start = most == 0 ? 0 : end;
    while (start > 0 && !is_space(lls_utf8_last(string.text, start, &size)))
      start -= size;
    most -= most > 0;
    if (!lls_list_push(render, list,
                       lls_like(lls_view(string.text + start, end - start), string)))
      break;
  }
  reverse(list);
  return list;
}

struct lls_list *lls_split_words(struct lls_render *render, struct lls_value string,
                                 size_t most, bool from_right)
{
  if (!lls_render_charge(render, NULL, LLS_WORK_OF_TEXT(string.length)))
    return NULL;
  return from_right ? words_from_right(render, string, most)
                    : words_from_left(render, string, most);
}

size_t lls_find_last(struct lls_render *render, struct lls_value text, size_t end,
                     struct lls_value needle)
{
  size_t found = SIZE_MAX, at = end;
  for (; found == SIZE_MAX && at >= needle.length; at--) {
    if (memcmp(text.text + at - needle.length, needle.text, needle.length) == 0)
      found = at - needle.length;
    if (at == 0)
      break;
  }
  lls_render_charge(render, NULL, (end - at) * LLS_WORK_OF_TEXT(needle.length + 63));
  return found;
}

static struct lls_list *split_from_right(struct lls_render *render,
                                         struct lls_value string,
                                         struct lls_value separator, size_t most)
{
  struct lls_list *list = lls_list_new(render, LLS_FORM_LIST);
  size_t end = string.length;
  for (;;) {
    size_t found = most > 0 ? lls_find_last(render, string, end, separator) : SIZE_MAX;
    size_t start = found != SIZE_MAX ? found + separator.length : 0;
    if (!lls_list_push(render, list,
                       lls_like(lls_view(string.text + start, end - start), string)) ||
        found == SIZE_MAX)
      break;
    end = found;
    most--;
  }
  reverse(list);
  return list;
}

struct lls_list *lls_split_at(struct lls_render *render, struct lls_value string,
                              struct lls_value separator, size_t most, bool from_right)
{
  size_t at = 0;
  if (!lls_render_charge(render, NULL, LLS_WORK_OF_TEXT(string.length)))
    return NULL;
  if (from_right)
    return split_from_right(render, string, separator, most);
  struct lls_list *list = lls_list_new(render, LLS_FORM_LIST);
  for (;;) {
    size_t found = most > 0 ? lls_find(string, at, separator) : SIZE_MAX;
    size_t end = found != SIZE_MAX ? found : string.length;
    if (!lls_list_push(render, list,
                       lls_like(lls_view(string.text + at, end - at), string)) ||
        found == SIZE_MAX)
      return list;
    at = end + separator.length;
    most--;
  }
}

/* Returns the length of the line end at text, or 0. */
static size_t line_end(const char *text, size_t length)
{
  int32_t character = lls_utf8_char(text);
  if (character == '\r' && length > 1 && text[1] == '\n')
    return 2;
  bool ends = (character >= '\n' && character <= '\r') ||
              (character >= 0x1c && character <= 0x1e) || character == 0x85 ||
              character == 0x2028 || character == 0x2029;
  return ends ? lls_utf8_length(text) : 0;
}

struct lls_value lls_next_line(struct lls_value text, size_t *at, size_t *end)
{
  size_t start = *at, stop = start;
  *end = 0;
  while (stop < text.length &&
         (*end = line_end(text.text + stop, text.length - stop)) == 0)
    stop += lls_utf8_length(text.text + stop);
  *at = stop + *end;
  return lls_view(text.text + start, stop - start);
}

/* ---- escaping and padding ---------------------------------------------------------- */

struct lls_value lls_escape(struct lls_render *render, struct lls_value string)
{
  static const char characters[] = "&<>'\"";
  static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  struct lls_builder out = {.render = render};
  size_t start = 0;
  if (string.safe || !lls_render_charge(render, NULL, LLS_WORK_OF_TEXT(string.length)))
    return string;
  for (size_t at = 0; at < string.length; at++) {
    const char *found =
        string.text[at] != '\0' ? strchr(characters, string.text[at]) : NULL;
    if (found == NULL)
      continue;
    lls_builder_put(&out, string.text + start, at - start);
    lls_builder_puts(&out, names[found - characters]);
    start = at + 1;
  }
  lls_builder_put(&out, string.text + start, string.length - start);
  struct lls_value escaped = lls_builder_end(&out);
  escaped.safe = true;
  return escaped;
}

struct lls_value lls_pad(struct lls_render *render, struct lls_value string,
                         struct lls_value fill, int64_t width, bool left, bool right)
{
  struct lls_builder out = {.render = render};
  int64_t missing = width - (int64_t)lls_characters(render, string);
  if (missing <= 0 || render->code < 0)
    return string;
  /* Python's str.center puts the odd space on the left if the width is odd */
  int64_t before = left && right ? missing / 2 + (missing & width & 1)
                   : left        ? missing
                                 : 0;
  lls_builder_repeat(&out, fill.text, fill.length, (size_t)before);
  lls_builder_put_value(&out, string);
  lls_builder_repeat(&out, fill.text, fill.length, (size_t)(missing - before));
  return lls_like(lls_builder_end(&out), string);
}
