/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates Oniguruma's syntax, and matches.
 *
 * Matching passes PCRE2_NO_UTF_CHECK: without it every call would validate the whole
 * subject again, so that a text of a megabyte would cost a quadratic number of checks.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizer/pattern.h"

#include "text/base/utf8.h"

#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define JIT_STACK_START (32 * 1024)
#define JIT_STACK_MAX   (4 * 1024 * 1024)

/* Oniguruma's definitions: PCRE2's own \s includes U+180E, and its \w excludes marks. */
#define WORD_CLASS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

struct lls_pattern {
  pcre2_code *code;
};

struct lls_matcher {
  pcre2_match_data *data;
  pcre2_match_context *context;
  pcre2_jit_stack *stack;
};

struct translation {
  const char *regex;
  size_t at;
  bool in_class, negated; /* negated: the class begins with [^ */
  size_t class_at;        /* where the class begins in `out` */
  struct lls_bytes out;
};

static void emit(struct translation *t, const char *text)
{
  lls_bytes_append(&t->out, text, strlen(text));
}

static int refuse(const struct translation *t, const char *what, struct lls_error *err)
{
  return lls_fail(err, -ENOTSUP, "regular expression \"%s\", offset %zu: %s", t->regex,
                  t->at, what);
}

/* Translates \uHHHH to PCRE2's \x{HHHH}. */
static int translate_code_unit(struct translation *t, struct lls_error *err)
{
  const char *digits = t->regex + t->at + 2;
  if (strspn(digits, "0123456789abcdefABCDEF") < 4)
    return refuse(t, "\\u is not followed by four hexadecimal digits", err);
  emit(t, "\\x{");
  lls_bytes_append(&t->out, digits, 4);
  emit(t, "}");
  t->at += 6;
  return 0;
}

/* Copies \p{...}, \P{...} or \x{...} with its braces, which are not a quantifier. */
static int copy_braced(struct translation *t, struct lls_error *err)
{
  const char *start = t->regex + t->at;
  const char *end = start + 2;
  if (*end == '{') {
    end = strchr(end, '}');
    if (end == NULL)
      return refuse(t, "a { is not closed", err);
    end++;
  }
  lls_bytes_append(&t->out, start, (size_t)(end - start));
  t->at += (size_t)(end - start);
  return 0;
}

static int translate_escape(struct translation *t, struct lls_error *err)
{
  char letter = t->regex[t->at + 1];
  switch (letter) {
  case '\0':
    return refuse(t, "it ends in a backslash", err);
  case 'u':
    return translate_code_unit(t, err);
  case 'p':
  case 'P':
  case 'x':
    return copy_braced(t, err);
  case 's':
    emit(t, "\\p{White_Space}");
    break;
  case 'S':
    emit(t, "\\P{White_Space}");
    break;
  case 'w':
    emit(t, t->in_class ? WORD_CLASS : "[" WORD_CLASS "]");
    break;
  case 'W':
    if (t->in_class)
      return refuse(t, "\\W inside a class is not supported", err);
    emit(t, "[^" WORD_CLASS "]");
    break;
  case 'v':
    emit(t, "\\x0b");
    break;
  default:
    if (strchr("bBhHRXKGQECNyYOM", letter) != NULL)
      return refuse(t, "this escape is not supported", err);
    lls_bytes_append(&t->out, t->regex + t->at, 2);
  }
  t->at += 2;
  return 0;
}

/* Copies "[" or "[^", and a "]" directly after it, which is a member of the class. */
static void open_class(struct translation *t)
{
  size_t length = t->regex[t->at + 1] == '^' ? 2 : 1;
  t->negated = length == 2;
  t->class_at = t->out.length;
  lls_bytes_append(&t->out, t->regex + t->at, length);
  t->at += length;
  t->in_class = true;
}

static int translate_in_class(struct translation *t, struct lls_error *err);

/* Translates the class after &&, up to its "]". */
static int translate_second(struct translation *t, struct lls_error *err)
{
  int code = t->regex[t->at] == ']' ? refuse(t, "a class is empty", err) : 0;
  while (code == 0 && t->regex[t->at] != ']')
    code = t->regex[t->at] == '\0'   ? refuse(t, "a class is not closed", err)
           : t->regex[t->at] == '\\' ? translate_escape(t, err)
                                     : translate_in_class(t, err);
  if (code == 0 && t->regex[t->at + 1] != ']')
    code = refuse(t, "more than two classes in an intersection are not supported", err);
  return code;
}

