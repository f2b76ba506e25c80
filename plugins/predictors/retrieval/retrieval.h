/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Length prediction by retrieval: what the files of this folder share.
 *
 *   [step]    predict, observe: retrieval.c makes a job and leaves it to the worker
 *   [worker]  the core's encoder thread: posts the vector of a prompt as a job
 *   worker    this plugin's own thread, worker.c: carries out jobs, predictions first
 *
 * Everything under "worker's" belongs to the holder of `work`: the worker for one job, or
 * [main] at export, or, with async = off, [step] itself: then there is no thread, and
 * every answer is there at once.
 */
#ifndef LLS_RETRIEVAL_H
#define LLS_RETRIEVAL_H

#include <llmserve/embed.h>
#include <llmserve/predictor.h>

#include <pthread.h>
#include <stdatomic.h>

#include "plugins/predictors/retrieval/estimate.h"
#include "plugins/predictors/retrieval/history.h"
#include "plugins/predictors/retrieval/regressor.h"

enum encoder_choice { ENCODER_AUTO, ENCODER_MODEL, ENCODER_HASH };
enum fallback { FALLBACK_MLP, FALLBACK_MEDIAN, FALLBACK_MAX };

struct params {
  int64_t encoder; /* enum encoder_choice */
  const char *encoder_path;
  int64_t encoder_threads, encoder_tokens;
  int64_t dims; /* of hashed words */
  int64_t k;
  double s0;
  int64_t db_max;
  const char *db_file;
  int64_t fallback; /* enum fallback */
  bool both;
  const char *mlp_file;
  bool async;
};

/* A prompt whose prediction or whose answer is being waited for. */
struct flight {
  struct flight *prev, *next;
  uint64_t ticket;    /* the request, or above LLS_OWN_TICKETS one of ours */
  uint64_t key;       /* hash of the prompt: the answer comes without a ticket */
  uint32_t max_new;   /* tokens; bound of the prediction */
  uint32_t predicted; /* 0 = not yet */
  uint32_t answered;  /* 0 = not yet */
  bool quiet;         /* the prediction is not waited for */
  bool whole;         /* all of the prompt is in the vector */
  float *vector;      /* (dims) or NULL = not there yet */
};

#define LLS_OWN_TICKETS (UINT64_C(1) << 63)

enum job_kind {
  JOB_PREDICT, /* a request has come */
  JOB_VECTOR,  /* the encoder is done with its prompt */
  JOB_OBSERVE, /* a request has ended */
};

struct job {
  struct job *prev, *next;
  enum job_kind kind;
  uint64_t ticket, key;
  uint32_t max_new, length;
  bool is_text; /* data: else token ids */
  size_t bytes; /* of data */
  char data[];  /* the prompt; VECTOR: (dims) floats, none = it failed */
};

struct retrieval {
  const struct lls_host *host;
  struct params params; /* k, s0, fallback: under `work` */
  const struct lls_embed *embed;
  struct lls_embedder *embedder; /* NULL = hashed words */
  uint32_t dims;
  uint64_t space; /* which vectors can be compared */
  uint32_t bin;   /* tokens of one, to judge by */
  uint32_t most_flights;
  _Atomic uint32_t median; /* the prior, read on [step] */
  _Atomic bool lost;       /* a job or a text for which there was no room */

  pthread_mutex_t work; /* worker's */
  struct regressor *regressor;
  struct history *history;
  struct judge judge;
  struct flight *flights; /* the oldest first */
  uint32_t n_flights;
  uint64_t next_own; /* ticket */
  bool loading;
  struct lls_prediction *answer; /* async = off: where it goes instead of the core */

  pthread_t thread;
  bool running;
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t posted;
  struct job *urgent, *other; /* predictions, and what can wait */
  uint32_t n_jobs;
  bool stop;
};

/* ---- worker.c */
/* NULL: no memory. data may be NULL, then the bytes are the caller's to fill. */
struct job *job_make(enum job_kind, const void *data, size_t bytes);
/* [any] Takes the job; false: there was no room, and it is gone. */
bool worker_post(struct retrieval *, struct job *);
int worker_start(struct retrieval *);
void worker_stop(struct retrieval *); /* what is queued is carried out first */

/* ---- flights.c, under `work` */
/* Carries out the job and frees it. */
void flights_job(struct retrieval *, struct job *);
void flights_free(struct retrieval *);
struct lls_prediction flights_prior(const struct retrieval *, uint32_t max_new);

/* ---- state.c, under `work` */
/* Reads what the file has and the history has not. */
int retrieval_load(struct retrieval *);
int state_export(struct retrieval *, struct lls_blob *out);
int state_import(struct retrieval *, const struct lls_blob *);

#endif
