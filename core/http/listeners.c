/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the sockets that clients connect to: TCP, Unix, and those that a service manager
 * has opened before.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/http/connection.h"

#define BACKLOG    1024
#define ADMIN_MODE 0600

/* ---- sockets --------------------------------------------------------------------- */

static int look_up(const struct lls_listen_address *address, struct addrinfo **out,
                   struct lls_error *err)
{
  const char *host = address->host[0] != '\0' ? address->host : NULL;
  const struct addrinfo hints = {
      .ai_flags = AI_PASSIVE,
      .ai_family = AF_UNSPEC,
      .ai_socktype = SOCK_STREAM,
  };
  int error = getaddrinfo(host, address->port, &hints, out);
  if (error != 0)
    return lls_fail(err, -EADDRNOTAVAIL, "%s:%s: %s", address->host, address->port,
                    gai_strerror(error));
  return 0;
}

/* An IPv6 socket for all interfaces also takes IPv4 clients, unless only_v6 is set. */
static int open_tcp(const struct addrinfo *at, bool only_v6)
{
  int on = 1, only = only_v6;
  int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return -errno;
  bool good = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0;
  if (good && at->ai_family == AF_INET6)
    good = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only) == 0;
  if (good && bind(fd, at->ai_addr, at->ai_addrlen) == 0)
    return fd;
  int error = -errno;
  close(fd);
  return error;
}

/* ---- listeners --------------------------------------------------------------------- */

static void remember_tcp(struct lls_http_listener *listener)
{
  struct lls_http_server *server = listener->server;
  struct sockaddr_storage name;
  char host[INET6_ADDRSTRLEN] = "", address[sizeof server->address];
  int length = sizeof name;
  if (uv_tcp_getsockname(&listener->tcp, (struct sockaddr *)&name, &length) != 0)
    return;
  server->exposed |= !lls_address_is_loopback((struct sockaddr *)&name);
  uv_ip_name((struct sockaddr *)&name, host, sizeof host);
  bool v6 = name.ss_family == AF_INET6;
  unsigned port = ntohs(v6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                           : ((struct sockaddr_in *)&name)->sin_port);
  snprintf(address, sizeof address, v6 ? "[%s]:%u" : "%s:%u", host, port);
  snprintf(listener->url, sizeof listener->url, "http%s://%s", listener->tls ? "s" : "",
           address);
  if (server->address[0] == '\0')
    strcpy(server->address, address);
}

static void remember_path(struct lls_http_listener *listener)
{
  struct sockaddr_un name = {0};
  size_t size = sizeof name.sun_path;
  uv_pipe_getsockname(&listener->pipe, name.sun_path, &size);
  snprintf(listener->url, sizeof listener->url, "unix:%.*s", (int)sizeof name.sun_path,
           name.sun_path);
}

static void on_connection(uv_stream_t *listener, int status)
{
  if (status == 0)
    lls_http_connection_accept(listener->data);
}

/* Begins to accept on the socket fd, which it closes on failure. */
static int begin(struct lls_http_listener *listener, int fd)
{
  struct lls_http_server *server = listener->server;
  if (listener->by_path)
    uv_pipe_init(server->uv, &listener->pipe, 0);
  else
    uv_tcp_init(server->uv, &listener->tcp);
  listener->tcp.data = listener;
  listener->open = true;
  server->n_listeners++;
  server->handles++;
  int error = listener->by_path ? uv_pipe_open(&listener->pipe, fd)
                                : uv_tcp_open(&listener->tcp, fd);
  if (error != 0) {
    close(fd);
    return error;
  }
  error = uv_listen((uv_stream_t *)&listener->tcp, BACKLOG, on_connection);
  if (error == 0)
    error = lls_http_server_start_sweep(server);
  if (error == 0)
    (listener->by_path ? remember_path : remember_tcp)(listener);
  return error;
}

/* Returns an unused listener, which counts once begin() has it; NULL with an error if
 * there are too many. */
static struct lls_http_listener *next_listener(struct lls_http_server *server,
                                               struct lls_error *err)
{
  struct lls_http_listener *listener = &server->listeners[server->n_listeners];
  if (server->n_listeners == LLS_HTTP_MAX_LISTENERS) {
    lls_fail(err, -EMFILE, "more than %d addresses", LLS_HTTP_MAX_LISTENERS);
    return NULL;
  }
  *listener = (struct lls_http_listener){.server = server};
  return listener;
}

