/* SPDX-License-Identifier: Apache-2.0 */
/* The server that requests go to, and the parts that all requests have in common. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/address.h"
#include "core/base/json_parse.h"
#include "core/model/model_text.h"
#include "tools/bench/bench.h"

#define RETRY_MS 200
/* longest wait for a GET; a server that takes longer is not ready */
#define ANSWER_MS       10000
#define DEFAULT_VOCAB   256 /* ids that every vocabulary contains */
#define FIRST_RANDOM_ID 4   /* above the usual ids of BOS, EOS and padding */

/* ---- the address ------------------------------------------------------------------- */

struct target {
  char host[256], port[8], prefix[256];
};

/* "http://HOST:PORT/PREFIX" */
static int parse_url(const char *url, struct target *t, struct lls_error *err)
{
  static const char scheme[] = "http://";
  if (strncmp(url, scheme, sizeof scheme - 1) != 0)
    return lls_fail(err, -EINVAL,
                    "--base-url: expected http://HOST:PORT, found '%s' (for https put a "
                    "TLS proxy before it)",
                    url);
  const char *begin = url + sizeof scheme - 1, *slash = strchr(begin, '/'), *port;
  char address[256 + 8];
  size_t length = slash != NULL ? (size_t)(slash - begin) : strlen(begin);
  snprintf(address, sizeof address, "%.*s", (int)length, begin);
  if (lls_address_split(address, t->host, &port) == 0)
    snprintf(t->port, sizeof t->port, "%s", port);
  else
    snprintf(t->host, sizeof t->host, "%.255s", address);
  snprintf(t->prefix, sizeof t->prefix, "%s", slash != NULL ? slash : "");
  length = strlen(t->prefix);
  if (length > 0 && t->prefix[length - 1] == '/')
    t->prefix[length - 1] = '\0';
  return t->host[0] != '\0' ? 0
                            : lls_fail(err, -EINVAL, "--base-url: '%s' has no host", url);
}

static int set_target(struct lls_bench *b, struct target *t, struct lls_error *err)
{
  const struct lls_bench_options *o = b->options;
  int rc = 0;
  *t = (struct target){.port = "80"};
  if (o->base_url[0] != '\0') {
    rc = parse_url(o->base_url, t, err);
  } else {
    snprintf(t->host, sizeof t->host, "%s", o->host);
    snprintf(t->port, sizeof t->port, "%lld", (long long)o->port);
  }
  b->chat =
      o->backend == LLS_BACKEND_OPENAI_CHAT || strstr(o->endpoint, "/chat/") != NULL;
  const char *endpoint = strcmp(o->endpoint, "auto") != 0 ? o->endpoint
                         : b->chat                        ? "/v1/chat/completions"
                                                          : "/v1/completions";
  bool v6 = strchr(t->host, ':') != NULL;
  snprintf(b->host, sizeof b->host, "%s%.200s%s:%s", v6 ? "[" : "", t->host,
           v6 ? "]" : "", t->port);
  snprintf(b->path, sizeof b->path, "%s%.250s", t->prefix, endpoint);
  snprintf(b->prefix, sizeof b->prefix, "%s", t->prefix);
  return rc;
}

/* Adds the API key of the environment variable that OpenAI's clients use. */
static int add_key(struct lls_bench *b, size_t used, struct lls_error *err)
{
  const char *key = getenv("OPENAI_API_KEY");
  if (key == NULL || key[0] == '\0')
    return 0;
  if (strpbrk(key, "\r\n") != NULL)
    return lls_fail(err, -EINVAL, "OPENAI_API_KEY: a key has no line break");
  used += (size_t)snprintf(b->headers + used, sizeof b->headers - used,
                           "Authorization: Bearer %s\r\n", key);
  return used < sizeof b->headers
             ? 0
             : lls_fail(err, -EINVAL, "OPENAI_API_KEY and --header: more than %zu bytes",
                        sizeof b->headers);
}

static int set_headers(struct lls_bench *b, struct lls_error *err)
{
  static const char authorization[] = "Authorization";
  const char *at = b->options->header;
  size_t length, used = 0;
  bool has_key = false;
  for (const char *line; (line = lls_option_next(&at, &length)) != NULL;) {
    const char *equals = memchr(line, '=', length);
    if (equals == NULL || equals == line || memchr(line, '\r', length) != NULL)
      return lls_fail(err, -EINVAL, "--header: expected NAME=VALUE, found '%.*s'",
                      (int)length, line);
    has_key =
        has_key || ((size_t)(equals - line) == sizeof authorization - 1 &&
                    strncasecmp(line, authorization, sizeof authorization - 1) == 0);
    used += (size_t)snprintf(b->headers + used, sizeof b->headers - used,
                             "%.*s: %.*s\r\n", (int)(equals - line), line,
                             (int)(length - (size_t)(equals + 1 - line)), equals + 1);
    if (used >= sizeof b->headers)
      return lls_fail(err, -EINVAL, "--header: more than %zu bytes", sizeof b->headers);
  }
  return has_key ? 0 : add_key(b, used, err);
}

