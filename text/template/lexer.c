/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over the source: in each step a tag, or the text up to the next tag; see
 * lexer.h. */
#include "text/template/lexer.h"

#include "text/base/buffer.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MAX_BRACKETS 200

struct lexer {
  const char *source;
  size_t length;
  size_t at;
  bool line_starting; /* the last text ended in a newline */
  struct lls_words *out;
  struct lls_error *err;
};

void lls_place(const char *source, size_t offset, char out[static 48])
{
  size_t line = 1, begin = 0;
  for (size_t i = 0; i < offset; i++) {
    if (source[i] == '\n') {
      line++;
      begin = i + 1;
    }
  }
  snprintf(out, 48, "line %zu, column %zu", line, offset - begin + 1);
}

static int refuse(const struct lexer *lexer, size_t offset, const char *what)
{
  char place[48];
  lls_place(lexer->source, offset, place);
  return lls_fail(lexer->err, -EINVAL, "%s: %s", place, what);
}

static int add(struct lexer *lexer, enum lls_token_kind kind, size_t start, size_t length)
{
  struct lls_words *out = lexer->out;
  if (!lls_grow((void **)&out->words, &out->capacity, out->count + 1, sizeof *out->words))
    return lls_fail(lexer->err, -ENOMEM, "no memory for the chat template");
  out->words[out->count++] = (struct lls_word){kind, start, length};
  return 0;
}

