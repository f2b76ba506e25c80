/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the parts of the daemon from the configuration; see daemon.h. */
#include "core/serve/daemon.h"

#include "core/assembly/options.h"
#include "core/base/file.h"
#include "core/lora/lora_set.h"
#include "core/model/reranker.h"
#include "core/record/history.h"
#include "core/traces/exporter.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void warn_of_template(struct server *s)
{
  const char *problem = lls_chat_template_problem(s->chat_template);
  const char *warning = lls_chat_template_warning(s->chat_template);
  if (problem != NULL)
    lls_log(&s->log, LLS_LOG_WARNING, "model",
            "%s: chat requests will be refused; [model] chat_template may name another "
            "template",
            problem);
  else if (warning != NULL)
    lls_log(&s->log, LLS_LOG_WARNING, "model",
            "%s: chat requests that reach this will be refused", warning);
}

/* Warns of gaps in the model's files, and of defaults that differ from other servers'. */
static void warn_of_model(struct server *s)
{
  struct lls_error sentence;
  const struct lls_rope_config *rope = &s->model.rope;
  if (lls_model_tokenizer_lacks(s->config->model.path, &sentence))
    lls_log(&s->log, LLS_LOG_WARNING, "model", "%s", sentence.text);
  const struct lls_engine *mine = s->engines[s->channel != NULL ? s->channel->self : 0];
  uint32_t context = server_max_context(s->config, mine);
  if (rope->scaling == LLS_ROPE_LONG && context > rope->original_context &&
      memcmp(rope->long_factors, rope->short_factors, sizeof rope->long_factors) != 0)
    lls_log(
        &s->log, LLS_LOG_WARNING, "model",
        "LongRoPE: contexts of up to %u tokens are served, so the factors of long ones "
        "hold from the first token on; [engine] max_context = %u takes those of short "
        "ones, which are better there",
        context, rope->original_context);
}

int server_load_model(struct server *s, struct lls_error *err)
{
  const char *path = s->config->model.path;
  const char *key;
  int rc = lls_instances_read(&s->config->engine, &s->instances, &key, err);
  if (rc == 0)
    rc = lls_model_config_read_for(path, (enum lls_model_task)s->config->model.task,
                                   &s->model, err);
  if (rc == 0)
    rc = lls_model_tokenizer(path, &s->tokenizer, err);
  if (rc < 0)
    return lls_config_fail(s->config, err, rc, "model", "path", "%s",
                           lls_error_text(err, rc));
  rc = server_read_pooling(s->config, &s->model, &s->pooling, err);
  if (rc == 0 && s->model.score.rows > 0) {
    s->reranker_form = lls_reranker_form(path);
    rc = s->reranker_form != NULL ? 0 : lls_fail(err, -ENOMEM, "out of memory");
  }
  if (rc == 0 && s->model.labels > 1)
    rc = lls_labels_read(path, s->model.labels, &s->labels, err);
  if (rc == 0)
    rc = lls_grammar_cache_create(s->tokenizer, s->model.vocab, s->model.eos,
                                  s->model.n_eos, &s->grammars, err);
  if (rc == 0)
    rc = server_load_template(s, err);
  if (rc < 0)
    return rc;
  if (!s->model.encoder)
    warn_of_template(s);
  if (s->model.text_part)
    lls_log(&s->log, LLS_LOG_INFO, "model",
            "its text part is loaded; what reads images is left alone");
  rc = server_read_draft_model(s, err);
  if (rc == 0)
    rc = server_start_ranks(s, err);
  if (rc == 0)
    rc = server_create_instances(s, err);
  if (rc == 0)
    rc = server_make_adapters(s, err);
  if (rc == 0)
    warn_of_model(s);
  return rc;
}

static void wake_main(void *context)
{
  struct server *s = context;
  uv_async_send(&s->wake);
}

/* The loop's wake callback in a process without a front end. */
static void wake_nobody(void *context)
{
  (void)context;
}

#define DECISIONS_KEPT 9 /* logs of earlier starts, FILE.1 to FILE.9 */