/* ---- members of all requests ------------------------------------------------------- */

/* Adds the members of an option's JSON object, under a name if there is one. */
static int set_object(struct lls_bench *b, const char *option, const char *text,
                      const char *name, struct lls_error *err)
{
  json_error_t why = {.text = ""};
  if (text[0] == '\0')
    return 0;
  json_t *object = lls_json_parse_string(text, JSON_REJECT_DUPLICATES, &why);
  int rc = !json_is_object(object) ? -EINVAL
           : name != NULL          ? json_object_set(b->sampling, name, object)
                                   : json_object_update(b->sampling, object);
  json_decref(object);
  return rc == 0 ? 0
                 : lls_fail(err, -EINVAL, "--%s: expected a JSON object: %s", option,
                            why.text);
}

static int set_sampling(struct lls_bench *b, struct lls_error *err)
{
  const struct lls_bench_options *o = b->options;
  const struct {
    const char *name;
    double value;
  } rows[] = {
      {"temperature", o->temperature},
      {"top_p", o->top_p},
      {"min_p", o->min_p},
      {"frequency_penalty", o->frequency_penalty},
      {"presence_penalty", o->presence_penalty},
      {"repetition_penalty", o->repetition_penalty},
  };
  b->sampling = json_object();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!isnan(rows[i].value))
      json_object_set_new(b->sampling, rows[i].name, json_real(rows[i].value));
  if (!isnan(o->top_k))
    json_object_set_new(b->sampling, "top_k", json_integer((json_int_t)o->top_k));
  if (o->logprobs != LLS_NEVER && b->chat) {
    json_object_set_new(b->sampling, "logprobs", json_true());
    json_object_set_new(b->sampling, "top_logprobs", json_integer(o->logprobs));
  } else if (o->logprobs != LLS_NEVER) {
    json_object_set_new(b->sampling, "logprobs", json_integer(o->logprobs));
  }
  if (o->ignore_eos || lls_workload_is_random(b->workload_options))
    json_object_set_new(b->sampling, "ignore_eos", json_true());
  int rc = set_object(b, "extra-body", o->extra_body, NULL, err);
  return rc < 0 || !b->chat
             ? rc
             : set_object(b, "chat-template-kwargs", o->chat_template_kwargs,
                          "chat_template_kwargs", err);
}

static int set_vocabulary(struct lls_bench *b, struct lls_error *err)
{
  const char *folder = b->workload_options->tokenizer;
  struct lls_tokenizer *tokenizer;
  b->id_high = DEFAULT_VOCAB;
  if (b->options->vocab_size != LLS_NEVER) {
    b->id_high = (int32_t)b->options->vocab_size;
  } else if (folder[0] != '\0') {
    int rc = lls_model_tokenizer(folder, &tokenizer, err);
    if (rc < 0)
      return rc;
    b->id_high = (int32_t)lls_tokenizer_size(tokenizer);
    lls_tokenizer_free(tokenizer);
  }
  b->id_low = b->id_high > 2 * FIRST_RANDOM_ID ? FIRST_RANDOM_ID : 0;
  return 0;
}

int lls_bench_open(struct lls_bench *b, const struct lls_bench_options *o,
                   const struct lls_workload_options *workload, struct lls_error *err)
{
  struct target target;
  *b = (struct lls_bench){.options = o, .workload_options = workload};
  uv_loop_init(&b->uv);
  int rc = set_target(b, &target, err);
  if (rc == 0)
    rc = set_headers(b, err);
  if (rc == 0)
    rc = set_sampling(b, err);
  if (rc == 0)
    rc = set_vocabulary(b, err);
  if (rc == 0)
    rc = lls_client_create(&b->uv, target.host, target.port, &b->client, err);
  if (rc < 0)
    lls_bench_close(b);
  return rc;
}

void lls_bench_close(struct lls_bench *b)
{
  if (b->client != NULL)
    lls_client_close(b->client);
  uv_run(&b->uv, UV_RUN_DEFAULT);
  lls_client_free(b->client);
  json_decref(b->sampling);
  uv_loop_close(&b->uv);
}

/* ---- is it there? ------------------------------------------------------------------ */

struct probe {
  struct lls_fetch fetch;
  uv_timer_t timer;
  int status;
  bool over; /* done, and the timer is closed */
};

static void on_timer_closed(uv_handle_t *timer)
{
  struct probe *probe = timer->data;
  probe->over = true;
}