static bool is_space(char c)
{
  return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool starts(const struct lexer *lexer, const char *word)
{
  size_t length = strlen(word);
  return lexer->length - lexer->at >= length &&
         memcmp(lexer->source + lexer->at, word, length) == 0;
}

static bool at_tag(const struct lexer *lexer)
{
  return starts(lexer, "{{") || starts(lexer, "{%") || starts(lexer, "{#");
}

/* Returns where the text before a tag ends, without the white space that the tag
 * removes. */
static size_t trim_before(const struct lexer *lexer, size_t start)
{
  size_t end = lexer->at;
  char sign = end + 2 < lexer->length ? lexer->source[end + 2] : '\0';
  if (sign == '-') {
    while (end > start && is_space(lexer->source[end - 1]))
      end--;
    return end;
  }
  if (sign == '+' || starts(lexer, "{{"))
    return end;
  size_t line = end;
  while (line > start && lexer->source[line - 1] != '\n' &&
         is_space(lexer->source[line - 1]))
    line--;
  bool begins_line =
      line > start ? lexer->source[line - 1] == '\n' : lexer->line_starting;
  return begins_line ? line : end;
}

static int lex_text(struct lexer *lexer)
{
  size_t start = lexer->at;
  while (lexer->at < lexer->length && !at_tag(lexer))
    lexer->at++;
  size_t end = lexer->at < lexer->length ? trim_before(lexer, start) : lexer->at;
  return end > start ? add(lexer, LLS_TOKEN_TEXT, start, end - start) : 0;
}

/* Skips the end of a tag, and the white space after it that the tag removes. */
static void pass_end(struct lexer *lexer, char sign, bool takes_newline)
{
  lexer->at += sign == '-' || sign == '+' ? 3 : 2;
  if (sign == '-')
    while (lexer->at < lexer->length && is_space(lexer->source[lexer->at]))
      lexer->at++;
  else if (sign != '+' && takes_newline && starts(lexer, "\n"))
    lexer->at++;
  lexer->line_starting = lexer->source[lexer->at - 1] == '\n';
}

static int lex_comment(struct lexer *lexer)
{
  size_t start = lexer->at;
  const char *end = strstr(lexer->source + lexer->at + 2, "#}");
  if (end == NULL || (size_t)(end - lexer->source) >= lexer->length)
    return refuse(lexer, start, "this comment is not closed");
  char sign = end[-1];
  if ((sign != '-' && sign != '+') || end - 1 < lexer->source + start + 2)
    sign = '\0';
  lexer->at = (size_t)(end - lexer->source) - (sign != '\0');
  pass_end(lexer, sign, true);
  return 0;
}

static int lex_string(struct lexer *lexer)
{
  size_t start = lexer->at;
  char quote = lexer->source[start];
  for (lexer->at++; lexer->at < lexer->length; lexer->at++) {
    if (lexer->source[lexer->at] == '\\')
      lexer->at++;
    else if (lexer->source[lexer->at] == quote) {
      lexer->at++;
      return add(lexer, LLS_TOKEN_STRING, start, lexer->at - start);
    }
  }
  return refuse(lexer, start, "this string is not closed");
}

static void pass_digits(struct lexer *lexer, bool hexadecimal)
{
  while (lexer->at < lexer->length) {
    unsigned char c = (unsigned char)lexer->source[lexer->at];
    if (c != '_' && !(hexadecimal ? isxdigit(c) : isdigit(c)))
      return;
    lexer->at++;
  }
}

/* Returns the character `places` ahead, or '\0'. */
static char ahead(const struct lexer *lexer, size_t places)
{
  return lexer->length - lexer->at > places ? lexer->source[lexer->at + places] : '\0';
}

/* Skips the exponent of a number. Returns whether there was one. */
static bool pass_exponent(struct lexer *lexer)
{
  size_t sign = ahead(lexer, 1) == '+' || ahead(lexer, 1) == '-';
  if (tolower((unsigned char)ahead(lexer, 0)) != 'e' ||
      !isdigit((unsigned char)ahead(lexer, 1 + sign)))
    return false;
  lexer->at += 1 + sign;
  pass_digits(lexer, false);
  return true;
}

static int lex_number(struct lexer *lexer)
{
  size_t start = lexer->at;
  bool member = start > 0 && lexer->source[start - 1] == '.'; /* a member, as in a.0.1 */
  bool fraction = false;
  if (ahead(lexer, 0) == '0' && strchr("xXbBoO", ahead(lexer, 1)) != NULL &&
      isxdigit((unsigned char)ahead(lexer, 2))) {
    lexer->at += 2;
    pass_digits(lexer, true);
    return add(lexer, LLS_TOKEN_INTEGER, start, lexer->at - start);
  }
  pass_digits(lexer, false);
  if (!member && ahead(lexer, 0) == '.' && isdigit((unsigned char)ahead(lexer, 1))) {
    lexer->at++;
    pass_digits(lexer, false);
    fraction = true;
  }
  if (!member && pass_exponent(lexer))
    fraction = true;
  return add(lexer, fraction ? LLS_TOKEN_FLOAT : LLS_TOKEN_INTEGER, start,
             lexer->at - start);
}

static int lex_name(struct lexer *lexer)
{
  size_t start = lexer->at;
  while (isalnum((unsigned char)ahead(lexer, 0)) || ahead(lexer, 0) == '_')
    lexer->at++;
  return add(lexer, LLS_TOKEN_NAME, start, lexer->at - start);
}

static int lex_operator(struct lexer *lexer)
{
  static const char *const operators[] = {
      "==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~", "<",
      ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ":", ".", "|"};
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
    if (starts(lexer, operators[i])) {
      size_t start = lexer->at;
      lexer->at += strlen(operators[i]);
      return add(lexer, LLS_TOKEN_OPERATOR, start, strlen(operators[i]));
    }
  }
  return refuse(lexer, lexer->at, "this character has no meaning here");
}

/* Returns true at the end of a tag: its mark, perhaps after a sign. */
static bool at_end(const struct lexer *lexer, const char *mark, char *sign)
{
  *sign = '\0';
  if (starts(lexer, mark))
    return true;
  *sign = lexer->source[lexer->at];
  return (*sign == '-' || (*sign == '+' && *mark == '%')) &&
         lexer->length - lexer->at >= 3 &&
         memcmp(lexer->source + lexer->at + 1, mark, 2) == 0;
}

