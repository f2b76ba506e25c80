/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with [models]: the front end, the router (core/routing) and their signals,
 * which mean what they mean for a server of one model (serve.c).
 *
 * It parses HTTP and starts processes, and reads no model and no JSON but its own small
 * bodies; so [server] sandbox holds for the models' processes, not for this one.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/api/api_error.h"
#include "core/config/compare.h"
#include "core/obs/log_sink.h"
#include "core/obs/notify.h"
#include "core/routing/routing.h"
#include "core/serve/daemon.h"
#include "core/serve/serve.h"

#define LAST_CALL_MS      50
#define LAST_CALL_MOST_MS 1000
#define END_MS            5000 /* for the models' processes, once no request is left */

struct models_server {
  struct server *s;
  struct lls_routing *routing;
  char folder[64]; /* of sockets; private */
  uv_timer_t deadline;
  uv_timer_t last_call;
  uint64_t last_call_ms; /* uv_now at which the last call ends; 0: it has not begun */
  uv_work_t work;        /* the reload in progress */
  bool reloading, again;
  struct lls_config wanted;
  struct lls_config_errors errors;
  int read; /* result of reading `wanted` */
};

/* ---- the end ----------------------------------------------------------------------- */

static void remove_folder(const struct models_server *m)
{
  char path[512];
  DIR *dir = m->folder[0] != '\0' ? opendir(m->folder) : NULL;
  for (const struct dirent *file; dir != NULL && (file = readdir(dir)) != NULL;) {
    snprintf(path, sizeof path, "%s/%s", m->folder, file->d_name);
    unlink(path);
  }
  if (dir != NULL)
    closedir(dir);
  if (m->folder[0] != '\0')
    rmdir(m->folder);
}

static void close_handles(void *context)
{
  struct models_server *m = context;
  struct server *s = m->s;
  uv_close((uv_handle_t *)&m->deadline, NULL);
  uv_close((uv_handle_t *)&m->last_call, NULL);
  uv_close((uv_handle_t *)&s->terminate, NULL);
  uv_close((uv_handle_t *)&s->interrupt, NULL);
  uv_close((uv_handle_t *)&s->hangup, NULL);
  uv_close((uv_handle_t *)&s->watchdog, NULL);
}

static void on_processes_late(uv_timer_t *timer)
{
  struct models_server *m = timer->data;
  lls_log(&m->s->log, LLS_LOG_WARNING, "models", "%u processes do not end: killing them",
          lls_routing_processes(m->routing));
  lls_routing_stop(m->routing, true);
}

static void on_http_closed(void *context)
{
  struct models_server *m = context;
  if (m->routing == NULL) {
    close_handles(m);
    return;
  }
  lls_routing_stop(m->routing, false);
  uv_timer_start(&m->deadline, on_processes_late, END_MS, END_MS);
  lls_routing_close(m->routing, close_handles, m);
}

static void close_server(struct models_server *m)
{
  struct server *s = m->s;
  if (s->closing)
    return;
  s->closing = true;
  if (s->api != NULL)
    lls_api_close(s->api, on_http_closed, m);
  else if (s->http != NULL)
    lls_http_server_close(s->http, on_http_closed, m);
  else
    on_http_closed(m);
}

static void on_last_call(uv_timer_t *timer)
{
  struct models_server *m = timer->data;
  bool waits = !lls_routing_is_idle(m->routing) || lls_http_server_expects(m->s->http);
  if (!waits || uv_now(&m->s->uv) >= m->last_call_ms)
    close_server(m);
}

static void on_idle(void *context)
{
  struct models_server *m = context;
  if (!m->s->stopping || m->s->closing || m->last_call_ms != 0 ||
      !lls_routing_is_idle(m->routing))
    return;
  m->last_call_ms = uv_now(&m->s->uv) + LAST_CALL_MOST_MS;
  lls_http_server_last_call(m->s->http);
  uv_timer_start(&m->last_call, on_last_call, LAST_CALL_MS, LAST_CALL_MS);
}

