/* SPDX-License-Identifier: Apache-2.0 */
/* Finds headers in a request, and splits and decodes its target. */
#include "core/http/http_request.h"

#include <string.h>
#include <strings.h>

const char *lls_http_request_header(const struct lls_http_request *request,
                                    const char *name)
{
  for (uint32_t i = 0; i < request->n_headers; i++)
    if (strcasecmp(request->head.data + request->headers[i].name, name) == 0)
      return request->head.data + request->headers[i].value;
  return NULL;
}

static int hex_digit(char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_unreserved(int c)
{
  return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
         (c < 0x80 && c != 0 && strchr("-._~", c) != NULL);
}

/*
 * Decodes percent escapes in place; the text only gets shorter. Returns NULL, or a
 * sentence about what can't be decoded. Escapes of letters and other plain characters are
 * refused: a proxy that compares undecoded paths would not see that "/%61dmin" is
 * "/admin".
 */
static const char *percent_decode(char *text)
{
  char *out = text;
  for (const char *in = text; *in != '\0'; in++, out++) {
    *out = *in;
    if (*in != '%')
      continue;
    int high = hex_digit(in[1]);
    int low = high < 0 ? -1 : hex_digit(in[2]);
    if (low < 0 || (high == 0 && low == 0))
      return "malformed escape in the request target";
    if (is_unreserved(high * 16 + low))
      return "the path has an escape of a letter, a digit or one of -._~: send these as "
             "they are";
    *out = (char)(high * 16 + low);
    in += 2;
  }
  *out = '\0';
  return NULL;
}

/* Splits "http://host/path", the form for proxies, into the host and "/path" (RFC 9112,
 * section 3.2.2). Returns the path, or NULL if the target has another form. The host is
 * moved one byte to the left to gain space for its NUL. */
static char *take_authority(struct lls_http_request *request, char *target)
{
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-._~:[]";
  bool absolute =
      strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0;
  if (!absolute)
    return target;
  char *name = strstr(target, "://") + 3;
  size_t length = strspn(name, letters);
  if (length == 0 || name[length] != '/')
    return NULL;
  memmove(name - 1, name, length);
  name[length - 1] = '\0';
  request->authority = name - 1;
  return name + length;
}

unsigned lls_http_request_count(const struct lls_http_request *request, const char *name)
{
  unsigned n = 0;
  for (uint32_t i = 0; i < request->n_headers; i++)
    n += strcasecmp(request->head.data + request->headers[i].name, name) == 0;
  return n;
}

enum lls_content_coding lls_http_request_coding(const struct lls_http_request *request)
{
  static const char name[] = "content-encoding";
  const char *value = lls_http_request_header(request, name);
  if (value == NULL)
    return LLS_CODING_NONE;
  return lls_http_request_count(request, name) > 1 ? LLS_CODING_UNKNOWN
                                                   : lls_content_coding_named(value);
}

const char *lls_http_request_host(const struct lls_http_request *request)
{
  return request->authority != NULL ? request->authority
                                    : lls_http_request_header(request, "host");
}

const char *lls_http_request_set_target(struct lls_http_request *request)
{
  static const char no_query[] = "";
  char *target = take_authority(request, request->head.data);
  request->query = no_query;
  if (target == NULL)
    return "malformed request target: http:// is to be followed by a name and a path";
  char *mark = strchr(target, '?');
  if (mark != NULL) {
    *mark = '\0';
    request->query = mark + 1;
  }
  request->path = target;
  return target[0] == '/' ? percent_decode(target) : "malformed request target";
}

/* Decodes a value of a query, where + is a space. An escape that is malformed or NUL
 * stays as it is. */
static void decode_value(const char *at, size_t length, char *out, size_t size)
{
  size_t n = 0;
  for (size_t i = 0; i < length && n < size; i++) {
    bool escape = at[i] == '%' && i + 2 < length;
    int high = escape ? hex_digit(at[i + 1]) : -1,
        low = escape ? hex_digit(at[i + 2]) : -1;
    bool good = high >= 0 && low >= 0 && high + low > 0;
    out[n++] = good ? (char)(high * 16 + low) : at[i] == '+' ? ' ' : at[i];
    i += good ? 2 : 0;
  }
  out[n < size ? n : 0] = '\0';
}

bool lls_http_query(const char *query, const char *name, char *value, size_t size)
{
  size_t wanted = strlen(name);
  bool found = false;
  value[0] = '\0';
  while (*query != '\0') {
    size_t length = strcspn(query, "&");
    if (length > wanted && query[wanted] == '=' && strncmp(query, name, wanted) == 0) {
      found = true;
      decode_value(query + wanted + 1, length - wanted - 1, value, size);
    }
    query += length + (query[length] == '&');
  }
  return found;
}

void lls_http_request_clear(struct lls_http_request *request)
{
  if (request->sink.close != NULL)
    request->sink.close(request->sink.owner);
  request->sink = (struct lls_http_sink){0};
  request->sunk_bytes = 0;
  lls_content_decoder_free(request->decoder);
  request->decoder = NULL;
  request->coded_bytes = 0;
  lls_text_free(&request->head);
  lls_text_free(&request->body);
  request->method = request->query = request->tail = NULL;
  request->path = NULL;
  request->authority = NULL;
  request->http10 = request->keep_alive = request->has_body = false;
  request->n_headers = 0;
}
