/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole front end with a real tokeniser and chat template, and no engine behind it.
 *
 *   fake_server MODEL_FOLDER [NAME=NUMBER]...
 *
 * Names: period, requests, context, connections, header, body, unsent, idle, read, write,
 * silence (keep_alive), total (request_timeout), strict, batch (batch_requests),
 * dialects (metrics_legacy and metrics_llamacpp), state (a folder).
 * Prints its address; drains and exits with 0 on SIGTERM.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/api_internal.h"
#include "text/template/template.h"
#include "text/tokenizer/tokenizer.h"
#include "t/api/fake_loop.h"

struct server {
  uv_loop_t uv;
  uv_signal_t terminate;
  struct lls_loop *loop;
  struct lls_api *api;
  struct lls_tokenizer *tokenizer;
  struct lls_chat_template *chat_template;
  struct lls_log log;
  bool stopping, closing;
};

static void on_api_closed(void *context)
{
  struct server *server = context;
  fake_loop_stop(server->loop);
  uv_close((uv_handle_t *)&server->terminate, NULL);
}

static void close_if_done(struct server *server)
{
  if (!server->stopping || server->closing || !lls_api_idle(server->api))
    return;
  server->closing = true;
  lls_api_close(server->api, on_api_closed, server);
}

static void wake(void *context)
{
  struct server *server = context;
  lls_api_on_wake(server->api);
  close_if_done(server);
}

static void on_idle(void *context)
{
  close_if_done(context);
}

static void on_terminate(uv_signal_t *handle, int number)
{
  struct server *server = handle->data;
  (void)number;
  server->stopping = true;
  lls_api_drain(server->api);
  close_if_done(server);
}

static void set_option(const char *argument, struct lls_api_config *config,
                       struct fake_options *fake)
{
  struct lls_http_limits *http = &config->limits.http;
  const struct {
    const char *name;
    uint32_t *small;
    int64_t *large;
    int64_t unit; /* of the large ones: of the option in the member's */
  } options[] = {
      {"requests", &fake->max_requests, NULL, 1},
      {"together", &fake->together, NULL, 1},
      {"context", &fake->max_context, NULL, 1},
      {"connections", NULL, &http->max_connections, 1},
      {"header", NULL, &http->max_header, 1},
      {"body", NULL, &http->max_body, 1},
      {"unsent", NULL, &http->max_unsent, 1},
      {"idle", NULL, &http->idle_timeout, LLS_NS_PER_MS},
      {"read", NULL, &http->read_timeout, LLS_NS_PER_MS},
      {"write", NULL, &http->write_timeout, LLS_NS_PER_MS},
      {"silence", NULL, &config->limits.keep_alive, LLS_NS_PER_MS},
      {"total", NULL, &config->limits.request_timeout, LLS_NS_PER_MS},
      {"batch", NULL, &config->limits.batch_requests, 1},
  };
  const char *equals = strchr(argument, '=');
  size_t length = equals != NULL ? (size_t)(equals - argument) : 0;
  unsigned long value = equals != NULL ? strtoul(equals + 1, NULL, 10) : 0;
  if (length == 6 && strncmp(argument, "period", length) == 0)
    fake->period_ms = value;
  if (length == 6 && strncmp(argument, "format", length) == 0)
    config->dialect.format = lls_tool_format_find(equals + 1);
  if (length == 9 && strncmp(argument, "reasoning", length) == 0)
    config->dialect.reasoning = lls_reasoning_format_find(equals + 1);
  if (length == 6 && strncmp(argument, "strict", length) == 0)
    config->limits.strict_params = value != 0;
  if (length == 5 && strncmp(argument, "state", length) == 0)
    config->state = equals + 1;
  if (length == 8 && strncmp(argument, "dialects", length) == 0)
    config->limits.metrics_legacy = config->limits.metrics_llamacpp = value != 0;
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
    if (strlen(options[i].name) != length ||
        strncmp(options[i].name, argument, length) != 0)
      continue;
    if (options[i].small != NULL)
      *options[i].small = (uint32_t)value;
    else
      *options[i].large = (int64_t)value * options[i].unit;
  }
}

static int load(struct server *server, const char *folder, struct lls_error *err)
{
  int status = lls_tokenizer_load(folder, &server->tokenizer, err);
  if (status == 0)
    status = lls_chat_template_compile(
        "{% if only %}{{ messages[-1].content }}{% else %}"
        "{% if note is defined %}{{ note }}\n{% endif %}"
        "{% if tools %}tool {{ tools[0].function.name }}\n{% endif %}"
        "{% if split %}{{ messages[0].content.split(' ') | length }}\n{% endif %}"
        "{% for m in messages %}{{ m.role }}{% if m.name %} {{ m.name }}{% endif %}: "
        "{% if trim %}{{ m.content | trim }}"
        "{% elif m.role != 'mute' %}{{ m.content }}{% endif %}"
        "{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments.city }}"
        "{% endif %}{% if m.tool_call_id %}{{ m.tool_call_id }}{% endif %}{{ '\\n' }}{% "
        "endfor %}{% endif %}",
        NULL, NULL, &server->chat_template, err);
  return status;
}

static int start(struct server *server, int argc, char **argv, struct lls_error *err)
{
  struct lls_api_config config = {
      .uv = &server->uv,
      .tokenizer = server->tokenizer,
      .chat_template = server->chat_template,
      .model_name = "fake/model",
      .vocab = (uint32_t)lls_tokenizer_size(server->tokenizer),
      .block_tokens = 16,
      .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
      .pooling = {.pooling = LLS_POOLING_LAST,
                  .is_written = true,
                  .matryoshka = true,
                  .n_dimensions = 1,
                  .dimensions = {2}},
      .vector_columns = FAKE_COLUMNS,
      .limits = LLS_API_DEFAULT_LIMITS,
      .log = &server->log,
      .on_idle = on_idle,
      .on_idle_context = server,
  };
  struct fake_options fake = {
      .uv = &server->uv,
      .period_ms = 2,
      .max_requests = 1000,
      .max_context = 512,
      .bos = 1,
      .eos = 2,
      .wake = wake,
      .wake_context = server,
  };
  for (int i = 2; i < argc; i++)
    set_option(argv[i], &config, &fake);
  fake.vocab = config.vocab;
  config.max_context = fake.max_context;
  server->loop = config.loop = fake_loop_create(&fake);
  int status = lls_api_create(&config, &server->api, err);
  return status == 0 ? lls_api_listen(server->api, "127.0.0.1:0", err) : status;
}

int main(int argc, char **argv)
{
  struct server server = {.log = {.fd = 2, .level = LLS_LOG_INFO}};
  struct lls_error err = {0};
  signal(SIGPIPE, SIG_IGN);
  uv_loop_init(&server.uv);
  if (argc < 2 || load(&server, argv[1], &err) != 0 ||
      start(&server, argc, argv, &err) != 0) {
    fprintf(stderr, "fake_server: %s\n", err.text);
    return 1;
  }
  uv_signal_init(&server.uv, &server.terminate);
  uv_signal_start(&server.terminate, on_terminate, SIGTERM);
  server.terminate.data = &server;
  printf("%s\n", lls_http_server_address(server.api->http));
  fflush(stdout);
  uv_run(&server.uv, UV_RUN_DEFAULT);
  lls_api_destroy(server.api);
  lls_chat_template_free(server.chat_template);
  lls_tokenizer_free(server.tokenizer);
  return uv_loop_close(&server.uv) == 0 ? 0 : 1;
}
