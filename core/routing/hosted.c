/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a model, drawn in routing.h. */
#include "core/routing/routing_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#define PROBE_MS       20   /* between two questions to a process that loads */
#define PROBE_LATER_MS 100  /* after the first second */
#define KILL_AFTER_MS  5000 /* beyond [server] drain_timeout */
#define MOST_BACKOFF_S 60
#define DRAINED        3 /* exit status after /admin/drain?model=NAME */

const char *lls_hosted_state_name(const struct lls_hosted *m)
{
  static const char *const names[] = {[LLS_HOSTED_UNLOADED] = "unloaded",
                                      [LLS_HOSTED_QUEUED] = "loading",
                                      [LLS_HOSTED_LOADING] = "loading",
                                      [LLS_HOSTED_LOADED] = "loaded",
                                      [LLS_HOSTED_STOPPING] = "unloading"};
  return names[m->state];
}

static uint64_t now_of(const struct lls_hosted *m)
{
  return uv_now(m->routing->options.uv);
}

/* ---- questions to the process ------------------------------------------------------ */

static void end_probe(struct lls_hosted *m)
{
  m->probe = NULL;
  m->next_probe_ms =
      now_of(m) + (now_of(m) - m->load_ms < 1000 ? PROBE_MS : PROBE_LATER_MS);
}

static void on_probe_head(void *context, const struct lls_upstream_head *head)
{
  struct lls_hosted *m = context;
  m->probe_status = head->status;
}

static void on_probe_body(void *context, const char *data, size_t length)
{
  struct lls_hosted *m = context;
  if (m->probe_text.length + length <= 4096)
    lls_text_append(&m->probe_text, data, length);
}

/* Asks the process, as "GET /path"; `end` gets the answer in probe_status and
 * probe_text. */
static void ask(struct lls_hosted *m, const char *what, void (*end)(void *, int))
{
  const struct lls_upstream_reader reader = {
      .context = m, .head = on_probe_head, .body = on_probe_body, .end = end};
  struct lls_text head = {0}, none = {0};
  lls_text_printf(
      &head,
      "%s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
      what);
  m->probe_status = 0;
  lls_text_clear(&m->probe_text);
  if (lls_upstream_open(&m->routing->upstreams, m->process->admin, &head, &none, false,
                        &reader, &m->probe) < 0)
    end_probe(m);
}

/* ---- loading ----------------------------------------------------------------------- */

void lls_hosted_want(struct lls_hosted *m)
{
  if (m->state != LLS_HOSTED_UNLOADED || m->routing->draining)
    return;
  m->state = LLS_HOSTED_QUEUED;
  m->queued_ms = now_of(m);
  m->routing->make_room(m->routing);
  lls_routing_tick_soon(m->routing);
}

static void on_ready(void *context, int rc)
{
  struct lls_hosted *m = context;
  end_probe(m);
  if (rc < 0 || m->probe_status != 200 || m->state != LLS_HOSTED_LOADING)
    return;
  m->state = LLS_HOSTED_LOADED;
  m->used_ms = now_of(m);
  m->loaded_s = (int64_t)time(NULL);
  m->failed = m->wanted = m->yields = m->outdated = false;
  m->failures = 0;
  m->retry_ms = 0;
  m->loads++;
  m->took_bytes = lls_model_process_memory(m->process);
  lls_log(m->routing->options.log, LLS_LOG_INFO, "models", "%s is loaded, after %.1f s",
          m->name, (double)(now_of(m) - m->load_ms) / 1e3);
  lls_relay_send_waiting(m);
  m->routing->make_room(m->routing);
}

static void fail_load(struct lls_hosted *m, const char *why)
{
  struct lls_api_error error;
  unsigned seconds = m->failures < 6 ? 1u << m->failures : MOST_BACKOFF_S;
  m->failed = true;
  m->wanted = false;
  m->failures++;
  m->load_failures++;
  m->retry_ms = now_of(m) + 1000 * (uint64_t)seconds;
  lls_log(m->routing->options.log, LLS_LOG_ERROR, "models", "%s is not loaded: %s",
          m->name, why);
  lls_api_fail(&error, 503, "model_not_loaded", "model",
               "the model \"%.100s\" could not be loaded: %.200s", m->name, why);
  error.retry_after = seconds;
  lls_relay_fail_waiting(m, &error);
}

/* ---- the end of a process ---------------------------------------------------------- */

