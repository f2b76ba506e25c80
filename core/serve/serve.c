/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lls_serve, from start to exit, and the signals.
 *
 *   SIGTERM, SIGINT: drain. No new requests, running ones finish or the deadline passes.
 *
 *   A second one: stop at once, what was running is cut off. Both exit with 0.
 *
 *   /admin/drain: as SIGTERM, but exit with 3.
 *
 *   SIGHUP: reload the configuration; one that needs a restart changes nothing.
 *
 *   A service manager that set NOTIFY_SOCKET is notified of all of these; see
 * service_manager.c.
 *
 *   A step that does not end by then, such as a plugin's callback that hangs: exit
 * with 1.
 *
 *   Engine failure, or that of a rank: requests end with an error, then exit with 1.
 */
#include "config.h"

#include "core/serve/serve.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/obs/journal.h"
#include "core/obs/log_sink.h"
#include "core/plugin/crash.h"
#include "core/traces/exporter.h"
#include "core/serve/daemon.h"

#define FAILED_START_S 2 /* process 0 has said why the start failed */

/* ---- signals, and the step loop's wake ---- */

static void on_stop_signal(uv_signal_t *handle, int signal)
{
  struct server *s = handle->data;
  if (s->stopping) {
    lls_log(&s->log, LLS_LOG_WARNING, "server", "second signal: stopping at once");
    server_close(s);
    return;
  }
  lls_log(&s->log, LLS_LOG_INFO, "server", "%s: finishing what runs, at most %lld s",
          signal == SIGINT ? "SIGINT" : "SIGTERM",
          (long long)(s->config->server.drain_timeout / LLS_NS_PER_S));
  server_drain(s);
}

static void on_hangup(uv_signal_t *handle, int signal)
{
  (void)signal;
  server_reload(handle->data);
}

static void on_loaded(uv_async_t *handle)
{
  struct server *s = handle->data;
  server_loaded(s);
  if (s->api != NULL)
    server_steer(s);
}

static void on_wake(uv_async_t *handle)
{
  struct server *s = handle->data;
  struct lls_error why = {0};
  if (s->api == NULL)
    return;
  lls_api_on_wake(s->api);
  server_reload_continue(s);
  if (s->status != EXIT_FAILURE && server_has_failed(s, &why)) {
    lls_log(&s->log, LLS_LOG_ERROR, "server", "the engine failed, stopping: %s",
            why.text);
    s->status = EXIT_FAILURE;
    if (!s->stopping)
      server_drain(s);
  }
  server_close_if_done(s);
}

static void on_prepared(uv_async_t *handle)
{
  struct server *s = handle->data;
  if (!s->closing)
    server_reload_continue(s);
}

/* ---- the whole ---- */

/* Creates the event loop and the first handle to wake it, both of which need
 * descriptors. */
static int start_loop(struct server *s, struct lls_error *err)
{
  int rc = uv_loop_init(&s->uv);
  if (rc < 0)
    return lls_fail(err, rc, "cannot wait for events: %s", uv_strerror(rc));
  rc = uv_async_init(&s->uv, &s->wake, on_wake);
  if (rc < 0) {
    uv_loop_close(&s->uv);
    return lls_fail(err, rc, "cannot be woken: %s", uv_strerror(rc));
  }
  return 0;
}

static void start_handles(struct server *s)
{
  uv_async_init(&s->uv, &s->prepared, on_prepared);
  uv_async_init(&s->uv, &s->load.loaded, on_loaded);
  uv_timer_init(&s->uv, &s->deadline);
  uv_timer_init(&s->uv, &s->watchdog);
  uv_timer_init(&s->uv, &s->look);
  uv_timer_init(&s->uv, &s->autopilot.timer);
  uv_signal_init(&s->uv, &s->terminate);
  uv_signal_init(&s->uv, &s->interrupt);
  uv_signal_init(&s->uv, &s->hangup);
  s->wake.data = s->prepared.data = s->load.loaded.data = s->deadline.data =
      s->watchdog.data = s;
  s->look.data = s->autopilot.timer.data = s;
  s->terminate.data = s->interrupt.data = s->hangup.data = s;
  uv_signal_start(&s->terminate, on_stop_signal, SIGTERM);
  uv_signal_start(&s->interrupt, on_stop_signal, SIGINT);
  uv_signal_start(&s->hangup, on_hangup, SIGHUP);
}

#define LOG_CLOSE_MS 1000 /* time for the reader to take the last lines */

