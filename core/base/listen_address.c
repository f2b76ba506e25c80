/* SPDX-License-Identifier: Apache-2.0 */
/* See listen_address.h. */
#include "core/base/listen_address.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATORS " \t,"

static bool skip_prefix(const char **text, const char *prefix)
{
  size_t length = strlen(prefix);
  bool has = strncmp(*text, prefix, length) == 0;
  *text += has ? length : 0;
  return has;
}

/* Splits ":MODE" off the path, if its last colon has three or four octal digits after
 * it. */
static void split_mode(struct lls_listen_address *out)
{
  char *colon = strrchr(out->path, ':');
  size_t digits = colon != NULL ? strspn(colon + 1, "01234567") : 0;
  out->mode = LLS_SOCKET_MODE;
  if (digits < 3 || digits > 4 || colon[1 + digits] != '\0')
    return;
  out->mode = (unsigned)strtoul(colon + 1, NULL, 8) & 0777;
  *colon = '\0';
}

static int read_path(const char *text, struct lls_listen_address *out,
                     struct lls_error *err)
{
  if (text[0] != '/')
    return lls_fail(err, -EINVAL,
                    "expected the whole path of a Unix socket, like "
                    "unix:/run/llmserve/api.sock; found 'unix:%s'",
                    text);
  size_t length = strlen(text);
  if (length >= LLS_SOCKET_PATH_MAX)
    return lls_fail(err, -EINVAL, "a socket's path has at most %zu bytes; found '%s'",
                    LLS_SOCKET_PATH_MAX - 1, text);
  memcpy(out->path, text, length + 1);
  split_mode(out);
  return 1;
}

static int read_address(const char *text, struct lls_listen_address *out,
                        struct lls_error *err)
{
  const char *whole = text, *port;
  if (skip_prefix(&text, "unix:"))
    return read_path(text, out, err);
  if (skip_prefix(&text, "https://"))
    out->tls = LLS_LISTEN_TLS_ALWAYS;
  else if (skip_prefix(&text, "http://"))
    out->tls = LLS_LISTEN_TLS_NEVER;
  if (lls_address_split(text, out->host, &port) < 0)
    return lls_fail(err, -EINVAL,
                    "expected ADDRESS:PORT like 127.0.0.1:8080, 0.0.0.0:8080 or "
                    "[::1]:8080, or unix:/PATH; found '%s'",
                    whole);
  snprintf(out->port, sizeof out->port, "%s", port);
  return 1;
}

int lls_listen_next(const char **list, struct lls_listen_address *out,
                    struct lls_error *err)
{
  char text[LLS_HOST_MAX + LLS_SOCKET_PATH_MAX];
  *out = (struct lls_listen_address){0};
  *list += strspn(*list, SEPARATORS);
  size_t length = strcspn(*list, SEPARATORS);
  if (length == 0)
    return 0;
  snprintf(text, sizeof text, "%.*s", (int)length, *list);
  *list += length;
  if (length >= sizeof text)
    return lls_fail(err, -EINVAL, "an address is too long; found '%s'", text);
  return read_address(text, out, err);
}
