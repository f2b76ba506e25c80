/* SPDX-License-Identifier: Apache-2.0 */
/* Values: truth, equality and conversion, all as Python has them. */
#include "core/template/state.h"

#include "core/tokenizer/unicode.h"
#include "core/tokenizer/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *lls_type_name(const json_t *value)
{
  if (value == NULL)
    return "undefined";
  switch (json_typeof(value)) {
  case JSON_OBJECT:
    return "a mapping";
  case JSON_ARRAY:
    return "a list";
  case JSON_STRING:
    return "a string";
  case JSON_INTEGER:
  case JSON_REAL:
    return "a number";
  case JSON_NULL:
    return "none";
  default:
    return "a boolean";
  }
}

bool lls_truth(const json_t *value)
{
  if (value == NULL)
    return false;
  switch (json_typeof(value)) {
  case JSON_OBJECT:
    return json_object_size(value) > 0;
  case JSON_ARRAY:
    return json_array_size(value) > 0;
  case JSON_STRING:
    return json_string_length(value) > 0;
  case JSON_INTEGER:
  case JSON_REAL:
    return json_number_value(value) != 0;
  default:
    return json_is_true(value);
  }
}

/* A boolean counts as a number, as in Python. */
static bool to_number(const json_t *value, double *number)
{
  if (!json_is_number(value) && !json_is_boolean(value))
    return false;
  *number = json_is_number(value) ? json_number_value(value) : json_is_true(value);
  return true;
}

bool lls_equal(const json_t *left, const json_t *right)
{
  double a, b;
  if (left == NULL || right == NULL)
    return left == right;
  if (to_number(left, &a) && to_number(right, &b))
    return a == b;
  return json_equal(left, right);
}

size_t lls_characters(const json_t *string)
{
  const char *text = json_string_value(string);
  size_t count = 0, length = json_string_length(string);
  for (size_t at = 0; at < length; at += lls_utf8_length(text + at))
    count++;
  return count;
}

size_t lls_character_offset(const json_t *string, size_t number)
{
  const char *text = json_string_value(string);
  size_t at = 0, length = json_string_length(string);
  for (; at < length && number > 0; number--)
    at += lls_utf8_length(text + at);
  return at;
}

/* The shortest decimal that reads back as the same number. */
static void print_real(double number, char out[static 40])
{
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(out, 32, "%.*g", digits, number);
    if (strtod(out, NULL) == number)
      break;
  }
  if (strpbrk(out, ".en") == NULL)
    strcat(out, ".0");
}

json_t *lls_to_string(struct lls_render *render, const struct lls_node *node,
                      json_t *value)
{
  char text[40] = "";
  if (json_is_string(value))
    return json_incref(value);
  if (json_is_object(value) || json_is_array(value))
    return lls_render_fail(render, node, "%s cannot be printed", lls_type_name(value));
  if (json_is_null(value))
    strcpy(text, "None");
  else if (json_is_boolean(value))
    strcpy(text, json_is_true(value) ? "True" : "False");
  else if (json_is_integer(value))
    snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  else if (json_is_real(value))
    print_real(json_real_value(value), text);
  return lls_render_string(render, text, strlen(text));
}

static json_t *list_characters(struct lls_render *render, const json_t *string)
{
  json_t *list = lls_render_made(render, json_array());
  const char *text = json_string_value(string);
  size_t length = json_string_length(string), size;
  for (size_t at = 0; at < length && render->code == 0; at += size) {
    size = lls_utf8_length(text + at);
    json_array_append_new(list, lls_render_string(render, text + at, size));
  }
  return list;
}

json_t *lls_to_list(struct lls_render *render, const struct lls_node *node, json_t *value)
{
  if (json_is_array(value))
    return json_incref(value);
  if (json_is_string(value))
    return list_characters(render, value);
  if (value != NULL && !json_is_object(value))
    return lls_render_fail(render, node, "cannot go through %s", lls_type_name(value));
  json_t *list = lls_render_made(render, json_array());
  const char *key;
  json_t *item;
  json_object_foreach(value, key, item)
      json_array_append_new(list, lls_render_string(render, key, strlen(key)));
  return list;
}

