/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalisation forms (UAX #15): decompose, order the marks, compose.
 *
 * utf8proc orders marks by swapping neighbours, which is quadratic in a run of marks,
 * and a run may be as long as a client's text: 80 KB of two alternating marks took 3.7
 * s. So only utf8proc's per-character tables and its composition are used; marks are
 * ordered here by a counting sort, linear in the run.
 */
#include "text/base/unicode.h"

#include "text/base/unicode8.h"
#include "text/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Most code points in the decomposition of one character: U+FDFA in NFKD. */
#define MAX_EXPANSION 18
#define CLASSES       256

struct codepoints {
  int32_t *data;
  size_t count;
  size_t capacity;
};

struct range {
  int32_t first, last;
};

#define HAS(ranges, codepoint) has(ranges, sizeof(ranges) / sizeof *(ranges), codepoint)

/* Searches sorted ranges. */
static bool has(const struct range *ranges, size_t count, int32_t codepoint)
{
  size_t i = 0;
  while (i < count && ranges[i].last < codepoint)
    i++;
  return i < count && ranges[i].first <= codepoint;
}

/*
 * The reference (the crate unicode-normalization-alignments) implements Unicode 9.0:
 * later marks are not reordered, and characters that later received a decomposition are
 * not decomposed. The lists were found by querying it about every code point
 * (t/campaign/outside.t finds missing ones); those of Unicode 15 come from its
 * UnicodeData.txt.
 */
static const struct range newer_marks[] = {
    {0x07FD, 0x07FD},   {0x0898, 0x089F},   {0x08CA, 0x08D3},   {0x09FE, 0x09FE},
    {0x0C3C, 0x0C3C},   {0x0D3B, 0x0D3C},   {0x0EBA, 0x0EBA},   {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x10D24, 0x10D27},
    {0x10EAB, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070},
    {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x1193D, 0x1193E},
    {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
    {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}};
static const struct range newer_wholes[] = {
    {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xAB69, 0xAB69},   {0x10781, 0x107BA},
    {0x11938, 0x11938}, {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

static int combining_class(int32_t codepoint)
{
  int class = utf8proc_get_property(codepoint)->combining_class;
  return class != 0 && HAS(newer_marks, codepoint) ? 0 : class;
}

static int decompose(const char *text, size_t length, bool compatibility,
                     struct codepoints *out)
{
  int options = UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
  for (size_t at = 0; at < length; at += lls_utf8_length(text + at)) {
    if (!lls_grow((void **)&out->data, &out->capacity, out->count + MAX_EXPANSION,
                  sizeof *out->data))
      return -ENOMEM;
    int boundary = 0;
    int32_t c = lls_utf8_char(text + at);
    if (HAS(newer_wholes, c))
      out->data[out->count++] = c;
    else
      out->count +=
          (size_t)utf8proc_decompose_char(c, out->data + out->count, MAX_EXPANSION,
                                          (utf8proc_option_t)options, &boundary);
  }
  return 0;
}

/* Sorts a run of marks by combining class, keeping the order within a class. */
static int order_run(int32_t *run, size_t count)
{
  size_t starts[CLASSES + 1] = {0};
  int32_t *sorted = malloc(count * sizeof *sorted);
  if (sorted == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < count; i++)
    starts[combining_class(run[i]) + 1]++;
  for (size_t c = 1; c <= CLASSES; c++)
    starts[c] += starts[c - 1];
  for (size_t i = 0; i < count; i++)
    sorted[starts[combining_class(run[i])]++] = run[i];
  memcpy(run, sorted, count * sizeof *run);
  free(sorted);
  return 0;
}

static int order_marks(struct codepoints *text)
{
  for (size_t start = 0; start < text->count;) {
    size_t end = start;
    while (end < text->count && combining_class(text->data[end]) != 0)
      end++;
    if (end - start > 1 && order_run(text->data + start, end - start) < 0)
      return -ENOMEM;
    start = end + 1;
  }
  return 0;
}

int lls_unicode_normalize(enum lls_unicode_form form, const char *text, size_t length,
                          struct lls_bytes *out)
{
  struct codepoints work = {0};
  int code = decompose(text, length, form == LLS_NFKC || form == LLS_NFKD, &work);
  if (code == 0)
    code = order_marks(&work);
  if (code == 0 && (form == LLS_NFC || form == LLS_NFKC) && work.count > 0)
    work.count = (size_t)utf8proc_normalize_utf32(
        work.data, (utf8proc_ssize_t)work.count,
        (utf8proc_option_t)(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  for (size_t i = 0; code == 0 && i < work.count; i++)
    lls_bytes_append_char(out, work.data[i]);
  free(work.data);
  return code;
}

void lls_unicode_lowercase(const char *text, size_t length, struct lls_bytes *out)
{
  for (size_t at = 0; at < length; at += lls_utf8_length(text + at)) {
    int32_t codepoint = lls_utf8_char(text + at);
    if (codepoint == 0x130) /* the only character whose lower case has two code points */
      lls_bytes_append(out, "i\xcc\x87", 3);
    else
      lls_bytes_append_char(out, utf8proc_tolower(codepoint));
  }
}

void lls_unicode_uppercase(const char *text, size_t length, struct lls_bytes *out)
{
  for (size_t at = 0; at < length; at += lls_utf8_length(text + at))
    lls_bytes_append_char(out, utf8proc_toupper(lls_utf8_char(text + at)));
}

void lls_unicode_strip_accents(const char *text, size_t length, struct lls_bytes *out)
{
  for (size_t at = 0, size; at < length; at += size) {
    size = lls_utf8_length(text + at);
    utf8proc_category_t category = utf8proc_category(lls_utf8_char(text + at));
    if (category < UTF8PROC_CATEGORY_MN || category > UTF8PROC_CATEGORY_ME)
      lls_bytes_append(out, text + at, size);
  }
}

/* ---- BERT ------------------------------------------------------------------------- */

/* Categories are those of Unicode 8.0, see unicode8.h: for a model trained with those
 * tables, a mark missing in them is part of a word. */
#define RANGE(from, to) {0x##from, 0x##to},

static bool is_nonspacing(int32_t codepoint)
{
  static const struct range since[] = {LLS_MARKS_SINCE_8(RANGE)};
  static const struct range then[] = {LLS_MARKS_OF_8(RANGE)};
  if (utf8proc_category(codepoint) == UTF8PROC_CATEGORY_MN)
    return !HAS(since, codepoint);
  return HAS(then, codepoint);
}

void lls_unicode_strip_nonspacing(const char *text, size_t length, struct lls_bytes *out)
{
  for (size_t at = 0, size; at < length; at += size) {
    size = lls_utf8_length(text + at);
    if (!is_nonspacing(lls_utf8_char(text + at)))
      lls_bytes_append(out, text + at, size);
  }
}

/* Control, format and private characters, except tab and line breaks. Unassigned ones
 * are kept, although BERT's own code removes them (tokenization.py, _is_control): the
 * tables of its reference have no such category. */
static bool is_control(int32_t codepoint)
{
  static const struct range since[] = {LLS_FORMAT_SINCE_8(RANGE)};
  if (codepoint == '\t' || codepoint == '\n' || codepoint == '\r')
    return false;
  utf8proc_category_t category = utf8proc_category(codepoint);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CO ||
         (category == UTF8PROC_CATEGORY_CF && !HAS(since, codepoint));
}

void lls_unicode_clean(const char *text, size_t length, struct lls_bytes *out)
{
  for (size_t at = 0, size; at < length; at += size) {
    int32_t codepoint = lls_utf8_char(text + at);
    size = lls_utf8_length(text + at);
    if (codepoint == 0xfffd || is_control(codepoint))
      continue;
    if (lls_char_is_space(codepoint))
      lls_bytes_append(out, " ", 1);
    else
      lls_bytes_append(out, text + at, size);
  }
}

/* The blocks listed in BERT's own code (tokenization.py, _is_chinese_char). */
static bool is_chinese(int32_t codepoint)
{
  static const struct range blocks[] = {
      {0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
      {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) /* not sorted */
    if (codepoint >= blocks[i].first && codepoint <= blocks[i].last)
      return true;
  return false;
}

void lls_unicode_space_chinese(const char *text, size_t length, struct lls_bytes *out)
{
  for (size_t at = 0, size; at < length; at += size) {
    bool chinese = is_chinese(lls_utf8_char(text + at));
    size = lls_utf8_length(text + at);
    if (chinese)
      lls_bytes_append(out, " ", 1);
    lls_bytes_append(out, text + at, size);
    if (chinese)
      lls_bytes_append(out, " ", 1);
  }
}

size_t lls_unicode_grapheme(const char *text, size_t length)
{
  utf8proc_int32_t state = 0, last = lls_utf8_char(text);
  size_t at = lls_utf8_length(text);
  while (at < length) {
    utf8proc_int32_t next = lls_utf8_char(text + at);
    if (utf8proc_grapheme_break_stateful(last, next, &state))
      break;
    last = next;
    at += lls_utf8_length(text + at);
  }
  return at;
}