static int listen_on_path(struct lls_http_server *server, const char *path, unsigned mode,
                          bool admin, struct lls_error *err)
{
  struct lls_http_listener *listener = next_listener(server, err);
  if (listener == NULL)
    return -EMFILE;
  listener->by_path = true;
  listener->admin = admin;
  int fd = lls_http_socket_make(listener, path, mode, err);
  int error = fd < 0 ? 0 : begin(listener, fd);
  if (error != 0)
    return lls_fail(err, error, "cannot listen on %s: %s", path, uv_strerror(error));
  return fd < 0 ? fd : 0;
}

static int listen_on_port(struct lls_http_server *server,
                          const struct lls_listen_address *address, bool only_v6,
                          struct lls_error *err)
{
  struct lls_http_listener *listener = next_listener(server, err);
  struct addrinfo *found;
  if (listener == NULL)
    return -EMFILE;
  listener->tls = lls_listen_uses_tls(address, server->tls != NULL);
  int error = look_up(address, &found, err);
  if (error != 0)
    return error;
  int fd = open_tcp(found, only_v6);
  freeaddrinfo(found);
  error = fd < 0 ? fd : begin(listener, fd);
  bool v6 = strchr(address->host, ':') != NULL;
  return error == 0
             ? 0
             : lls_fail(err, error, "cannot listen on %s%s%s:%s: %s", v6 ? "[" : "",
                        address->host, v6 ? "]" : "", address->port, uv_strerror(error));
}

/* True if the list has an IPv4 address with this port, which an IPv6 socket for all
 * interfaces must not take then. */
static bool has_v4(const char *list, const char *port)
{
  struct lls_listen_address other;
  while (lls_listen_next(&list, &other, NULL) > 0)
    if (other.path[0] == '\0' && strchr(other.host, ':') == NULL &&
        strcmp(other.port, port) == 0)
      return true;
  return false;
}

int lls_http_server_listen(struct lls_http_server *server, const char *list,
                           struct lls_error *err)
{
  struct lls_listen_address address;
  const char *rest = list;
  int rc;
  LLS_HTTP_ON_MAIN(server);
  while ((rc = lls_listen_next(&rest, &address, err)) > 0) {
    if (address.path[0] != '\0')
      rc = listen_on_path(server, address.path, address.mode, false, err);
    else
      rc = listen_on_port(server, &address, has_v4(list, address.port), err);
    if (rc < 0)
      return rc;
  }
  return rc;
}

int lls_http_server_listen_admin(struct lls_http_server *server, const char *path,
                                 struct lls_error *err)
{
  LLS_HTTP_ON_MAIN(server);
  return listen_on_path(server, path, ADMIN_MODE, true, err);
}

/* ---- inherited sockets ------------------------------------------------------------- */

/* Returns the address family of a listening stream socket, else -1. */
static int family_of(int fd)
{
  struct sockaddr_storage name;
  socklen_t size = sizeof name, int_size = sizeof(int);
  int type, accepts;
  bool listens = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &int_size) == 0 &&
                 type == SOCK_STREAM &&
                 getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &int_size) == 0 &&
                 accepts && getsockname(fd, (struct sockaddr *)&name, &size) == 0;
  bool known = listens && (name.ss_family == AF_INET || name.ss_family == AF_INET6 ||
                           name.ss_family == AF_UNIX);
  return known ? name.ss_family : -1;
}

int lls_http_server_listen_inherited(struct lls_http_server *server, int fd,
                                     const char *name, struct lls_error *err)
{
  LLS_HTTP_ON_MAIN(server);
  struct lls_http_listener *listener = next_listener(server, err);
  int family = family_of(fd);
  if (listener == NULL || family < 0) {
    close(fd);
    return listener == NULL
               ? -EMFILE
               : lls_fail(err, -EINVAL,
                          "socket %d ('%s') of the service manager: expected a stream "
                          "socket that listens (ListenStream= of the .socket unit, with "
                          "Accept=no)",
                          fd, name);
  }
  listener->by_path = family == AF_UNIX;
  listener->admin = listener->by_path && strcmp(name, "admin") == 0;
  listener->inherited = true;
  listener->tls = !listener->by_path && server->tls != NULL && strcmp(name, "http") != 0;
  int error = begin(listener, fd);
  return error == 0 ? 0
                    : lls_fail(err, error, "socket %d ('%s') of the service manager: %s",
                               fd, name, uv_strerror(error));
}

/* ---- addresses --------------------------------------------------------------------- */

void lls_http_server_urls(const struct lls_http_server *server, char *text, size_t size)
{
  size_t used = 0;
  text[0] = '\0';
  for (unsigned i = 0; i < server->n_listeners && used < size; i++)
    if (!server->listeners[i].admin)
      used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                               server->listeners[i].url);
}