static void on_deadline(uv_timer_t *timer)
{
  struct models_server *m = timer->data;
  lls_log(&m->s->log, LLS_LOG_WARNING, "server",
          "drain_timeout passed: cutting off what still runs");
  close_server(m);
}

static void drain(struct models_server *m)
{
  struct server *s = m->s;
  s->stopping = true;
  server_stopping();
  if (s->closing)
    return;
  uv_timer_start(&m->deadline, on_deadline,
                 (uint64_t)(s->config->server.drain_timeout / LLS_NS_PER_MS), 0);
  lls_api_drain(s->api);
  lls_routing_drain(m->routing);
  lls_routing_stop(m->routing, false); /* their requests may finish */
  on_idle(m);
}

static void on_stop_signal(uv_signal_t *handle, int signal)
{
  struct models_server *m = handle->data;
  struct server *s = m->s;
  if (s->stopping) {
    lls_log(&s->log, LLS_LOG_WARNING, "server", "second signal: stopping at once");
    close_server(m);
    return;
  }
  lls_log(&s->log, LLS_LOG_INFO, "server", "%s: finishing what runs, at most %lld s",
          signal == SIGINT ? "SIGINT" : "SIGTERM",
          (long long)(s->config->server.drain_timeout / LLS_NS_PER_S));
  drain(m);
}

static void on_drain(void *context, const char *asked_by)
{
  struct models_server *m = context;
  lls_log(&m->s->log, LLS_LOG_WARNING, "server",
          "/admin/drain, asked for by %s: finishing what runs, at most %lld s, then exit "
          "status %d",
          asked_by, (long long)(m->s->config->server.drain_timeout / LLS_NS_PER_S),
          SERVER_EXIT_DRAINED);
  if (m->s->stopping)
    return;
  m->s->status = SERVER_EXIT_DRAINED;
  drain(m);
}

/* ---- reload ------------------------------------------------------------------------ */

static void tell_state(const struct models_server *m, const char *refused)
{
  char urls[LLS_ERROR_MAX];
  if (m->s->stopping)
    return;
  lls_http_server_urls(m->s->http, urls, sizeof urls);
  lls_notify("READY=1\nSTATUS=%zu models %s%s%s", m->s->config->models.n, urls,
             refused != NULL ? "; last reload refused: " : "",
             refused != NULL ? refused : "");
}

/* Makes the new configuration the running one. */
static int take_over(struct models_server *m, struct lls_error *err)
{
  struct server *s = m->s;
  struct lls_config *c = s->config;
  struct lls_api_keyring keys;
  struct lls_tls *tls = NULL;
  if (m->wanted.models.n == 0)
    return lls_config_fail(&m->wanted, err, -EPERM, "model", "path",
                           "a server of one model instead of [models] needs a restart");
  int rc = lls_config_check_router(c, &m->wanted, err);
  if (rc == 0)
    rc = server_load_keys(&m->wanted, &keys, err);
  if (rc < 0)
    return rc;
  rc = server_load_tls(&m->wanted, &tls, server_say_warning, s, err);
  if (rc < 0) {
    lls_api_keyring_free(&keys);
    return rc;
  }
  struct lls_config old = *c;
  *c = m->wanted;
  rc = lls_routing_reconfigure(m->routing, c, err);
  if (rc < 0 && rc != -ENOMEM) {
    *c = old;
    lls_tls_destroy(tls);
    lls_api_keyring_free(&keys);
    return rc;
  }
  if (tls != NULL)
    lls_http_server_set_tls(s->http, tls);
  lls_api_set_keys(s->api, &keys);
  lls_api_set_limits(s->api, &c->server.api);
  s->log.level = (uint32_t)c->server.log_level;
  lls_config_free(&old);
  m->read = -ECANCELED; /* `wanted` is in use */
  return rc;
}

static void begin_reload(struct models_server *m);

