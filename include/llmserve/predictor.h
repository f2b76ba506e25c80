/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predictors: how long an answer will be.
 *
 * predict is called once per request, on the main thread, before the scheduler hears of
 * it. A predictor that needs more than a few microseconds returns -EINPROGRESS, works on
 * its own thread and answers through host->predicted(ticket, ...); until then schedulers
 * see what it left in *out, a prior, or LLS_PREDICTED_NOT if it left nothing. observe is
 * called once per request that finished by itself.
 */
#ifndef LLMSERVE_PREDICTOR_H
#define LLMSERVE_PREDICTOR_H

#include <llmserve/host.h>
#include <llmserve/plugin.h>
#include <llmserve/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_prompt {
  uint32_t size;
  uint32_t n_tokens;
  uint32_t max_new_tokens;
  uint32_t request_class; /* enum lls_class */
  const int32_t *tokens;  /* (n_tokens) */
  const char *text;       /* UTF-8: as sent, or what sent ids stand for; or NULL */
  size_t text_bytes;
  const char *label; /* the client's request id or "" */
  /* version 1 ends here */
};

/* P5 */
enum lls_predictor_flags {
  LLS_PREDICTOR_PREDICTS = 1,      /* ever gives a length: all but `none` */
  LLS_PREDICTOR_ORACLE = 2,        /* knows the truth */
  LLS_PREDICTOR_DETERMINISTIC = 4, /* same calls, same answers */
  LLS_PREDICTOR_ASYNC = 8,         /* may answer later */
};

/* Required unless marked optional. */
struct lls_predictor_vtable {
  uint32_t api_version;
  uint32_t size;

  int (*create)(const struct lls_host *, const void *params, void **self); /* P1 [main] */
  void (*destroy)(void *self);                                             /* [main] */
  uint32_t (*flags)(void *self);                                           /* P5 [main] */
  /* P2 [step] 0; -ENOENT: can't tell; -EINPROGRESS: later, under this ticket. The prompt
   * is valid during the call. */
  int (*predict)(void *self, uint64_t ticket, const struct lls_prompt *,
                 struct lls_prediction *out);

  /* optional */
  /* P6 [step] n prompts at once; results as predict, one int each. */
  void (*predict_batch)(void *self, const uint64_t *tickets, const struct lls_prompt *,
                        size_t n, struct lls_prediction *out, int *results);
  /* P3 [step] g tokens are out and the prediction was not more: a new one. */
  int (*overrun)(void *self, const struct lls_request *, struct lls_prediction *out);
  /* P4 [step] The request ended by itself after `length` tokens. */
  void (*observe)(void *self, const struct lls_prompt *, uint32_t length);
  void (*stats)(void *self, const struct lls_sink *);       /* P7 [step] */
  int (*reconfigure)(void *self, const void *params);       /* [main] */
  int (*export_state)(void *self, struct lls_blob *out);    /* P1 [main] */
  int (*import_state)(void *self, const struct lls_blob *); /* pair */
  const void *(*extension)(void *self, const char *id);
  /* version 1 ends here */
};

#ifdef __cplusplus
}
#endif

#endif
