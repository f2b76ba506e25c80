/* SPDX-License-Identifier: Apache-2.0 */
#include "core/traces/trace_parent.h"

#include <stddef.h>
#include <string.h>

#define LENGTH     55 /* of version 00 */
#define TRACE_AT   3
#define SPAN_AT    36
#define FLAGS_AT   53
#define BAD_DIGIT  16u
#define SAMPLED    1u
#define NO_VERSION 0xffu

static unsigned digit(char c)
{
  return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                : BAD_DIGIT;
}

/* Reads n bytes in lower-case hex. Returns false if they are not. */
static bool read_hex(const char *text, uint8_t *out, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    unsigned high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high == BAD_DIGIT || low == BAD_DIGIT)
      return false;
    out[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
  while (n > 0 && bytes[n - 1] == 0)
    n--;
  return n == 0;
}

void lls_trace_parent_read(const char *header, struct lls_trace_parent *out)
{
  struct lls_trace_parent p = {.given = true};
  uint8_t version, flags;
  *out = (struct lls_trace_parent){0};
  if (header == NULL || strlen(header) < LENGTH || header[TRACE_AT - 1] != '-' ||
      header[SPAN_AT - 1] != '-' || header[FLAGS_AT - 1] != '-')
    return;
  if (!read_hex(header, &version, 1) || version == NO_VERSION ||
      !read_hex(header + TRACE_AT, p.trace, sizeof p.trace) ||
      !read_hex(header + SPAN_AT, p.span, sizeof p.span) ||
      !read_hex(header + FLAGS_AT, &flags, 1))
    return;
  /* a later version may add fields behind another dash */
  if (version == 0 ? header[LENGTH] != '\0'
                   : header[LENGTH] != '\0' && header[LENGTH] != '-')
    return;
  if (is_zero(p.trace, sizeof p.trace) || is_zero(p.span, sizeof p.span))
    return;
  p.sampled = (flags & SAMPLED) != 0;
  *out = p;
}