/* Whether a character is one of those to be stripped. */
static bool is_stripped(int32_t character, const char *characters)
{
  if (characters == NULL)
    return lls_char_is_space(character) || (character >= 0x1c && character <= 0x1f);
  for (; *characters != '\0'; characters += lls_utf8_length(characters))
    if (lls_utf8_char(characters) == character)
      return true;
  return false;
}

json_t *lls_strip(struct lls_render *render, const json_t *string, const char *characters,
                  bool left, bool right)
{
  const char *text = json_string_value(string);
  size_t start = 0, end = json_string_length(string), size;
  while (left && start < end && is_stripped(lls_utf8_char(text + start), characters))
    start += lls_utf8_length(text + start);
  while (right && end > start &&
         is_stripped(lls_utf8_last(text + start, end - start, &size), characters))
    end -= size;
  return lls_render_string(render, text + start, end - start);
}

static json_t *take_bytes(struct lls_render *render, struct lls_bytes *bytes)
{
  json_t *string = NULL;
  if (bytes->failed)
    lls_render_made(render, NULL);
  else
    string = lls_render_string(render, bytes->data, bytes->length);
  lls_bytes_free(bytes);
  return string;
}

json_t *lls_upper(struct lls_render *render, const json_t *string)
{
  struct lls_bytes out = {0};
  lls_unicode_uppercase(json_string_value(string), json_string_length(string), &out);
  return take_bytes(render, &out);
}

json_t *lls_lower(struct lls_render *render, const json_t *string)
{
  struct lls_bytes out = {0};
  lls_unicode_lowercase(json_string_value(string), json_string_length(string), &out);
  return take_bytes(render, &out);
}

json_t *lls_capitalize(struct lls_render *render, const json_t *string, bool every_word)
{
  struct lls_bytes out = {0};
  const char *text = json_string_value(string);
  bool begins = true;
  for (size_t at = 0, size; at < json_string_length(string); at += size) {
    size = lls_utf8_length(text + at);
    if (begins)
      lls_unicode_uppercase(text + at, size, &out);
    else
      lls_unicode_lowercase(text + at, size, &out);
    begins = every_word && !lls_char_is_letter(lls_utf8_char(text + at));
  }
  return take_bytes(render, &out);
}

json_t *lls_replace(struct lls_render *render, const struct lls_node *node,
                    const json_t *string, const json_t *old_text, const json_t *new_text,
                    size_t count)
{
  if (!json_is_string(old_text) || !json_is_string(new_text) ||
      json_string_length(old_text) == 0)
    return lls_render_fail(render, node,
                           "replace needs two strings, the first not empty");
  struct lls_bytes out = {0};
  const char *at = json_string_value(string), *end = at + json_string_length(string);
  size_t old_length = json_string_length(old_text);
  const char *found;
  for (; count > 0; count--, at = found + old_length) {
    found = memmem(at, (size_t)(end - at), json_string_value(old_text), old_length);
    if (found == NULL ||
        !lls_render_charge(render, node,
                           1 + LLS_WORK_OF_TEXT(json_string_length(new_text))))
      break;
    lls_bytes_append(&out, at, (size_t)(found - at));
    lls_bytes_append(&out, json_string_value(new_text), json_string_length(new_text));
  }
  lls_bytes_append(&out, at, (size_t)(end - at));
  return take_bytes(render, &out);
}

json_t *lls_pairs(struct lls_render *render, const struct lls_node *node,
                  const json_t *object)
{
  if (object != NULL && !json_is_object(object))
    return lls_render_fail(render, node, "cannot take the items of %s",
                           lls_type_name(object));
  json_t *list = lls_render_made(render, json_array());
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value)
  {
    if (lls_render_charge(render, node, 1))
      json_array_append_new(list, json_pack("[s, O]", key, value));
  }
  return lls_render_check(render, node, list);
}
