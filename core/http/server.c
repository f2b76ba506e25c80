/* SPDX-License-Identifier: Apache-2.0 */
/* Opens listeners, runs the sweep that enforces the timeouts, and closes the server. */
#include "core/http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utlist.h>

#include "core/base/address.h"
#include "core/http/connection.h"

#define BACKLOG      1024
#define SWEEP_MIN_MS 20
#define SWEEP_MAX_MS 1000

int lls_http_server_create(uv_loop_t *uv, const struct lls_http_config *config,
                           struct lls_http_server **out, struct lls_error *err)
{
  struct lls_http_server *server = calloc(1, sizeof *server);
  if (server == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  server->spare = calloc(1, sizeof *server->spare);
  if (server->spare == NULL) {
    free(server);
    return lls_fail(err, -ENOMEM, "out of memory");
  }
  server->uv = uv;
  server->thread = lls_this_thread();
  server->config = *config;
  *out = server;
  return 0;
}

void lls_http_server_destroy(struct lls_http_server *server)
{
  if (server != NULL)
    free(server->spare);
  free(server);
}

/* ---- listening ------------------------------------------------------------------ */

static int resolve(const char *address, struct addrinfo **out, struct lls_error *err)
{
  char host[LLS_HOST_MAX];
  const char *port;
  const struct addrinfo hints = {
      .ai_flags = AI_PASSIVE,
      .ai_family = AF_UNSPEC,
      .ai_socktype = SOCK_STREAM,
  };
  if (lls_address_split(address, host, &port) < 0)
    return lls_fail(err, -EINVAL,
                    "%s: not an address to listen on; write host:port, such as "
                    "127.0.0.1:8080 or [::1]:8080",
                    address);
  int error = getaddrinfo(host[0] != '\0' ? host : NULL, port, &hints, out);
  if (error != 0)
    return lls_fail(err, -EADDRNOTAVAIL, "%s: %s", address, gai_strerror(error));
  return 0;
}

static void remember_address(struct lls_http_server *server, const uv_tcp_t *listener)
{
  struct sockaddr_storage name;
  char host[INET6_ADDRSTRLEN] = "";
  int length = sizeof name;
  if (uv_tcp_getsockname(listener, (struct sockaddr *)&name, &length) != 0)
    return;
  server->exposed |= !lls_address_is_loopback((struct sockaddr *)&name);
  if (server->address[0] != '\0')
    return;
  uv_ip_name((struct sockaddr *)&name, host, sizeof host);
  bool v6 = name.ss_family == AF_INET6;
  unsigned port = ntohs(v6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                           : ((struct sockaddr_in *)&name)->sin_port);
  snprintf(server->address, sizeof server->address, v6 ? "[%s]:%u" : "%s:%u", host, port);
}

/* True if a client that ended its sending side has closed the socket too. libuv does not
 * report this, since it no longer watches a socket that has ended. */
static bool has_left(const struct lls_http_connection *connection)
{
  uv_os_fd_t fd;
  int error = 0;
  socklen_t size = sizeof error;
  return connection->ended && connection->phase == LLS_HTTP_ANSWERING &&
         uv_fileno((const uv_handle_t *)&connection->tcp, &fd) == 0 &&
         getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error != 0;
}

static void on_sweep(uv_timer_t *timer)
{
  struct lls_http_server *server = timer->data;
  struct lls_http_connection *connection, *next;
  uint64_t now = uv_now(server->uv);
  DL_FOREACH_SAFE (server->connections, connection, next) {
    if (has_left(connection))
      lls_http_connection_close(connection);
    else
      lls_http_connection_check(connection, now);
  }
}

/* Returns an interval so short that a timeout is at most a quarter too late. */
static uint64_t sweep_every(const struct lls_http_server *server)
{
  const struct lls_http_limits *limits = &server->config.limits;
  uint64_t every = SWEEP_MAX_MS;
  const int64_t timeouts[] = {limits->idle_timeout, limits->read_timeout,
                              limits->write_timeout};
  for (size_t i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
    uint64_t quarter_ms = (uint64_t)(timeouts[i] / LLS_NS_PER_MS / 4);
    every = quarter_ms < every ? quarter_ms : every;
  }
  return every < SWEEP_MIN_MS ? SWEEP_MIN_MS : every;
}

static int start_sweep(struct lls_http_server *server)
{
  uint64_t every = sweep_every(server);
  if (server->sweeping)
    return 0;
  server->sweeping = true;
  server->handles++;
  server->sweep.data = server;
  uv_timer_init(server->uv, &server->sweep);
  return uv_timer_start(&server->sweep, on_sweep, every, every);
}

void lls_http_server_sweep_soon(struct lls_http_server *server)
{
  LLS_HTTP_ON_MAIN(server);
  if (server->sweeping && !server->closing &&
      uv_timer_get_due_in(&server->sweep) > SWEEP_MIN_MS)
    uv_timer_start(&server->sweep, on_sweep, SWEEP_MIN_MS, sweep_every(server));
}

static void on_connection(uv_stream_t *listener, int status)
{
  if (status == 0)
    lls_http_connection_accept(listener->data, listener);
}

void lls_http_server_set_limits(struct lls_http_server *server,
                                const struct lls_http_limits *limits)
{
  server->config.limits = *limits;
  if (server->sweeping)
    uv_timer_set_repeat(&server->sweep, sweep_every(server));
}

void lls_http_server_hand_over(struct lls_http_server *server,
                               const struct lls_http_config *config)
{
  server->config = *config;
  lls_http_server_set_limits(server, &config->limits);
}

int lls_http_server_listen(struct lls_http_server *server, const char *address,
                           struct lls_error *err)
{
  struct addrinfo *found;
  if (server->n_listeners == LLS_HTTP_MAX_LISTENERS)
    return lls_fail(err, -EMFILE, "%s: at most %d addresses", address,
                    LLS_HTTP_MAX_LISTENERS);
  int error = resolve(address, &found, err);
  if (error != 0)
    return error;
  uv_tcp_t *listener = &server->listeners[server->n_listeners];
  uv_tcp_init(server->uv, listener);
  listener->data = server;
  server->n_listeners++;
  server->handles++;
  error = uv_tcp_bind(listener, found->ai_addr, 0);
  freeaddrinfo(found);
  if (error == 0)
    error = uv_listen((uv_stream_t *)listener, BACKLOG, on_connection);
  if (error == 0)
    error = start_sweep(server);
  if (error != 0)
    return lls_fail(err, error, "cannot listen on %s: %s", address, uv_strerror(error));
  remember_address(server, listener);
  return 0;
}

/* Removes the socket file of an ended server. Returns 0 if the path is free then. */
static int clear_path(const char *path, struct lls_error *err)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct stat found;
  if (strlen(path) >= sizeof address.sun_path)
    return lls_fail(err, -ENAMETOOLONG, "%s: a socket's path has at most %zu bytes", path,
                    sizeof address.sun_path - 1);
  if (lstat(path, &found) != 0)
    return 0;
  if (!S_ISSOCK(found.st_mode))
    return lls_fail(err, -EEXIST, "%s: there is a file, which is no socket", path);
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool used = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
  if (fd >= 0)
    close(fd);
  if (used)
    return lls_fail(err, -EADDRINUSE, "%s: another server listens there", path);
  unlink(path);
  return 0;
}

