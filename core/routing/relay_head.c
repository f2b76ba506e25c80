/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heads of a request and its answer, on their way through the router. Headers about
 * one connection stay behind (RFC 9110, 7.6.1), as do those that the router has dealt
 * with: Host and Origin are checked, the body is decoded, the id is the router's.
 */
#include "core/routing/routing_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_among(const char *name, const char *const *names)
{
  for (; *names != NULL; names++)
    if (strcasecmp(name, *names) == 0)
      return true;
  return false;
}

/* Appends the path as a target, with escapes for characters that have a meaning there. */
static void append_path(const char *path, struct lls_text *head)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789-._~/:@!$&'()*+,;=";
  while (*path != '\0') {
    size_t n = strspn(path, plain);
    lls_text_append(head, path, n);
    path += n;
    if (*path != '\0')
      lls_text_printf(head, "%%%02X", (unsigned char)*path++);
  }
}

void lls_relay_write_head(struct lls_http_exchange *exchange, size_t length,
                          struct lls_text *head)
{
  static const char *const left[] = {"host",
                                     "origin",
                                     "connection",
                                     "keep-alive",
                                     "te",
                                     "trailer",
                                     "upgrade",
                                     "content-length",
                                     "content-encoding",
                                     "transfer-encoding",
                                     "expect",
                                     "x-request-id",
                                     "proxy-connection",
                                     "proxy-authorization",
                                     NULL};
  const struct lls_http_request *request = &exchange->request;
  lls_text_printf(head, "%s ", request->method);
  append_path(request->path, head);
  if (request->query != NULL && request->query[0] != '\0')
    lls_text_printf(head, "?%s", request->query);
  lls_text_printf(head,
                  " HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-request-id: "
                  "%s\r\n",
                  exchange->id);
  if (length == LLS_RELAY_CHUNKED)
    lls_text_puts(head, "transfer-encoding: chunked\r\n");
  else if (length > 0 || strcmp(request->method, "POST") == 0)
    lls_text_printf(head, "content-length: %zu\r\n", length);
  for (uint32_t i = 0; i < request->n_headers; i++) {
    const char *name = request->head.data + request->headers[i].name;
    const char *value = request->head.data + request->headers[i].value;
    if (!is_among(name, left))
      lls_text_printf(head, "%s: %s\r\n", name, value);
  }
  lls_text_puts(head, "\r\n");
}

bool lls_relay_take_headers(struct lls_http_exchange *exchange,
                            const struct lls_text *lines, char **type)
{
  static const char *const left[] = {
      "connection",   "keep-alive",         "content-length", "transfer-encoding", "date",
      "x-request-id", "x-llmserve-replica", "request-id",     "trailer",           NULL};
  const char *at = lines->data, *end = lines->data + lines->length;
  while (lines->data != NULL && at < end) {
    const char *name = at, *value = name + strlen(name) + 1;
    if (value >= end)
      break;
    at = value + strlen(value) + 1;
    if (strcasecmp(name, "content-type") == 0) {
      free(*type);
      *type = strdup(value);
      if (*type == NULL)
        return false;
    } else if (!is_among(name, left))
      lls_http_add_header(exchange, name, value);
  }
  return true;
}
