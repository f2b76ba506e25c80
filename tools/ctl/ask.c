/* SPDX-License-Identifier: Apache-2.0 */
/* Sends a request to a running server; see ask.h. The request asks the server to close
 * the connection, so that the end of the connection ends the answer; complete answers
 * are never chunked. */
#include "tools/ctl/ask.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/json_parse.h"
#include "core/base/listen_address.h"
#include "core/base/text.h"

#define DEFAULT_ADDRESS "127.0.0.1:8080" /* default of [server] listen */
#define TIMEOUT_S       60               /* long, since a reload may load large plugins */

static int connect_to(const struct addrinfo *found)
{
  const struct timeval timeout = {.tv_sec = TIMEOUT_S};
  int rc = -EADDRNOTAVAIL;
  for (; found != NULL; found = found->ai_next) {
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
      continue;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (connect(fd, found->ai_addr, found->ai_addrlen) == 0)
      return fd;
    rc = -errno;
    close(fd);
  }
  return rc;
}

static int open_socket(const char *path, struct lls_error *err)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const struct addrinfo one = {.ai_family = AF_UNIX,
                               .ai_addr = (struct sockaddr *)&address,
                               .ai_addrlen = sizeof address};
  if (strlen(path) >= sizeof address.sun_path)
    return lls_fail(err, -ENAMETOOLONG, "%s: no socket has such a long path", path);
  strcpy(address.sun_path, path);
  int fd = connect_to(&one);
  return fd < 0 ? lls_fail(err, fd, "no llmserve at %s: %s", path, strerror(-fd)) : fd;
}

/* Writes the address as open_connection reads it. */
static void write_address(const struct lls_listen_address *from, char *out)
{
  bool v6 = strchr(from->host, ':') != NULL;
  if (from->path[0] != '\0')
    snprintf(out, CTL_ADDRESS_BYTES, "%s", from->path);
  else
    snprintf(out, CTL_ADDRESS_BYTES, "%s%s%s:%s", v6 ? "[" : "", from->host,
             v6 ? "]" : "", from->port);
}

void ctl_find_address(const struct lls_ini *ini, char out[CTL_ADDRESS_BYTES])
{
  struct lls_listen_address found;
  bool certificate = lls_ini_find(ini, "tls", "certificate") != NULL;
  snprintf(out, CTL_ADDRESS_BYTES, "%s", DEFAULT_ADDRESS);
  for (size_t i = 0; i < ini->n; i++) {
    const struct lls_ini_entry *e = &ini->entries[i];
    const char *list = e->value;
    if (e->key == NULL || strcmp(e->section, "server") != 0 ||
        strcmp(e->key, "listen") != 0)
      continue;
    while (lls_listen_next(&list, &found, NULL) > 0) {
      write_address(&found, out);
      if (!lls_listen_uses_tls(&found, certificate))
        return;
    }
  }
}

/* Returns the address without "unix:" or "http://". */
static const char *without_scheme(const char *address)
{
  static const char *const schemes[] = {"unix:", "http://"};
  for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
    if (strncmp(address, schemes[i], strlen(schemes[i])) == 0)
      return address + strlen(schemes[i]);
  return address;
}

/* Connects to an address from [server] listen, where "" means every interface, or to a
 * socket's path. */
static int open_connection(const char *address, struct lls_error *err)
{
  address = without_scheme(address);
  if (strchr(address, '/') != NULL)
    return open_socket(address, err);
  char host[LLS_HOST_MAX];
  const char *port;
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  struct addrinfo *found;
  if (lls_address_split(address, host, &port) < 0)
    return lls_fail(err, -EINVAL, "'%s': expected HOST:PORT", address);
  int rc = getaddrinfo(host[0] != '\0' ? host : NULL, port, &hints, &found);
  if (rc != 0)
    return lls_fail(err, -EADDRNOTAVAIL, "%s: %s", address, gai_strerror(rc));
  int fd = connect_to(found);
  freeaddrinfo(found);
  return fd < 0 ? lls_fail(err, fd, "no llmserve at %s: %s", address, strerror(-fd)) : fd;
}