/* Reads one word inside a tag. */
static int lex_inside(struct lexer *lexer, int *brackets)
{
  char c = lexer->source[lexer->at];
  if (c == '\'' || c == '"')
    return lex_string(lexer);
  if (isdigit((unsigned char)c))
    return lex_number(lexer);
  if (isalpha((unsigned char)c) || c == '_')
    return lex_name(lexer);
  if (strchr("([{", c) != NULL && ++*brackets > MAX_BRACKETS)
    return refuse(lexer, lexer->at, "brackets are nested too deeply");
  if (strchr(")]}", c) != NULL && --*brackets < 0)
    return refuse(lexer, lexer->at, "this bracket was not opened");
  return lex_operator(lexer);
}

/* Skips "{% word %}" with its signs, if it comes next; *sign is the sign at its end. */
static bool pass_word_tag(struct lexer *lexer, const char *word, char *sign)
{
  struct lexer next = *lexer;
  if (!starts(&next, "{%"))
    return false;
  next.at += 2;
  if (ahead(&next, 0) == '-' || ahead(&next, 0) == '+')
    next.at++;
  while (is_space(ahead(&next, 0)))
    next.at++;
  if (!starts(&next, word))
    return false;
  next.at += strlen(word);
  while (is_space(ahead(&next, 0)))
    next.at++;
  if (next.at >= next.length || !at_end(&next, "%}", sign))
    return false;
  *lexer = next;
  return true;
}

/* {% raw %}: takes all text up to {% endraw %} unchanged. */
static int lex_raw(struct lexer *lexer, size_t start, char sign)
{
  pass_end(lexer, sign, false);
  size_t begin = lexer->at;
  for (; lexer->at < lexer->length; lexer->at++) {
    if (!starts(lexer, "{%"))
      continue;
    size_t end = trim_before(lexer, begin);
    if (!pass_word_tag(lexer, "endraw", &sign))
      continue;
    pass_end(lexer, sign, true);
    return end > begin ? add(lexer, LLS_TOKEN_TEXT, begin, end - begin) : 0;
  }
  return refuse(lexer, start, "this raw block is not closed");
}

static int lex_tag(struct lexer *lexer)
{
  size_t start = lexer->at;
  bool print = starts(lexer, "{{");
  const char *mark = print ? "}}" : "%}";
  int brackets = 0;
  int code = add(lexer, print ? LLS_TOKEN_PRINT : LLS_TOKEN_STATEMENT, start, 2);
  lexer->at += 2;
  if (lexer->at < lexer->length &&
      (lexer->source[lexer->at] == '-' || (!print && lexer->source[lexer->at] == '+')))
    lexer->at++;
  while (code == 0 && lexer->at < lexer->length) {
    char sign;
    if (is_space(lexer->source[lexer->at])) {
      lexer->at++;
    } else if (brackets == 0 && at_end(lexer, mark, &sign)) {
      size_t end = lexer->at;
      pass_end(lexer, sign, !print);
      return add(lexer, print ? LLS_TOKEN_PRINT_END : LLS_TOKEN_STATEMENT_END, end, 2);
    } else {
      code = lex_inside(lexer, &brackets);
    }
  }
  return code < 0 ? code : refuse(lexer, start, "this tag is not closed");
}

int lls_lex(const char *source, size_t length, struct lls_words *out,
            struct lls_error *err)
{
  if (length > 0 && source[length - 1] == '\n')
    length--;
  struct lexer lexer = {
      .source = source, .length = length, .line_starting = true, .out = out, .err = err};
  int code = 0;
  while (code == 0 && lexer.at < length) {
    char sign;
    code = lex_text(&lexer);
    size_t start = lexer.at;
    if (code == 0 && starts(&lexer, "{#"))
      code = lex_comment(&lexer);
    else if (code == 0 && lexer.at < length)
      code = pass_word_tag(&lexer, "raw", &sign) ? lex_raw(&lexer, start, sign)
                                                 : lex_tag(&lexer);
  }
  return code < 0 ? code : add(&lexer, LLS_TOKEN_END, length, 0);
}