/* Translates [A&&[B]] to (?:(?=[B])[A]), and [A&&[^B]] to (?:(?![B])[A]). PCRE2 before
 * 10.45 has no intersection. */
static int translate_intersection(struct translation *t, struct lls_error *err)
{
  bool without = strncmp(t->regex + t->at, "&&[^", 4) == 0;
  size_t n = t->out.length - t->class_at;
  if (t->negated || n < 2 || t->regex[t->at + 2] != '[')
    return refuse(t, "an intersection of classes other than [A&&[B]] is not supported",
                  err);
  struct lls_bytes first = {0};
  lls_bytes_append(&first, t->out.data + t->class_at, n);
  t->out.length = t->class_at;
  emit(t, without ? "(?:(?![" : "(?:(?=[");
  t->at += without ? 4 : 3;
  t->negated = true; /* refuses a third class */
  int code = translate_second(t, err);
  emit(t, "])");
  lls_bytes_append(&t->out, first.data != NULL ? first.data : "", first.length);
  emit(t, "])");
  t->out.failed |= first.failed;
  lls_bytes_free(&first);
  t->at += code == 0 ? 2 : 0;
  t->in_class = false;
  return code;
}

static int translate_in_class(struct translation *t, struct lls_error *err)
{
  const char *rest = t->regex + t->at;
  if (strncmp(rest, "[:", 2) == 0) {
    const char *end = strstr(rest, ":]");
    if (end == NULL)
      return refuse(t, "a POSIX class is not closed", err);
    lls_bytes_append(&t->out, rest, (size_t)(end + 2 - rest));
    t->at += (size_t)(end + 2 - rest);
    return 0;
  }
  if (*rest == '[')
    return refuse(t, "a class inside a class is not supported", err);
  if (strncmp(rest, "&&", 2) == 0)
    return translate_intersection(t, err);
  if (*rest == ']')
    t->in_class = false;
  lls_bytes_append(&t->out, rest, 1);
  t->at++;
  return 0;
}

/* Checks Ruby's "(?flags", where m means that a dot matches a newline. */
static int check_group(const struct translation *t, struct lls_error *err)
{
  const char *rest = t->regex + t->at;
  if (strncmp(rest, "(?", 2) != 0)
    return 0;
  size_t letters = strspn(rest + 2, "imxsa-");
  if (memchr(rest + 2, 'm', letters) != NULL || memchr(rest + 2, 'x', letters) != NULL)
    return refuse(t, "the options m and x are not supported", err);
  return 0;
}

static int translate_plain(struct translation *t, struct lls_error *err)
{
  const char *rest = t->regex + t->at;
  if (strncmp(rest, "}+", 2) == 0)
    return refuse(t, "a + after {n,m} is not supported, engines disagree on it", err);
  if (strncmp(rest, "{,", 2) == 0)
    return refuse(t, "{,n} is not supported, write {0,n}", err);
  int code = check_group(t, err);
  if (code < 0)
    return code;
  if (*rest == '[') {
    open_class(t);
    return 0;
  }
  lls_bytes_append(&t->out, rest, 1);
  t->at++;
  return 0;
}

static int translate(struct translation *t, struct lls_error *err)
{
  int code = 0;
  while (code == 0 && t->regex[t->at] != '\0') {
    if (t->regex[t->at] == '\\')
      code = translate_escape(t, err);
    else if (t->in_class)
      code = translate_in_class(t, err);
    else
      code = translate_plain(t, err);
  }
  if (code == 0 && t->out.failed)
    code = lls_fail(err, -ENOMEM, "no memory for a regular expression");
  return code;
}