static int exchange(int fd, const char *request, struct lls_text *answer)
{
  char buffer[65536];
  if (send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
    return -EIO;
  for (;;) {
    ssize_t n = recv(fd, buffer, sizeof buffer, 0);
    if (n < 0)
      return errno == EAGAIN ? -ETIMEDOUT : -errno;
    if (n == 0)
      return answer->length > 0 && !answer->failed ? 0 : -ECONNRESET;
    lls_text_append(answer, buffer, (size_t)n);
  }
}

/* Removes the head from the answer and returns the status. */
static int read_head(struct lls_text *text)
{
  int status;
  const char *end = strstr(text->data, "\r\n\r\n");
  if (sscanf(text->data, "HTTP/1.1 %d", &status) != 1 || end == NULL)
    return -EPROTO;
  lls_text_consume(text, (size_t)(end - text->data) + 4);
  return status;
}

/* Appends ?model=NAME, or &model=NAME to a path with a query. */
static void write_model(const char *model, const char *path, struct lls_text *request)
{
  lls_text_printf(request, "%cmodel=", strchr(path, '?') != NULL ? '&' : '?');
  for (; *model != '\0'; model++)
    lls_text_printf(request, "%%%02X", (unsigned char)*model);
}

/* Uses localhost as Host, which every server accepts as its own name whatever its
 * address. */
static void write_request(const struct ctl_server *server, const char *method,
                          const char *path, const char *body, struct lls_text *request)
{
  lls_text_printf(request, "%s %s", method, path);
  if (server->model != NULL)
    write_model(server->model, path, request);
  lls_text_printf(request,
                  " HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n"
                  "Connection: close\r\n%s",
                  strlen(body),
                  body[0] != '\0' ? "Content-Type: application/json\r\n" : "");
  if (server->key[0] != '\0')
    lls_text_printf(request, "Authorization: Bearer %s\r\n", server->key);
  lls_text_printf(request, "\r\n%s", body);
}

static int ask(const struct ctl_server *server, const char *method, const char *path,
               const char *body, struct lls_text *answer, struct lls_error *err)
{
  struct lls_text request = {0};
  int fd = open_connection(server->address, err);
  if (fd < 0)
    return fd;
  write_request(server, method, path, body, &request);
  int rc = request.failed ? -ENOMEM : exchange(fd, request.data, answer);
  close(fd);
  lls_text_free(&request);
  return rc < 0 ? rc : read_head(answer);
}

static int unanswered(const struct ctl_server *server, const char *method,
                      const char *path, int rc, struct lls_error *err)
{
  if (err->text[0] != '\0')
    return rc;
  return lls_fail(err, rc, "%s %s at %s: %s", method, path, server->address,
                  rc == -EPROTO ? "this is no llmserve" : strerror(-rc));
}

int ctl_ask_with(const struct ctl_server *server, const char *method, const char *path,
                 const json_t *body, json_t **answer, struct lls_error *err)
{
  struct lls_text text = {0};
  char *sent = body != NULL ? json_dumps(body, JSON_COMPACT) : strdup("");
  int rc = sent != NULL ? ask(server, method, path, sent, &text, err) : -ENOMEM;
  free(sent);
  *answer =
      rc > 0 ? lls_json_parse_string(text.length > 0 ? text.data : "", 0, NULL) : NULL;
  if (rc > 0 && *answer == NULL)
    rc = -EPROTO;
  lls_text_free(&text);
  return rc < 0 ? unanswered(server, method, path, rc, err) : rc;
}

int ctl_ask(const struct ctl_server *server, const char *method, const char *path,
            json_t **answer, struct lls_error *err)
{
  return ctl_ask_with(server, method, path, NULL, answer, err);
}

int ctl_ask_text(const struct ctl_server *server, const char *path, struct lls_text *text,
                 struct lls_error *err)
{
  int rc = ask(server, "GET", path, "", text, err);
  return rc < 0 ? unanswered(server, "GET", path, rc, err) : rc;
}