/* Sets the mode before listen: clients can connect only after listen, so never with
 * another mode. */
int lls_http_server_listen_admin(struct lls_http_server *server, const char *path,
                                 struct lls_error *err)
{
  uv_pipe_t *socket = &server->socket;
  LLS_HTTP_ON_MAIN(server);
  int error = clear_path(path, err);
  if (error != 0)
    return error;
  uv_pipe_init(server->uv, socket, 0);
  socket->data = server;
  server->has_socket = true;
  server->handles++;
  error = uv_pipe_bind(socket, path);
  if (error == 0 && chmod(path, 0600) != 0)
    error = -errno;
  if (error == 0)
    error = uv_listen((uv_stream_t *)socket, BACKLOG, on_connection);
  if (error == 0)
    error = start_sweep(server);
  return error == 0
             ? 0
             : lls_fail(err, error, "cannot listen on %s: %s", path, uv_strerror(error));
}

const char *lls_http_server_address(const struct lls_http_server *server)
{
  return server->address;
}

bool lls_http_server_is_exposed(const struct lls_http_server *server)
{
  return server->exposed;
}

size_t lls_http_server_held(const struct lls_http_server *server)
{
  return server->held;
}

size_t lls_http_server_unread(const struct lls_http_server *server)
{
  return server->unread;
}

const struct lls_http_counters *
lls_http_server_counters(const struct lls_http_server *server)
{
  return &server->counters;
}

/* ---- closing -------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
  lls_http_server_handle_closed(handle->data);
}

/* Closes the sweep timer last: lingering connections need it for their timeouts. */
void lls_http_server_handle_closed(struct lls_http_server *server)
{
  LLS_HTTP_ON_MAIN(server);
  server->handles--;
  if (!server->closing)
    return;
  if (server->handles == 1 && server->sweeping) {
    server->sweeping = false;
    uv_close((uv_handle_t *)&server->sweep, on_handle_closed);
  } else if (server->handles == 0) {
    server->closed(server->closed_context);
  }
}

/* Lets clients read complete answers; closes all other connections now. */
static void close_connections(struct lls_http_server *server)
{
  struct lls_http_connection *connection, *next;
  DL_FOREACH_SAFE (server->connections, connection, next) {
    bool answered = connection->phase != LLS_HTTP_ANSWERING;
    if (answered && lls_http_output_unsent(&connection->output) > 0)
      lls_http_connection_linger(connection);
    else
      lls_http_connection_close(connection);
  }
}

void lls_http_server_close(struct lls_http_server *server, void (*closed)(void *context),
                           void *context)
{
  server->closing = true;
  server->closed = closed;
  server->closed_context = context;
  server->handles++; /* counts this call as a handle, so that `closed` is not called
                        before its end */
  for (unsigned i = 0; i < server->n_listeners; i++)
    uv_close((uv_handle_t *)&server->listeners[i], on_handle_closed);
  if (server->has_socket)
    uv_close((uv_handle_t *)&server->socket, on_handle_closed);
  close_connections(server);
  lls_http_server_handle_closed(server);
}