/* Records arrivals and plans in the file of [server] decisions. */
static int open_decisions(struct server *s, struct lls_loop_options *options,
                          struct lls_error *err)
{
  const struct lls_decision_log_options o = {.path = s->config->server.decisions,
                                             .log = &s->log,
                                             .max_requests = options->max_requests};
  if (o.path[0] == '\0')
    return 0;
  if (s->instances.n > 1)
    return lls_config_fail(s->config, err, -ENOTSUP, "server", "decisions",
                           "plans of %u instances side by side cannot be recorded: omit "
                           "the key, or [engine] instances and roles",
                           s->instances.n);
  int rc = lls_file_rotate(o.path, DECISIONS_KEPT);
  if (rc < 0)
    return lls_config_fail(s->config, err, rc, "server", "decisions",
                           "%s of an earlier start cannot be put aside: %s", o.path,
                           strerror(-rc));
  rc = lls_decision_log_create(&o, &s->decisions, err);
  if (rc < 0)
    return lls_config_fail(s->config, err, rc, "server", "decisions", "%s",
                           lls_error_text(err, rc));
  lls_decision_log_begin(s->decisions, &options->policies, s->engines[0], options->seed);
  options->observer = lls_decision_log_observer(s->decisions);
  return 0;
}

/* Keeps the traffic of the last minutes ([server] history) in memory. */
static int open_history(struct server *s, struct lls_loop_options *options,
                        struct lls_error *err)
{
  int64_t span_ns = s->config->server.history;
  if (span_ns == 0 || server_follows(s))
    return 0;
  int rc = lls_history_create(span_ns, options, s->engines[0], &s->history, err);
  if (rc == 0 && s->channel != NULL) /* process 0's instance sees only its own traffic */
    options->front = lls_history_observer(s->history, options->front);
  else if (rc == 0)
    options->observer = lls_history_observer(s->history, options->observer);
  return rc;
}

/* Keeps measurements in the service's first StateDirectory= unless [cache] measurements
 * names a folder. */
static void choose_folder(struct lls_loop_options *options, char *folder, size_t size)
{
  const char *all = getenv("STATE_DIRECTORY");
  if (options->measurements[0] != '\0' || all == NULL)
    return;
  snprintf(folder, size, "%.*s", (int)strcspn(all, ":"), all);
  options->measurements = folder;
}

/* Creates the loop, with the configuration for processes that join later. */
static int create_loop(struct server *s, struct lls_loop_options *options,
                       struct lls_error *err)
{
  struct lls_pack p = {0};
  if (s->channel != NULL && s->channel->elastic && !server_follows(s))
    lls_ini_pack(&s->config->ini, &p);
  options->remote.config = p.data;
  options->remote.config_bytes = p.n;
  int rc = p.failed ? lls_fail(err, -ENOMEM, "out of memory")
                    : lls_loop_create(options, &s->loop, err);
  free(p.data);
  return rc;
}

int server_create_loop(struct server *s, struct lls_error *err)
{
  const struct lls_config *c = s->config;
  struct lls_loop_options options = lls_loop_options_of(c, &s->model);
  options.builtin = s->builtin;
  char folder[PATH_MAX];
  choose_folder(&options, folder, sizeof folder);
  struct lls_loop_instance instances[LLS_MAX_INSTANCES];
  server_list_instances(s, instances);
  options.instances = instances;
  options.n_instances = s->instances.n;
  options.log = &s->log;
  options.remote = server_remote_options(s);
  options.wake = server_follows(s) ? wake_nobody : wake_main;
  options.wake_context = s;
  bool keeps = c->cache.kept_prompts > 0 || c->cache.disk_space > 0;
  int rc = lls_key_secret_find(keeps ? c->server.state : NULL, &options.key_secret, err);
  if (rc == 0)
    rc = open_decisions(s, &options, err);
  if (rc == 0)
    rc = open_history(s, &options, err);
  if (rc == 0)
    rc = create_loop(s, &options, err);
  if (rc == 0 && !server_follows(s))
    lls_log(&s->log, LLS_LOG_INFO, "plugins",
            "scheduler %s %s, cache %s %s, predictor %s %s, drafter %s %s",
            c->policies.scheduler.module->descriptor->id,
            c->policies.scheduler.module->descriptor->version,
            c->policies.cache.module->descriptor->id,
            c->policies.cache.module->descriptor->version,
            c->policies.predictor.module->descriptor->id,
            c->policies.predictor.module->descriptor->version,
            c->policies.drafter.module->descriptor->id,
            c->policies.drafter.module->descriptor->version);
  return rc;
}

static void on_reload(void *context)
{
  server_reload(context);
}

static int on_change(void *context, const struct lls_changes *changes)
{
  return server_change(context, changes);
}

static int on_whatif(void *context, const struct lls_whatif_question *question,
                     struct lls_error *err)
{
  return server_ask_whatif(context, question, false, NULL, err);
}

static void on_give_up(void *context)
{
  server_give_up_whatif(context);
}

static void on_idle(void *context)
{
  server_close_if_done(context);
}

/* Drains on a request to /admin/drain. The exit status differs from that of a stop by
 * the service manager, so that the manager may start the server again. */
