/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the server, runs the sweep that enforces the timeouts, and closes it. */
#include "core/http/server.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "core/http/connection.h"

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
  if (server != NULL) {
    lls_tls_destroy(server->tls);
    free(server->spare);
  }
  free(server);
}

/* ---- the sweep ------------------------------------------------------------------- */

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

int lls_http_server_start_sweep(struct lls_http_server *server)
{
  LLS_HTTP_ON_MAIN(server);
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

void lls_http_server_set_tls(struct lls_http_server *server, struct lls_tls *tls)
{
  lls_tls_destroy(server->tls);
  server->tls = tls;
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

void lls_http_listener_closed(uv_handle_t *handle)
{
  struct lls_http_listener *listener = handle->data;
  LLS_HTTP_ON_MAIN(listener->server);
  lls_http_server_handle_closed(listener->server);
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
    lls_http_listener_close(&server->listeners[i], lls_http_listener_closed);
  close_connections(server);
  lls_http_server_handle_closed(server);
}
