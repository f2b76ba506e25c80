/* SPDX-License-Identifier: Apache-2.0 */
/* See json_repair.h. */
#include "text/tools/json_repair.h"

#include <string.h>

static bool is_word(char byte)
{
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '+' || byte == '.';
}

static bool is_one_of(char byte, const char *these)
{
  return byte != '\0' && strchr(these, byte) != NULL;
}

/* ---- within strings ---------------------------------------------------------------- */

static void put_control(char byte, struct lls_text *out)
{
  static const char raw[] = "\n\r\t\b\f", letters[] = "nrtbf";
  const char *at = byte != '\0' ? strchr(raw, byte) : NULL;
  if (at != NULL)
    lls_text_printf(out, "\\%c", letters[at - raw]);
  else
    lls_text_printf(out, "\\u%04x", (unsigned)(unsigned char)byte);
}

static void put_letter(char byte, struct lls_text *out)
{
  if ((unsigned char)byte < ' ')
    put_control(byte, out);
  else if (byte == '"') /* an unescaped quote in a string with single quotes */
    lls_text_puts(out, "\\\"");
  else
    lls_text_append(out, &byte, 1);
}

/* Appends a valid JSON escape, or an escaped backslash followed by the byte. */
static void put_escaped(char byte, struct lls_text *out)
{
  if (is_one_of(byte, "\"\\/bfnrtu")) {
    lls_text_append(out, "\\", 1);
    lls_text_append(out, &byte, 1);
    return;
  }
  if (byte != '\'')
    lls_text_append(out, "\\\\", 2);
  put_letter(byte, out);
}

static void in_string(struct lls_json_repair *r, char byte, struct lls_text *out)
{
  if (r->escaped) {
    r->escaped = false;
    put_escaped(byte, out);
  } else if (byte == '\\') {
    r->escaped = true;
  } else if (byte == r->quote) {
    r->quote = '\0';
    lls_text_append(out, "\"", 1);
  } else {
    put_letter(byte, out);
  }
}

/* ---- between strings --------------------------------------------------------------- */

/* Appends the text held back, except a comma before a closing bracket. */
static void release_comma(struct lls_json_repair *r, char byte, struct lls_text *out)
{
  if (r->comma && byte != '}' && byte != ']')
    lls_text_append(out, ",", 1);
  lls_text_append(out, r->spaces, r->n_spaces);
  r->comma = false;
  r->n_spaces = 0;
}

void lls_json_repair_end(struct lls_json_repair *r, struct lls_text *out)
{
  static const char *const words[][2] = {
      {"True", "true"}, {"False", "false"}, {"None", "null"}};
  for (size_t i = 0; i < 3; i++)
    if (r->n_word == strlen(words[i][0]) &&
        memcmp(r->word, words[i][0], r->n_word) == 0) {
      lls_text_puts(out, words[i][1]);
      r->n_word = 0;
    }
  lls_text_append(out, r->word, r->n_word);
  r->n_word = 0;
}

static void add_to_word(struct lls_json_repair *r, char byte, struct lls_text *out)
{
  release_comma(r, byte, out);
  if (r->n_word == sizeof r->word) { /* longer than any word that is replaced */
    lls_text_append(out, r->word, 1);
    memmove(r->word, r->word + 1, --r->n_word);
  }
  r->word[r->n_word++] = byte;
}

static void put_bracket(struct lls_json_repair *r, char byte, struct lls_text *out)
{
  bool opens = byte == '{' || byte == '[';
  r->broken |= !opens && r->depth == 0;
  if (opens)
    r->depth++;
  else if (r->depth > 0)
    r->depth--;
  lls_text_append(out, &byte, 1);
}

static void between(struct lls_json_repair *r, char byte, struct lls_text *out)
{
  if (is_word(byte)) {
    add_to_word(r, byte, out);
    return;
  }
  lls_json_repair_end(r, out);
  if (is_one_of(byte, " \t\r\n") && r->comma) {
    if (r->n_spaces < sizeof r->spaces)
      r->spaces[r->n_spaces++] = byte;
    return;
  }
  if (byte == ',') {
    r->comma = true;
    return;
  }
  release_comma(r, byte, out);
  if (byte == '"' || byte == '\'') {
    r->quote = byte;
    lls_text_append(out, "\"", 1);
  } else if (is_one_of(byte, "{}[]")) {
    put_bracket(r, byte, out);
  } else {
    lls_text_append(out, &byte, 1);
  }
}

void lls_json_repair(struct lls_json_repair *repair, const char *bytes, size_t n,
                     struct lls_text *out)
{
  for (size_t i = 0; i < n; i++) {
    repair->begun |= !is_one_of(bytes[i], " \t\r\n");
    if (repair->quote != '\0')
      in_string(repair, bytes[i], out);
    else
      between(repair, bytes[i], out);
  }
}

bool lls_json_repair_is_whole(const struct lls_json_repair *repair)
{
  return repair->begun && !repair->broken && repair->depth == 0 &&
         repair->quote == '\0' && !repair->comma;
}
