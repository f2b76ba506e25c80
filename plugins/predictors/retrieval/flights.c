/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicts a length for each prompt and adds its answer to the history. A
 * prompt is in flight from predict to observe and keeps its vector meanwhile,
 * so that it is encoded once; answers of prompts that are not in flight
 * (predicted before a reload, or pushed out by later ones) are encoded again.
 */
#include "plugins/predictors/retrieval/retrieval.h"

#include <llmserve/policy/check.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "plugins/predictors/retrieval/words.h"

static void end_flight(struct retrieval *r, struct flight *f)
{
  LLS_POL_CHECK(r->n_flights > 0 && r->flights != NULL);
  DL_DELETE(r->flights, f);
  r->n_flights--;
  free(f->vector);
  free(f);
}

void flights_free(struct retrieval *r)
{
  while (r->flights != NULL)
    end_flight(r, r->flights);
  LLS_POL_CHECK(r->n_flights == 0);
}

#define TOKEN_BYTES 4 /* mean bytes of an English token */

/* Words are hashed to the last. Of a text that is longer than what is encoded, others may
 * have the same vector: all that begin with one system prompt. */
static bool is_whole(const struct retrieval *r, const struct job *job)
{
  return r->embedder == NULL ||
         job->bytes <= TOKEN_BYTES * (size_t)r->params.encoder_tokens;
}

/* Begins a flight; frees the oldest if there are too many: a cancelled request is never
 * observed. */
static struct flight *begin_flight(struct retrieval *r, const struct job *job,
                                   uint64_t ticket)
{
  struct flight *f = malloc(sizeof *f);
  if (f == NULL)
    return NULL;
  if (r->n_flights == r->most_flights)
    end_flight(r, r->flights);
  LLS_POL_CHECK(r->n_flights < r->most_flights);
  *f = (struct flight){.ticket = ticket,
                       .key = job->key,
                       .max_new = job->max_new,
                       .whole = is_whole(r, job)};
  DL_APPEND(r->flights, f);
  r->n_flights++;
  return f;
}

/* ---- predicting -------------------------------------------------------------------- */

struct lls_prediction flights_prior(const struct retrieval *r, uint32_t max_new)
{
  uint32_t length = max_new;
  if (r->params.fallback != FALLBACK_MAX && r->median < max_new)
    length = r->median;
  return (struct lls_prediction){
      .length = length,
      .low = length,
      .high = length,
      .source = LLS_PREDICTED_PRIOR,
      .made_ns = r->host->now(r->host->context),
  };
}

#define NEAR 0.8 /* cosine; the paper names no threshold */

static bool has_model(const struct retrieval *r)
{
  return r->params.fallback == FALLBACK_MLP && r->regressor != NULL;
}

/* Returns the least similarity of a neighbour that counts. s0 = auto: any, unless there
 * is a length model to use instead. */
static double threshold(const struct retrieval *r)
{
  if (!isnan(r->params.s0))
    return r->params.s0;
  return has_model(r) ? NEAR : 0;
}

/* Predicts from the first of these that exists: an earlier answer to the same prompt;
 * neighbours, with the length model if there is one; the model alone; the prior. */
static struct lls_prediction predict(const struct retrieval *r, const struct flight *f)
{
  struct neighbour near[HISTORY_MOST_NEIGHBOURS];
  struct lls_prediction p = flights_prior(r, f->max_new);
  bool model = has_model(r);
  double mean = model ? regressor_log_length(r->regressor, f->vector) : 0;
  double deviation = model ? regressor_deviation(r->regressor) : 0;
  uint32_t n = history_near(r->history, f->vector, (uint32_t)r->params.k, near);
  if (f->whole && r->params.both && estimate_from_itself(near, n, f->max_new, &p)) {
    p.source = LLS_PREDICTED_HISTORY;
  } else if (model && r->params.both
                 ? estimate_from_both(near, n, threshold(r), mean, deviation, f->max_new,
                                      &p)
                 : estimate_from_neighbours(near, n, threshold(r), f->max_new, &p)) {
    p.source = LLS_PREDICTED_HISTORY;
  } else if (model) {
    estimate_from_log(mean, deviation, f->max_new, &p);
    p.source = LLS_PREDICTED_MODEL;
  }
  return p;
}

