/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ALISE, section 3.1: the length of an answer is estimated from the answers to
 * similar prompts. This file has creation, destruction and the calls on [step].
 * These only post a copy of the prompt, which takes microseconds; the search,
 * which takes milliseconds, is the worker's.
 */
#include "plugins/predictors/retrieval/retrieval.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/predictors/retrieval/words.h"

/* number of buckets of equal width up to the context, for bucket_accuracy */
#define BUCKETS 10

/* ---- the encoder ------------------------------------------------------------------- */

/* [worker] */
static void on_encoded(void *context, uint64_t tag, int rc, const float *vector)
{
  struct retrieval *r = context;
  struct job *job = job_make(JOB_VECTOR, vector, rc == 0 ? r->dims * sizeof *vector : 0);
  if (job == NULL) {
    r->lost = true;
    return;
  }
  job->ticket = tag;
  if (!worker_post(r, job))
    r->lost = true;
}

static int open_encoder(struct retrieval *r)
{
  const struct params *p = &r->params;
  char why[256] = "out of memory";
  struct lls_embed_options o = {
      .size = sizeof o,
      .threads = (uint32_t)p->encoder_threads,
      .max_tokens = (uint32_t)p->encoder_tokens,
      .max_queued = r->most_flights,
      .folder = p->encoder_path,
      .done = p->async ? on_encoded : NULL,
      .done_context = r,
      .why = why,
      .why_bytes = sizeof why,
  };
  if (r->embed == NULL)
    return r->host->fail(r->host->context, -ENOTSUP,
                         "this core has no encoders: set encoder = hash");
  int rc = r->embed->open(r->embed->context, &o, &r->embedder);
  if (rc < 0)
    return r->host->fail(r->host->context, rc, "the encoder: %s", why);
  struct lls_embedder_info info = {.size = sizeof info};
  r->embed->describe(r->embedder, &info);
  r->dims = info.dims;
  r->space = info.fingerprint;
  r->host->log(r->host->context, LLS_LOG_INFO, "encoder %s, vectors of %u", info.folder,
               info.dims);
  return 0;
}

static void use_words(struct retrieval *r)
{
  r->dims = (uint32_t)r->params.dims;
  r->space = words_hash("words", 5, r->dims);
}

static int choose_encoder(struct retrieval *r)
{
  if (r->params.encoder == ENCODER_HASH) {
    use_words(r);
    return 0;
  }
  int rc = open_encoder(r);
  bool named = r->params.encoder_path != NULL && *r->params.encoder_path != '\0';
  if (rc != 0 && (rc == -ENOENT || rc == -ENOTDIR || rc == -ENOTSUP) && !named &&
      r->params.encoder == ENCODER_AUTO) {
    r->host->log(r->host->context, LLS_LOG_INFO,
                 "no folder `encoder` beside the model: prompts are compared by their "
                 "words; encoder_path names one");
    use_words(r);
    rc = 0;
  }
  return rc;
}

/* Reads mlp_file, or length.mlp in the encoder's folder. */
static int read_regressor(struct retrieval *r)
{
  char beside[PATH_MAX];
  const char *path = r->params.mlp_file;
  bool named = path != NULL && *path != '\0';
  if (!named && r->embedder == NULL)
    return 0;
  if (!named) {
    struct lls_embedder_info info = {.size = sizeof info};
    r->embed->describe(r->embedder, &info);
    snprintf(beside, sizeof beside, "%s/length.mlp", info.folder);
    path = beside;
  }
  int rc = regressor_read(path, r->dims, r->host, &r->regressor);
  if (rc == -ENOENT && named)
    return r->host->fail(r->host->context, rc, "mlp_file: %s does not exist", path);
  return rc == -ENOENT ? 0 : rc;
}

/* ---- making one -------------------------------------------------------------------- */