bool lls_hosted_stays_unloaded(const struct lls_hosted *m, struct lls_api_error *error)
{
  bool runs = m->state != LLS_HOSTED_UNLOADED && m->state != LLS_HOSTED_STOPPING;
  if (runs || m->routing->config->models.autoload || m->wanted || m->own.pinned)
    return false;
  lls_api_fail(error, 400, "model_is_not_running", "model",
               "the model \"%.100s\" is not loaded: POST /models/load loads it, since "
               "[models] autoload is off",
               m->name);
  return true;
}

/* Has the model loaded for the requests that wait for it; without [models] autoload they
 * are refused, unless it is to be loaded anyway. */
static void heed_waiting(struct lls_hosted *m)
{
  struct lls_api_error error;
  if (lls_hosted_stays_unloaded(m, &error) || lls_hosted_refuses(m, &error))
    lls_relay_fail_waiting(m, &error);
  else
    lls_hosted_want(m);
}

static void log_crash(const struct lls_hosted *m, const char *how)
{
  const char *next = m->own.pinned ? "it is started again"
                     : m->routing->config->models.autoload
                         ? "its next request starts it "
                           "again"
                         : "POST /models/load starts it "
                           "again";
  lls_log(m->routing->options.log, LLS_LOG_ERROR, "models", "%s: %s; %s", m->name, how,
          next);
}

/* Writes how a process ended. */
static void describe_end(const struct lls_hosted *m, char *text, size_t size)
{
  if (m->exit_signal != 0)
    snprintf(text, size, "its process was ended by %s", strsignal(m->exit_signal));
  else
    snprintf(text, size, "its process ended with status %d", m->exit_status);
}

static void on_process_end(struct lls_hosted *m, int64_t status, int signal)
{
  char how[128];
  enum lls_hosted_state was = m->state;
  if (m->probe != NULL)
    lls_upstream_close(m->probe);
  m->probe = NULL;
  m->state = LLS_HOSTED_UNLOADED;
  m->yields = false;
  m->exit_status = (int)status;
  m->exit_signal = signal;
  describe_end(m, how, sizeof how);
  if (was == LLS_HOSTED_LOADING)
    fail_load(m, how);
  else if (was == LLS_HOSTED_LOADED && !m->routing->draining &&
           (signal != 0 || (status != 0 && status != DRAINED))) {
    m->failed = true;
    m->crashes++;
    log_crash(m, how);
  }
  bool loads_again = was == LLS_HOSTED_STOPPING && m->wanted;
  if (loads_again && !m->removed)
    lls_hosted_want(m);
  else if (m->waiting != NULL && !m->removed)
    heed_waiting(m);
  m->routing->make_room(m->routing);
}

void lls_hosted_load(struct lls_hosted *m)
{
  struct lls_error err = {0};
  m->state = LLS_HOSTED_LOADING;
  m->load_ms = now_of(m);
  m->next_probe_ms = m->load_ms + PROBE_MS;
  lls_log(m->routing->options.log, LLS_LOG_INFO, "models", "loading %s", m->name);
  if (lls_model_process_start(m, on_process_end, &err) < 0) {
    m->state = LLS_HOSTED_UNLOADED;
    fail_load(m, err.text);
  }
}

bool lls_hosted_refuses(const struct lls_hosted *m, struct lls_api_error *error)
{
  uint64_t now = now_of(m);
  if (m->state != LLS_HOSTED_UNLOADED || m->retry_ms <= now)
    return false;
  lls_api_fail(error, 503, "model_not_loaded", "model",
               "the model \"%.100s\" could not be loaded: the server's log says why; it "
               "is tried again in %u s",
               m->name, (unsigned)((m->retry_ms - now + 999) / 1000));
  error->retry_after = (unsigned)((m->retry_ms - now + 999) / 1000);
  return true;
}

/* ---- unloading --------------------------------------------------------------------- */

void lls_hosted_unload(struct lls_hosted *m, const char *why)
{
  if (m->probe != NULL)
    lls_upstream_close(m->probe);
  m->probe = NULL;
  m->wanted = false;
  if (m->state == LLS_HOSTED_QUEUED)
    m->state = LLS_HOSTED_UNLOADED;
  if (m->state != LLS_HOSTED_LOADING && m->state != LLS_HOSTED_LOADED)
    return;
  m->state = LLS_HOSTED_STOPPING;
  m->unloads++;
  lls_log(m->routing->options.log, LLS_LOG_INFO, "models", "unloading %s: %s", m->name,
          why);
  lls_model_process_stop(m->process, false);
  lls_routing_tick_soon(m->routing);
}