static void on_drain(void *context, const char *asked_by)
{
  struct server *s = context;
  lls_log(&s->log, LLS_LOG_WARNING, "server",
          "/admin/drain, asked for by %s: finishing what runs, at most %lld s, then exit "
          "status %d",
          asked_by, (long long)(s->config->server.drain_timeout / LLS_NS_PER_S),
          SERVER_EXIT_DRAINED);
  if (s->stopping)
    return;
  s->status = SERVER_EXIT_DRAINED;
  server_drain(s);
}

static struct lls_kv_config kv_config_of(const struct lls_server_config *c)
{
  bool is_stream = strcmp(c->kv_events, "stream") == 0;
  return (struct lls_kv_config){.on = c->kv_events[0] != '\0',
                                .endpoint = is_stream ? "" : c->kv_events,
                                .replay = c->kv_events_replay,
                                .topic = c->kv_events_topic,
                                .maps = c->kv_events_form == LLS_KV_MAP};
}

int server_create_api(struct server *s, struct lls_error *err)
{
  const struct lls_model_sampling *m = &s->model.sampling;
  const struct lls_config *c = s->config;
  struct lls_api_config config = {
      .uv = &s->uv,
      .http = s->http,
      .loop = s->loop,
      .tokenizer = s->tokenizer,
      .grammars = s->grammars,
      .chat_template = s->chat_template,
      .template_variables = s->template_variables,
      .dialect = s->dialect,
      .model_name = c->server.served_model_name,
      .max_context = server_max_context(c, s->engines[0]),
      .vocab = s->model.vocab,
      .block_tokens = (uint32_t)c->cache.block_tokens,
      .sampling = {.temperature = (float)m->temperature,
                   .top_p = (float)m->top_p,
                   .min_p = (float)m->min_p,
                   .top_k = (int32_t)m->top_k,
                   .repetition_penalty = (float)m->repetition_penalty},
      .seed = (uint64_t)c->engine.seed,
      .drafts = lls_engine_caps(s->engines[0])->max_drafts > 0 && lls_config_drafts(c),
      .few_samplers = !s->devices[0]->ops->has_filter_chain,
      .pooling = s->pooling,
      .vector_columns = lls_engine_vector_columns(s->engines[0]),
      .encoder = {.is_one = s->model.encoder,
                  .headless = s->model.headless,
                  .scores_pairs = s->model.labels == 1,
                  .labels = s->labels.names,
                  .independent_labels = s->labels.independent,
                  .form = s->reranker_form,
                  .plain_score = s->model.plain_score,
                  .tells_texts = s->model.token_types > 1},
      .adapters = s->adapters,
      .changes_adapters = c->lora.runtime,
      .limits = c->server.api,
      .isolate = c->cache.isolate,
      .keys = s->wanted_keys,
      .admin = {.state = &s->admin,
                .history = s->history,
                .context = s,
                .reload = on_reload,
                .change = on_change,
                .drain = on_drain,
                .whatif = {.state = &s->whatif.state,
                           .ask = on_whatif,
                           .give_up = on_give_up}},
      .state = c->server.state,
      .state_database = c->server.state_database,
      .state_files = c->server.state_files,
      .replica = c->server.replica,
      .traces = s->traces,
      .kv_events = kv_config_of(&c->server),
      .log = &s->log,
      .on_idle = on_idle,
      .on_idle_context = s,
  };
  s->wanted_keys = (struct lls_api_keyring){0};
  return lls_api_create(&config, &s->api, err);
}

void server_destroy(struct server *s)
{
  lls_loop_destroy(s->loop);
  server_stop_ranks(s);
  lls_decision_log_destroy(s->decisions, NULL); /* the log reports its own errors */
  while (s->reloads != NULL)
    server_free_reload(s, s->reloads);
  if (s->api != NULL)
    lls_api_destroy(s->api);
  else
    lls_http_server_destroy(s->http);
  /* after the api, whose threads may be writing the history */
  lls_history_destroy(s->history);
  server_destroy_parts(s);
}

void server_destroy_parts(struct server *s)
{
  server_leave_channel(s);
  server_destroy_instances(s);
  lls_lora_set_destroy(s->adapters);
  if (s->ranks != NULL)
    s->ranks->ops->destroy(s->ranks);
  lls_exporter_destroy(s->traces);
  lls_api_keyring_free(&s->wanted_keys);
  lls_changes_free(&s->asked);
  lls_changes_free(&s->autopilot.before);
  server_free_whatif(s);
  lls_chat_template_free(s->chat_template);
  json_decref(s->template_variables);
  lls_grammar_cache_destroy(s->grammars);
  lls_tokenizer_free(s->tokenizer);
  free(s->reranker_form);
  lls_labels_free(&s->labels);
}