static int compile(const char *text, size_t length, uint32_t options, const char *shown,
                   struct lls_pattern **out, struct lls_error *err)
{
  struct lls_pattern *pattern = calloc(1, sizeof *pattern);
  if (pattern == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a regular expression");
  int error;
  PCRE2_SIZE offset;
  pattern->code =
      pcre2_compile((PCRE2_SPTR)text, length, PCRE2_UTF | options, &error, &offset, NULL);
  if (pattern->code == NULL) {
    PCRE2_UCHAR message[160] = "";
    pcre2_get_error_message(error, message, sizeof message);
    free(pattern);
    return lls_fail(err, -EINVAL, "regular expression \"%s\": %s", shown,
                    (char *)message);
  }
  pcre2_jit_compile(pattern->code,
                    PCRE2_JIT_COMPLETE); /* if the JIT is not available, matching is
                                          * slower but equally correct */
  *out = pattern;
  return 0;
}

int lls_pattern_compile(const char *text, bool literal, struct lls_pattern **out,
                        struct lls_error *err)
{
  if (literal)
    return compile(text, strlen(text), PCRE2_LITERAL, text, out, err);
  struct translation t = {.regex = text};
  int code = translate(&t, err);
  if (code == 0)
    code = compile(t.out.data != NULL ? t.out.data : "", t.out.length,
                   PCRE2_UCP | PCRE2_MULTILINE, text, out, err);
  lls_bytes_free(&t.out);
  return code;
}

int lls_pattern_load(const json_t *node, struct lls_pattern **out, struct lls_error *err)
{
  const json_t *pattern = json_object_get(node, "pattern");
  const char *regex = json_string_value(json_object_get(pattern, "Regex"));
  const char *literal = json_string_value(json_object_get(pattern, "String"));
  if (regex != NULL)
    return lls_pattern_compile(regex, false, out, err);
  if (literal != NULL)
    return lls_pattern_compile(literal, true, out, err);
  return lls_fail(err, -EINVAL, "\"pattern\" is neither a \"String\" nor a \"Regex\"");
}

void lls_pattern_free(struct lls_pattern *pattern)
{
  if (pattern == NULL)
    return;
  pcre2_code_free(pattern->code);
  free(pattern);
}

int lls_matcher_new(struct lls_matcher **out)
{
  struct lls_matcher *matcher = calloc(1, sizeof *matcher);
  if (matcher == NULL)
    return -ENOMEM;
  matcher->data = pcre2_match_data_create(1, NULL);
  matcher->context = pcre2_match_context_create(NULL);
  if (matcher->data == NULL || matcher->context == NULL) {
    lls_matcher_free(matcher);
    return -ENOMEM;
  }
  matcher->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, NULL);
  pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
  *out = matcher;
  return 0;
}

void lls_matcher_free(struct lls_matcher *matcher)
{
  if (matcher == NULL)
    return;
  pcre2_match_data_free(matcher->data);
  pcre2_match_context_free(matcher->context);
  pcre2_jit_stack_free(matcher->stack);
  free(matcher);
}

int lls_pattern_find(const struct lls_pattern *pattern, struct lls_matcher *matcher,
                     const char *text, size_t length, size_t offset, size_t *start,
                     size_t *end)
{
  int found = pcre2_match(pattern->code, (PCRE2_SPTR)text, length, offset,
                          PCRE2_NO_UTF_CHECK, matcher->data, matcher->context);
  /* groups need stack for each letter of a run: 600,000 letters are more than 4 MiB */
  if (found == PCRE2_ERROR_JIT_STACKLIMIT)
    found =
        pcre2_match(pattern->code, (PCRE2_SPTR)text, length, offset,
                    PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, matcher->data, matcher->context);
  if (found == PCRE2_ERROR_NOMATCH)
    return 0;
  if (found < 0)
    return found == PCRE2_ERROR_NOMEMORY ? -ENOMEM : -E2BIG;
  const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(matcher->data);
  *start = bounds[0];
  *end = bounds[1];
  return 1;
}

int lls_pattern_replace(const struct lls_pattern *pattern, struct lls_matcher *matcher,
                        const char *text, size_t length, const char *content,
                        struct lls_bytes *out)
{
  size_t kept = 0, at = 0, start, end;
  int found = 0;
  while (at <= length) {
    found = lls_pattern_find(pattern, matcher, text, length, at, &start, &end);
    if (found <= 0)
      break;
    lls_bytes_append(out, text + kept, start - kept);
    lls_bytes_append(out, content, strlen(content));
    kept = end;
    at = end > start ? end : end == length ? end + 1 : end + lls_utf8_length(text + end);
  }
  lls_bytes_append(out, text + kept, length - kept);
  return found < 0 ? found : 0;
}