static void on_read(uv_work_t *work, int status)
{
  struct models_server *m = work->data;
  struct lls_error err = {0};
  char said[64];
  int rc = status < 0 ? status : m->read;
  m->reloading = false;
  for (size_t i = 0; i < m->errors.n; i++)
    lls_log(&m->s->log, LLS_LOG_ERROR, "reload", "%s", m->errors.list[i].error.text);
  if (rc < 0)
    snprintf(err.text, sizeof err.text, "%s",
             m->errors.n > 0 ? m->errors.list[0].error.text : uv_strerror(rc));
  else if (!m->s->closing)
    rc = take_over(m, &err);
  if (m->read == 0)
    lls_config_free(&m->wanted);
  lls_config_errors_free(&m->errors);
  if (m->s->closing)
    return;
  snprintf(said, sizeof said, "%zu models", m->s->config->models.n);
  lls_routing_reloaded(m->routing, rc == 0, rc == 0 ? said : err.text);
  if (rc == 0)
    lls_log(&m->s->log, LLS_LOG_INFO, "reload", "%zu models", m->s->config->models.n);
  else
    lls_log(&m->s->log, LLS_LOG_ERROR, "reload",
            "refused, the former configuration goes on: %s", err.text);
  tell_state(m, rc == 0 ? NULL : err.text);
  if (m->again)
    begin_reload(m);
}

static void read_config(uv_work_t *work)
{
  struct models_server *m = work->data;
  const struct lls_changes none = {0};
  m->read = lls_config_reload(m->s->config, &none, &m->wanted, &m->errors);
}

static void begin_reload(struct models_server *m)
{
  m->again = m->reloading;
  if (m->reloading || m->s->stopping || m->s->api == NULL)
    return;
  server_reloading();
  lls_routing_reload_begins(m->routing);
  m->reloading = true;
  m->work.data = m;
  m->read = -ECANCELED;
  int rc = uv_queue_work(&m->s->uv, &m->work, read_config, on_read);
  if (rc < 0)
    on_read(&m->work, rc);
}

static void on_hangup(uv_signal_t *handle, int signal)
{
  (void)signal;
  begin_reload(handle->data);
}

static void on_reload(void *context)
{
  begin_reload(context);
}

/* ---- the start --------------------------------------------------------------------- */

static int make_folder(struct models_server *m, struct lls_error *err)
{
  const char *given = getenv("RUNTIME_DIRECTORY");
  size_t length = given != NULL ? strcspn(given, ":") : 0;
  if (length > 0 && length < 40)
    snprintf(m->folder, sizeof m->folder, "%.*s/models-XXXXXX", (int)length, given);
  else
    snprintf(m->folder, sizeof m->folder, "/tmp/llmserve-XXXXXX");
  if (mkdtemp(m->folder) != NULL)
    return 0;
  int rc = -errno;
  m->folder[0] = '\0';
  return lls_fail(err, rc, "a folder for the models' sockets cannot be made in %s: %s",
                  length > 0 ? given : "/tmp", strerror(-rc));
}

static int make_api(struct models_server *m, struct lls_error *err)
{
  struct server *s = m->s;
  const struct lls_api_config config = {.uv = &s->uv,
                                        .http = s->http,
                                        .model_name = "",
                                        .limits = s->config->server.api,
                                        .keys = s->wanted_keys,
                                        .log = &s->log,
                                        .router = {.context = m->routing,
                                                   .handle = lls_routing_handle,
                                                   .on_upload = lls_routing_on_upload}};
  s->wanted_keys = (struct lls_api_keyring){0};
  return lls_api_create(&config, &s->api, err);
}