static void open_log(struct server *s)
{
  int journal = lls_journal_open(s->log.fd);
  if (journal >= 0) {
    s->log.fd = journal;
    s->log.format = LLS_LOG_JOURNAL;
  }
}

/* Forks the process that exports traces, before there are threads and a sandbox. */
static int start_traces(struct server *s, struct lls_error *err)
{
  int socket;
  pid_t pid;
  if (s->config->server.traces[0] == '\0')
    return 0;
#ifdef LLS_CURL
  int rc = lls_export_process_start(s->config->server.traces, &socket, &pid, err);
  if (rc < 0)
    return rc;
  s->traces = lls_exporter_create(socket, pid, &s->log);
  return s->traces != NULL ? 0 : lls_fail(err, -ENOMEM, "out of memory");
#else
  (void)socket, (void)pid;
  return lls_fail(err, -ENOTSUP,
                  "[server] traces: llmserve was built without libcurl (Debian: "
                  "libcurl4-openssl-dev)");
#endif
}

/* Restricts files before a second thread exists, since threads inherit the limits. If
 * there is no memory for a log sink, log writes block until read. */
static int give_up_files(struct server *s, struct lls_error *err)
{
  int rc = server_give_up_files(s, err);
  s->log.sink = lls_log_sink_create(s->log.fd);
  return rc;
}

static void close_log(struct server *s)
{
  lls_log_sink_destroy(s->log.sink, LOG_CLOSE_MS);
  if (s->log.format == LLS_LOG_JOURNAL)
    close(s->log.fd);
}

/* Runs the event loop until the server is closed. rc and err: the result of the start
 * so far. */
static void run(struct server *s, int rc, struct lls_error *err)
{
  start_handles(s);
  if (rc == 0)
    rc = server_load(s, err);
  if (rc < 0)
    server_fail(s, err, rc);
  uv_run(&s->uv, UV_RUN_DEFAULT);
  server_end_steps(s);
  server_destroy(s);
  uv_loop_close(&s->uv);
}

/* Ends before the event loop exists, which server_close needs. */
static void give_up(struct server *s, int rc, const struct lls_error *err)
{
  lls_log(&s->log, LLS_LOG_ERROR, "server", "%s", lls_error_text(err, rc));
  s->status = EXIT_FAILURE;
  server_destroy_parts(s);
}

/* Has malloc return a freed body of MiBs to the system: without a fixed threshold it
 * would raise its own after the first one and keep such memory. */
static void set_malloc(void)
{
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
#endif
}

int lls_serve(struct lls_config *config, const struct lls_devices *builtin)
{
  struct server s = {
      .config = config,
      .builtin = builtin,
      .log = {.fd = 2,
              .level = (uint32_t)config->server.log_level,
              .format = (uint32_t)config->server.log_format},
      .admin = {.config = config, .generation = 1, .started_s = (int64_t)time(NULL)},
      .status = EXIT_SUCCESS,
  };
  struct lls_error err = {0};
  snprintf(s.log.model, sizeof s.log.model, "%s", config->models.only);
  open_log(&s);
  set_malloc();
  /* writing to a closed connection shall be an error code, not a signal */
  signal(SIGPIPE, SIG_IGN);
  lls_crash_install();
  if (lls_config_routes(config)) {
    s.status = server_route_models(&s);
    lls_config_free(s.config);
    close_log(&s);
    lls_crash_may_exit();
    return s.status;
  }
  int rc = server_join_ranks(&s, &err);
  /* Process 0 reports which process cannot start. This one ends after it: a launcher ends
   * all processes when one ends with a failure, process 0 with its message unsaid too. */
  if (rc == -ECANCELED && !lls_ranks_is_first()) {
    nanosleep(&(struct timespec){.tv_sec = FAILED_START_S}, NULL);
    lls_config_free(config);
    close_log(&s);
    lls_crash_may_exit();
    return EXIT_FAILURE;
  }
  if (rc == 0 && !server_is_other_rank(&s) && !server_follows(&s))
    rc = start_traces(&s, &err);
  if (rc == 0)
    rc = give_up_files(&s, &err);
  if (server_is_other_rank(&s) || server_follows(&s)) {
    s.status = server_is_other_rank(&s) ? server_follow(&s)
                                        : server_follow_instance(&s, rc, &err);
    close_log(&s);
    lls_crash_may_exit();
    return s.status;
  }
  struct lls_error why = {0};
  int begun = start_loop(&s, &why);
  if (begun == 0)
    run(&s, rc, &err);
  else
    give_up(&s, begun, &why);
  lls_config_free(config);
  close_log(&s);
  lls_crash_may_exit();
  return s.status;
}