/* The answer to /load: requests of batches and in the background are its own. */
static void on_load_known(void *context, int rc)
{
  struct lls_hosted *m = context;
  end_probe(m);
  const char *at = m->probe_text.length > 0 ? strchr(m->probe_text.data, ':') : NULL;
  bool computes = rc == 0 && m->probe_status == 200 && at != NULL && atoi(at + 1) > 0;
  if (m->state != LLS_HOSTED_LOADED || m->n_active > 0)
    return;
  if (computes)
    m->used_ms = now_of(m);
  else
    lls_hosted_unload(m, m->why);
  m->routing->make_room(m->routing);
}

void lls_hosted_unload_if_idle(struct lls_hosted *m, const char *why)
{
  if (m->probe != NULL || m->state != LLS_HOSTED_LOADED || m->n_active > 0)
    return;
  m->why = why;
  ask(m, "GET /load", on_load_known);
}

/* ---- another configuration --------------------------------------------------------- */

/* The process has reloaded the file, or says why not: with some settings it has to be
 * started again, which waits until it is idle. */
static void on_reloaded(void *context, int rc)
{
  struct lls_hosted *m = context;
  end_probe(m);
  const char *said = m->probe_text.length > 0 ? m->probe_text.data : "";
  if (rc == 0 && m->probe_status == 409 && strstr(said, "needs a restart") != NULL)
    m->outdated = true;
}

static void reload(struct lls_hosted *m)
{
  m->reloads = false;
  ask(m, "POST /admin/reload", on_reloaded);
}

/* ---- time -------------------------------------------------------------------------- */

static void tick_loading(struct lls_hosted *m, uint64_t now)
{
  uint64_t most = (uint64_t)(m->routing->config->models.load_timeout / LLS_NS_PER_MS);
  if (now - m->load_ms > most) {
    lls_log(m->routing->options.log, LLS_LOG_ERROR, "models",
            "%s: [models] load_timeout has passed", m->name);
    lls_model_process_stop(m->process, true);
  } else if (m->probe == NULL && now >= m->next_probe_ms)
    ask(m, "GET /ready", on_ready);
}

static void tick_loaded(struct lls_hosted *m, uint64_t now)
{
  uint64_t most = (uint64_t)(m->own.unload_after / LLS_NS_PER_MS);
  if (m->reloads && m->probe == NULL)
    reload(m);
  if (m->n_active > 0)
    return;
  if (m->outdated)
    lls_hosted_unload_if_idle(m, "it has to be started again for its new settings");
  else if (m->yields)
    lls_hosted_unload_if_idle(m, "another model needs its room");
  else if (m->removed)
    lls_hosted_unload_if_idle(m, "it is no longer configured");
  else if (!m->own.pinned && most > 0 && now - m->used_ms >= most)
    lls_hosted_unload_if_idle(m, "it was not used");
}

static void tick_stopping(struct lls_hosted *m, uint64_t now)
{
  uint64_t most = (uint64_t)(m->routing->config->server.drain_timeout / LLS_NS_PER_MS);
  if (now > m->process->stop_ms + most + KILL_AFTER_MS)
    lls_model_process_stop(m->process, true);
}

void lls_hosted_tick(struct lls_hosted *m, uint64_t now)
{
  if (m->state == LLS_HOSTED_LOADING)
    tick_loading(m, now);
  else if (m->state == LLS_HOSTED_LOADED)
    tick_loaded(m, now);
  else if (m->state == LLS_HOSTED_STOPPING)
    tick_stopping(m, now);
  else if (m->state == LLS_HOSTED_UNLOADED && m->waiting != NULL)
    heed_waiting(m); /* they could not be sent to a process that had just ended */
  else if (m->state == LLS_HOSTED_UNLOADED && m->own.pinned && !m->removed &&
           m->retry_ms <= now) {
    m->wanted = true;
    lls_hosted_want(m);
  }
}

void lls_hosted_free(struct lls_hosted *m)
{
  if (m->probe != NULL)
    lls_upstream_close(m->probe);
  if (m->process != NULL)
    m->process->model = NULL;
  lls_text_free(&m->probe_text);
  free(m->name);
  free(m->path);
  free(m);
}