static int open_history(struct retrieval *r)
{
  const struct params *p = &r->params;
  struct store *store = NULL;
  struct store_options o = {.path = p->db_file,
                            .model = r->embed != NULL ? r->embed->model : "",
                            .space = r->space,
                            .dims = r->dims};
  int rc = 0;
  if (p->db_file != NULL && *p->db_file != '\0')
    rc = store_open(&o, r->host, &store);
  if (rc < 0)
    return rc;
  rc = history_create(r->dims, (uint32_t)p->db_max, store, &r->history);
  if (rc < 0) {
    store_close(store);
    return r->host->fail(r->host->context, rc, "no memory for a history of %lld answers",
                         (long long)p->db_max);
  }
  return retrieval_load(r);
}

static void destroy(void *self)
{
  struct retrieval *r = self;
  worker_stop(r); /* which may still submit */
  if (r->embedder != NULL)
    r->embed->close(r->embedder);
  flights_free(r);
  regressor_free(r->regressor);
  history_destroy(r->history);
  pthread_mutex_destroy(&r->work);
  pthread_mutex_destroy(&r->lock);
  pthread_cond_destroy(&r->posted);
  free(r);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct retrieval *r = calloc(1, sizeof *r);
  if (r == NULL)
    return -ENOMEM;
  r->host = host;
  r->params = *(const struct params *)params;
  r->embed = host->extension(host->context, LLS_EMBED);
  r->most_flights = 2 * host->engine->max_requests;
  r->bin = host->engine->max_context / BUCKETS + 1;
  r->next_own = LLS_OWN_TICKETS;
  judge_init(&r->judge);
  r->median = r->judge.median;
  pthread_mutex_init(&r->work, NULL);
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->posted, NULL);
  int rc = choose_encoder(r);
  if (rc == 0)
    rc = read_regressor(r);
  if (rc == 0)
    rc = open_history(r);
  if (rc == 0 && r->params.async)
    rc = worker_start(r);
  if (rc < 0)
    destroy(r);
  else
    *self = r;
  return rc;
}

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_PREDICTOR_PREDICTS;
}

/* ---- what the core calls ----------------------------------------------------------- */

/* Makes a job of the prompt's text, or of its tokens if there is no text. */
static struct job *job_of(enum job_kind kind, const struct lls_prompt *prompt)
{
  bool is_text = prompt->text != NULL;
  const void *data = is_text ? prompt->text : (const void *)prompt->tokens;
  size_t bytes = is_text ? prompt->text_bytes : prompt->n_tokens * sizeof(int32_t);
  struct job *job = job_make(kind, data, bytes);
  if (job == NULL)
    return NULL;
  job->is_text = is_text;
  job->key = words_hash(data, bytes, is_text);
  job->max_new = prompt->max_new_tokens;
  return job;
}

static int predict(void *self, uint64_t ticket, const struct lls_prompt *prompt,
                   struct lls_prediction *out)
{
  struct retrieval *r = self;
  *out = flights_prior(r, prompt->max_new_tokens);
  if (r->embedder != NULL && prompt->text == NULL)
    return 0; /* nothing to encode: the prior is all there is */
  struct job *job = job_of(JOB_PREDICT, prompt);
  if (job == NULL)
    return 0;
  job->ticket = ticket;
  if (r->params.async)
    return worker_post(r, job) ? -EINPROGRESS : 0;
  r->answer = out;
  worker_post(r, job);
  r->answer = NULL;
  return 0;
}

static void observe(void *self, const struct lls_prompt *prompt, uint32_t length)
{
  struct retrieval *r = self;
  struct job *job = length > 0 ? job_of(JOB_OBSERVE, prompt) : NULL;
  if (job == NULL)
    return;
  job->length = length;
  if (!worker_post(r, job))
    r->lost = true;
}

