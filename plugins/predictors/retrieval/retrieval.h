/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Length prediction by retrieval: the state shared by the files of this folder, and its
 * threads:
 *
 *   [step]    predict, observe: retrieval.c makes a job and posts it to the worker
 *   [worker]  the core's encoder thread: posts the vector of a prompt as a job
 *   worker    this plugin's own thread, worker.c: carries out jobs, predictions first
 *
 * The members after "worker's" belong to the holder of the mutex `work`: the worker
 * during a job, [main] at export, or [step] with async = off: then there is no worker
 * thread, and predict answers at once.
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
  int64_t dims; /* dimensions of vectors of hashed words */
  int64_t k;
  double s0;
  int64_t db_max;
  const char *db_file;
  int64_t fallback; /* enum fallback */
  bool both;
  const char *mlp_file;
  bool async;
};

/* A prompt whose prediction or answer is still to come. */
struct flight {
  struct flight *prev, *next;
  uint64_t ticket; /* ticket of the request; from LLS_OWN_TICKETS on made by the plugin */
  uint64_t key;    /* hash of the prompt: observe passes no ticket */
  uint32_t max_new;   /* tokens; bound of the prediction */
  uint32_t predicted; /* 0 = not yet */
  uint32_t answered;  /* 0 = not yet */
  bool quiet;         /* no prediction is to be reported */
  bool whole;         /* the vector was made from the whole prompt */
  float *vector;      /* (dims), NULL = not computed yet */
};

#define LLS_OWN_TICKETS (UINT64_C(1) << 63)

enum job_kind {
  JOB_PREDICT, /* a request has arrived */
  JOB_VECTOR,  /* the encoder has made a prompt's vector */
  JOB_OBSERVE, /* a request has ended */
};

struct job {
  struct job *prev, *next;
  enum job_kind kind;
  uint64_t ticket, key;
  uint32_t max_new, length;
  bool is_text; /* data is text, else token ids */
  size_t bytes; /* of data */
  char data[];  /* the prompt; JOB_VECTOR: (dims) floats, or none if the encoder failed */
};

struct retrieval {
  const struct lls_host *host;
  struct params params; /* k, s0, fallback: under `work` */
  const struct lls_embed *embed;
  struct lls_embedder *embedder; /* NULL = the encoder is hashed words */
  uint32_t dims;
  uint64_t space; /* id of the encoder: vectors of one space can be compared */
  uint32_t bin;   /* tokens in a bin of struct judge */
  uint32_t most_flights;
  _Atomic uint32_t median; /* the prediction without a neighbour; [step] reads it */
  _Atomic bool lost;       /* a job or a text was dropped for lack of room */

  pthread_mutex_t
      work; /* held while the members below are used, by the worker or an import */
  struct regressor *regressor;
  struct history *history;
  struct judge judge;
  struct flight *flights; /* list, the oldest first */
  uint32_t n_flights;
  uint64_t next_own; /* next ticket made by the plugin */
  bool loading;
  struct lls_prediction *answer; /* async = off: where predict wants its result */

  pthread_t thread;
  bool running;
  pthread_mutex_t lock; /* guards the members below */
  pthread_cond_t posted;
  struct job *urgent, *other; /* queues: predictions; other jobs */
  uint32_t n_jobs;
  bool stop;
};

/* ---- worker.c */
/* Returns NULL if out of memory. If data is NULL the caller fills job->data. */
struct job *job_make(enum job_kind, const void *data, size_t bytes);
/* [any] Takes ownership of the job. Returns false if the queue was full: the job is
 * freed.
 */
bool worker_post(struct retrieval *, struct job *);
int worker_start(struct retrieval *);
void worker_stop(struct retrieval *); /* carries out queued jobs first */

/* ---- flights.c, under `work` */
/* Carries out the job and frees it. */
void flights_job(struct retrieval *, struct job *);
void flights_free(struct retrieval *);
struct lls_prediction flights_prior(const struct retrieval *, uint32_t max_new);

/* ---- state.c, under `work` */
/* Reads the answers in the file that the history does not have. */
int retrieval_load(struct retrieval *);
int state_export(struct retrieval *, struct lls_blob *out);
int state_import(struct retrieval *, const struct lls_blob *);

#endif