static void tell(struct retrieval *r, struct flight *f)
{
  LLS_POL_CHECK(f->vector != NULL && f->predicted == 0);
  struct lls_prediction p = predict(r, f);
  f->predicted = p.length;
  if (f->quiet)
    return;
  judge_prediction(&r->judge, p.source);
  if (r->answer != NULL)
    *r->answer = p;
  else if (r->host->predicted(r->host->context, f->ticket, &p) < 0)
    r->lost = true;
}

/* ---- learning ---------------------------------------------------------------------- */

static void learn(struct retrieval *r, struct flight *f)
{
  LLS_POL_CHECK(f->vector != NULL && f->answered > 0);
  if (f->predicted > 0 && !f->quiet)
    judge_answer(&r->judge, f->predicted, f->answered, r->bin);
  if (history_add(r->history, f->vector, f->answered) < 0)
    r->lost = true;
  end_flight(r, f);
}

/* Uses a flight's vector: reports its prediction, and adds its answer to the history. */
static void on_vector(struct retrieval *r, struct flight *f)
{
  if (f->answered == 0 || !f->quiet)
    tell(r, f);
  if (f->answered > 0)
    learn(r, f);
}

/* ---- jobs -------------------------------------------------------------------------- */

static float *hashed(const struct retrieval *r, const struct job *job)
{
  float *vector = malloc(r->dims * sizeof *vector);
  if (vector == NULL)
    return NULL;
  if (job->is_text)
    words_of_text(job->data, job->bytes, vector, r->dims);
  else
    words_of_tokens((const int32_t *)(const void *)job->data,
                    job->bytes / sizeof(int32_t), vector, r->dims);
  return vector;
}

static float *encoded(const struct retrieval *r, const struct job *job)
{
  float *vector = malloc(r->dims * sizeof *vector);
  if (vector != NULL && r->embed->encode(r->embedder, job->data, job->bytes, vector) == 0)
    return vector;
  free(vector);
  return NULL;
}

/* Computes the flight's vector, or starts the encoder, which posts JOB_VECTOR. */
static void find_vector(struct retrieval *r, struct flight *f, const struct job *job)
{
  if (r->embedder != NULL && r->params.async) {
    if (r->embed->submit(r->embedder, f->ticket, job->data, job->bytes) == 0)
      return;
    r->lost = true;
    end_flight(r, f);
    return;
  }
  f->vector = r->embedder != NULL ? encoded(r, job) : hashed(r, job);
  if (f->vector != NULL)
    on_vector(r, f);
  else
    end_flight(r, f);
}

static struct flight *by_ticket(const struct retrieval *r, uint64_t ticket)
{
  struct flight *f;
  DL_FOREACH (r->flights, f) {
    if (f->ticket == ticket)
      return f;
  }
  return NULL;
}

/* Flights of one prompt are alike: returns any that has not been answered. */
static struct flight *by_key(const struct retrieval *r, uint64_t key)
{
  struct flight *f;
  DL_FOREACH (r->flights, f) {
    if (f->key == key && f->answered == 0)
      return f;
  }
  return NULL;
}

static void vector_came(struct retrieval *r, const struct job *job)
{
  struct flight *f = by_ticket(r, job->ticket);
  if (f == NULL)
    return;
  if (job->bytes > 0)
    f->vector = malloc(job->bytes);
  if (f->vector == NULL) {
    end_flight(r, f);
    return;
  }
  memcpy(f->vector, job->data, job->bytes);
  on_vector(r, f);
}

static void answer_came(struct retrieval *r, const struct job *job)
{
  struct flight *f = by_key(r, job->key);
  judge_length(&r->judge, job->length);
  r->median = r->judge.median;
  if (f != NULL) {
    f->answered = job->length;
    if (f->vector != NULL)
      learn(r, f);
    return;
  }
  if (r->embedder != NULL && !job->is_text)
    return; /* nothing to encode */
  f = begin_flight(r, job, r->next_own++);
  if (f == NULL)
    return;
  f->quiet = true;
  f->answered = job->length;
  find_vector(r, f, job);
}

void flights_job(struct retrieval *r, struct job *job)
{
  struct flight *f;
  LLS_POL_CHECK(pthread_mutex_trylock(&r->work) == EBUSY);
  switch (job->kind) {
  case JOB_PREDICT:
    if ((f = begin_flight(r, job, job->ticket)) != NULL)
      find_vector(r, f, job);
    break;
  case JOB_VECTOR:
    vector_came(r, job);
    break;
  case JOB_OBSERVE:
    answer_came(r, job);
    break;
  }
  free(job);
}
