/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading the model. A thread loads it while main already listens: GET /live answers
 * 200, everything else a 503 with Retry-After. When the thread is done, the open
 * connections pass to the front end.
 *
 * Invariant: until `loaded` is received, the thread owns model, device, engine,
 * tokeniser, template and loop; main touches none of them.
 */
#include <string.h>

#include "core/api/api_error.h"
#include "core/api/request_headers.h"
#include "core/serve/daemon.h"

#define MOST_SECONDS 60

/* ---- the thread -------------------------------------------------------------------- */

/* Logs progress if stderr is no terminal. */
static void log_progress(void *context, const char *text)
{
  lls_log(&((struct server *)context)->log, LLS_LOG_INFO, "model", "%s", text);
}

static void load(void *context)
{
  struct server *s = context;
  s->load.status = server_load_model(s, &s->load.error);
  if (s->load.status == 0)
    s->load.status = server_create_loop(s, &s->load.error);
  if (s->load.status == 0)
    s->load.status = lls_loop_await(s->loop, &s->load.given_up, &s->load.error);
  lls_progress_end(&s->load.progress);
  uv_async_send(&s->load.loaded);
}

/* ---- requests in the meantime ------------------------------------------------------ */

/* Estimates the remaining time by the speed so far. */
static unsigned seconds_left(const struct load *l)
{
  size_t done = l->done, total = l->total;
  double took = (double)(uv_hrtime() - l->began_ns) / 1e9;
  if (done == 0 || done >= total)
    return 1;
  double left = took * (double)(total - done) / (double)done;
  if (left > MOST_SECONDS)
    return MOST_SECONDS;
  return left > 1 ? (unsigned)(left + 0.5) : 1;
}

static void on_request(void *context, struct lls_http_exchange *exchange)
{
  const struct server *s = context;
  struct lls_api_error error;
  lls_api_name_request(exchange);
  if (strcmp(exchange->request.path, "/live") == 0) {
    lls_api_reply_json(exchange, 200, json_pack("{s:s}", "status", "loading"));
    return;
  }
  lls_api_fail(&error, 503, "loading", NULL, "the model is being loaded");
  error.retry_after = seconds_left(&s->load);
  lls_api_error_reply(exchange, &error);
}

/* ---- beginning and end ------------------------------------------------------------- */

static int start_thread(struct server *s, struct lls_error *err)
{
  s->load.began_ns = uv_hrtime();
  lls_progress_begin(&s->load.progress, true, "llmserve");
  s->load.progress.line = log_progress;
  s->load.progress.context = s;
  int rc = uv_thread_create(&s->load.thread, load, s);
  if (rc < 0)
    return lls_fail(err, rc, "the thread that loads the model does not start: %s",
                    uv_strerror(rc));
  s->load.running = true;
  return 0;
}

int server_make_http(struct server *s, const struct lls_http_config *http,
                     struct lls_error *err)
{
  struct lls_tls *tls;
  int rc = server_load_keys(s->config, &s->wanted_keys, err);
  if (rc < 0)
    return rc;
  rc = server_load_tls(s->config, &tls, server_say_warning, s, err);
  if (rc < 0)
    return rc;
  rc = lls_http_server_create(&s->uv, http, &s->http, err);
  if (rc < 0) {
    lls_tls_destroy(tls);
    return rc;
  }
  lls_http_server_set_tls(s->http, tls);
  rc = server_listen(s, err);
  if (rc < 0)
    return rc;
  if (lls_http_server_is_exposed(s->http) && s->wanted_keys.users == NULL)
    lls_log(&s->log, LLS_LOG_WARNING, "server",
            "any client that reaches %s may ask: set [server] api_keys, or listen on "
            "127.0.0.1",
            lls_http_server_address(s->http));
  return 0;
}

int server_load(struct server *s, struct lls_error *err)
{
  const struct lls_config *c = s->config;
  const struct lls_http_config http = {
      .limits = c->server.api.http,
      .context = s,
      .on_request = on_request,
      .error_body = lls_api_error_body,
      .error_type = "application/json",
  };
  char urls[LLS_ERROR_MAX];
  int rc = server_check_places(c, err);
  if (rc == 0)
    rc = server_check_state_is_free(c, err);
  if (rc == 0)
    rc = server_make_http(s, &http, err);
  if (rc < 0)
    return rc;
  lls_http_server_urls(s->http, urls, sizeof urls);
  lls_log(&s->log, LLS_LOG_INFO, "model", "loading %s; until then %s answers 503",
          c->model.path, urls);
  lls_notify("STATUS=loading %s", c->model.path);
  return start_thread(s, err);
}

void server_loaded(struct server *s)
{
  struct lls_error err = {0};
  uv_thread_join(&s->load.thread);
  s->load.running = false;
  if (s->stopping) {
    server_close(s);
    return;
  }
  int rc = s->load.status;
  if (rc == 0)
    rc = server_create_api(s, &err);
  else
    err = s->load.error;
  if (rc == 0)
    rc = server_give_up_calls(s, &err);
  if (rc < 0) {
    server_fail(s, &err, rc);
    return;
  }
  server_ready(s);
  uv_async_send(&s->wake); /* reports a rank that failed during loading */
  if (s->reload_again) {
    s->reload_again = false;
    server_reload(s);
  }
}