static void stats(void *self, const struct lls_sink *sink)
{
  struct retrieval *r = self;
  if (pthread_mutex_trylock(&r->work) != 0)
    return; /* busy: the step does not wait for it, the figures of before stand
             */
  struct judge j = r->judge;
  uint32_t entries = history_count(r->history);
  bool loading = r->loading;
  pthread_mutex_unlock(&r->work);
  const struct {
    const char *name;
    double value;
  } numbers[] = {
      {"error", j.error},           {"bucket_accuracy", j.accuracy},
      {"hit_rate", j.neighbours},   {"predictions", (double)j.predicted},
      {"judged", (double)j.judged}, {"entries", entries},
      {"median", j.median},         {"loading", loading},
      {"overloaded", r->lost},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    sink->number(sink->context, numbers[i].name, numbers[i].value);
}

static bool same_text(const char *a, const char *b)
{
  return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

static int reconfigure(void *self, const void *params)
{
  struct retrieval *r = self;
  const struct params *old = &r->params, *new = params;
  if (new->encoder != old->encoder || !same_text(new->encoder_path, old->encoder_path) ||
      !same_text(new->db_file, old->db_file) ||
      !same_text(new->mlp_file, old->mlp_file) || new->db_max != old->db_max ||
      new->dims != old->dims || new->async != old->async ||
      new->encoder_tokens != old->encoder_tokens ||
      new->encoder_threads != old->encoder_threads)
    return r->host->fail(r->host->context, -ENOTSUP,
                         "only k, s0, fallback and both can change while it runs");
  pthread_mutex_lock(&r->work);
  r->params = *new;
  pthread_mutex_unlock(&r->work);
  return 0;
}

static int export_state(void *self, struct lls_blob *out)
{
  return state_export(self, out);
}

static int import_state(void *self, const struct lls_blob *blob)
{
  return state_import(self, blob);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_CHOICE(struct params, encoder, "auto", "auto|model|hash",
                     "what makes vectors of prompts: a BERT-type model, hashed words, or "
                     "auto: the model if there is one"),
    LLS_PARAM_PATH(struct params, encoder_path, "",
                   "folder of the BERT-type model; the folder `encoder` of the served "
                   "model if empty"),
    LLS_PARAM_INT(struct params, encoder_threads, "1", 1, 64, "threads",
                  "that encode prompts together"),
    LLS_PARAM_INT(struct params, encoder_tokens, "128", 8, 8192, "tokens",
                  "of a prompt that are encoded, from its beginning"),
    LLS_PARAM_INT(struct params, dims, "256", 16, 4096, "",
                  "numbers of a vector of hashed words", .flags = LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_INT(struct params, k, "5", 1, HISTORY_MOST_NEIGHBOURS, "",
                  "nearest answers that are averaged", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(
        struct params, s0, "auto", -1, 1, "",
        "cosine from which on an answer is near enough; auto: 0.8 where there "
        "is a length model, else 0",
        .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_AUTO),
    LLS_PARAM_INT(struct params, db_max, "100000", 2, 10000000, "answers",
                  "remembered at most; the oldest half goes when it is full"),
    LLS_PARAM_PATH(struct params, db_file, "",
                   "SQLite file that remembers them, of one server alone; nothing "
                   "outlives the process if empty"),
    LLS_PARAM_CHOICE(struct params, fallback, "mlp", "mlp|median|max",
                     "where nothing is near enough: the length model, else the median of "
                     "the last answers, or max_tokens of the request",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(struct params, both, "on",
                   "where neighbours are near, they and the length model; off: the "
                   "paper's, neighbours alone",
                   .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_PATH(struct params, mlp_file, "",
                   "the length model of tools/predictor/train.py; length.mlp in the "
                   "encoder's folder if empty"),
    LLS_PARAM_BOOL(struct params, async, "on",
                   "predict on a thread of its own; off: inside the step, repeatable",
                   .flags = LLS_PARAM_EXPERIMENTAL),
};

static const struct lls_predictor_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .flags = flags,
    .predict = predict,
    .observe = observe,
    .stats = stats,
    .reconfigure = reconfigure,
    .export_state = export_state,
    .import_state = import_state,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_PREDICTOR,
    .id = "retrieval",
    .version = "1.0",
    .description = "lengths of the answers to prompts like it (ALISE)",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