static void on_probe_end(struct lls_fetch *fetch, int status)
{
  struct probe *probe = fetch->context;
  probe->status = status;
  uv_close((uv_handle_t *)&probe->timer, on_timer_closed);
}

static void on_probe_timeout(uv_timer_t *timer)
{
  struct probe *probe = timer->data;
  lls_fetch_cancel(&probe->fetch);
  on_probe_end(&probe->fetch, -ETIMEDOUT);
}

/* Does one GET. Returns its status or -errno; *out is its JSON, or NULL if it is
 * none. */
static int get(struct lls_bench *b, const char *path, json_t **out)
{
  struct probe probe = {.fetch = {.context = &probe, .on_end = on_probe_end}};
  lls_text_printf(&probe.fetch.request, "GET %s%s HTTP/1.1\r\nHost: %s\r\n%s\r\n",
                  b->prefix, path, b->host, b->headers);
  uv_timer_init(&b->uv, &probe.timer);
  probe.timer.data = &probe;
  uv_timer_start(&probe.timer, on_probe_timeout, ANSWER_MS, 0);
  lls_fetch_send(b->client, &probe.fetch);
  while (!probe.over)
    uv_run(&b->uv, UV_RUN_ONCE);
  *out = lls_json_parse(probe.fetch.body.length > 0 ? probe.fetch.body.data : "",
                        probe.fetch.body.length, 0, NULL);
  lls_text_free(&probe.fetch.body);
  lls_text_free(&probe.fetch.request);
  return probe.status < 0 ? probe.status : (int)probe.fetch.status;
}

/* Uses the first model's id if --model names none. */
static int ask_models(struct lls_bench *b, struct lls_error *err)
{
  json_t *reply;
  int status = get(b, "/v1/models", &reply), rc = status < 0 ? status : 0;
  const char *id = json_string_value(
      json_object_get(json_array_get(json_object_get(reply, "data"), 0), "id"));
  if (rc < 0)
    lls_fail(err, rc, "http://%s: %s", b->host, strerror(-rc));
  else if (id == NULL && b->model[0] == '\0')
    rc = lls_fail(err, -EPROTO,
                  "http://%s%s/v1/models: status %d and no model in the answer: is this "
                  "an OpenAI server? Else set --model",
                  b->host, b->prefix, status);
  else if (b->model[0] == '\0')
    snprintf(b->model, sizeof b->model, "%s", id);
  json_decref(reply);
  return rc;
}

int lls_bench_reach(struct lls_bench *b, struct lls_error *err)
{
  const struct lls_bench_options *o = b->options;
  const char *named = o->served_model_name[0] != '\0' ? o->served_model_name
                      : strcmp(o->model, "auto") != 0 ? o->model
                                                      : "";
  uint64_t until = uv_hrtime() / 1000000 + 1000 * (uint64_t)o->ready_check_timeout_sec;
  snprintf(b->model, sizeof b->model, "%s", named);
  for (;;) {
    int rc = ask_models(b, err);
    if (rc == 0 || uv_hrtime() / 1000000 + RETRY_MS > until)
      return rc;
    uv_sleep(RETRY_MS);
  }
}

/* ---- who is it? -------------------------------------------------------------------- */

/* Keeps those members of the answer that do not change while a server runs. */
static void keep(json_t *server, const json_t *reply, const char *const *keys)
{
  for (; *keys != NULL; keys++)
    if (json_object_get(reply, *keys) != NULL)
      json_object_set(server, *keys, json_object_get(reply, *keys));
}

/* Keeps ids and lengths only: some servers set another `created` in every answer. */
static void keep_models(json_t *server, const json_t *reply)
{
  static const char *const keys[] = {"id", "root", "max_model_len", NULL};
  json_t *models = json_array(), *model;
  size_t i;
  json_array_foreach(json_object_get(reply, "data"), i, model)
  {
    json_t *kept = json_object();
    keep(kept, model, keys);
    json_array_append_new(models, kept);
  }
  json_object_set_new(server, "models", models);
}

json_t *lls_bench_server(struct lls_bench *b, struct lls_error *err)
{
  static const char *const version[] = {"version", NULL};
  static const char *const status[] = {"started", "generation", "plugins", NULL};
  json_t *server = json_object(), *reply = NULL;
  int rc = get(b, "/v1/models", &reply);
  if (rc >= 0) {
    keep_models(server, reply);
    json_decref(reply);
    rc = get(b, "/version", &reply);
  }
  if (rc >= 0) {
    keep(server, reply, version);
    json_decref(reply);
    rc = get(b, "/admin/status", &reply);
  }
  if (rc >= 0) {
    if (rc == 200)
      keep(server, reply, status);
    json_decref(reply);
    return server;
  }
  lls_fail(err, rc, "http://%s: %s", b->host, strerror(-rc));
  json_decref(reply);
  json_decref(server);
  return NULL;
}