static int start(struct models_server *m, struct lls_error *err)
{
  struct server *s = m->s;
  const struct lls_routing_options options = {.uv = &s->uv,
                                              .config = s->config,
                                              .folder = m->folder,
                                              .log = &s->log,
                                              .context = m,
                                              .reload = on_reload,
                                              .drain = on_drain,
                                              .on_idle = on_idle};
  const struct lls_http_config http = {.limits = s->config->server.api.http,
                                       .error_body = lls_api_error_body,
                                       .error_type = "application/json"};
  char urls[LLS_ERROR_MAX];
  int rc = make_folder(m, err);
  if (rc == 0)
    rc = server_make_http(s, &http, err);
  if (rc == 0)
    rc = lls_routing_create(&options, &m->routing, err);
  if (rc == 0)
    rc = make_api(m, err);
  if (rc < 0)
    return rc;
  lls_routing_begin(m->routing, s->api);
  lls_http_server_urls(s->http, urls, sizeof urls);
  lls_log(&s->log, LLS_LOG_INFO, "server", "%zu models, each loaded at its first use",
          s->config->models.n);
  lls_log(&s->log, LLS_LOG_INFO, "server", "listening on %s", urls);
  tell_state(m, NULL);
  return 0;
}

static void on_watchdog(uv_timer_t *timer)
{
  (void)timer;
  lls_notify("WATCHDOG=1");
}

static void start_handles(struct models_server *m)
{
  struct server *s = m->s;
  uint64_t every_ms = (uint64_t)lls_notify_watchdog_ns() / 1000000 / 2;
  uv_timer_init(&s->uv, &m->deadline);
  uv_timer_init(&s->uv, &m->last_call);
  uv_timer_init(&s->uv, &s->watchdog);
  uv_signal_init(&s->uv, &s->terminate);
  uv_signal_init(&s->uv, &s->interrupt);
  uv_signal_init(&s->uv, &s->hangup);
  m->deadline.data = m->last_call.data = m;
  s->terminate.data = s->interrupt.data = s->hangup.data = m;
  uv_signal_start(&s->terminate, on_stop_signal, SIGTERM);
  uv_signal_start(&s->interrupt, on_stop_signal, SIGINT);
  uv_signal_start(&s->hangup, on_hangup, SIGHUP);
  if (every_ms > 0)
    uv_timer_start(&s->watchdog, on_watchdog, every_ms, every_ms);
}

int server_route_models(struct server *s)
{
  struct models_server m = {.s = s};
  struct lls_error err = {0};
  int rc = uv_loop_init(&s->uv);
  if (rc < 0) {
    lls_log(&s->log, LLS_LOG_ERROR, "server", "cannot wait for events: %s",
            uv_strerror(rc));
    return EXIT_FAILURE;
  }
  s->log.sink = lls_log_sink_create(s->log.fd);
  start_handles(&m);
  rc = start(&m, &err);
  if (rc < 0) {
    lls_log(&s->log, LLS_LOG_ERROR, "server", "%s", lls_error_text(&err, rc));
    s->status = EXIT_FAILURE;
    close_server(&m);
  }
  uv_run(&s->uv, UV_RUN_DEFAULT);
  if (s->api != NULL)
    lls_api_destroy(s->api);
  else
    lls_http_server_destroy(s->http);
  lls_api_keyring_free(&s->wanted_keys);
  lls_routing_destroy(m.routing);
  remove_folder(&m);
  uv_loop_close(&s->uv);
  return s->status;
}

/* ---- the process of one model ------------------------------------------------------ */

#define VARIABLE "LLS_ROUTER" /* the process id of the router */

/* The kernel sends SIGTERM to the models' processes if their router is killed, since no
 * other process knows them. */

/* Returns the router's process id; 0: this process has no router. */
static pid_t router_of_this(void)
{
  const char *text = getenv(VARIABLE);
  long pid = text != NULL ? strtol(text, NULL, 10) : 0;
  return pid > 0 ? (pid_t)pid : 0;
}

void lls_serve_follow_router(void)
{
  pid_t router = router_of_this();
  if (router == 0)
    return;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != router) /* it ended before the line above */
    _exit(EXIT_FAILURE);
  unsetenv(VARIABLE);
}
