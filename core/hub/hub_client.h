/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a hub, one after the other, by libcurl. While a client is open, SIGINT,
 * SIGTERM and SIGHUP end its requests (-ECANCELED) instead of the process, so that the
 * part of a file that has come is kept.
 */
#ifndef LLS_HUB_CLIENT_H
#define LLS_HUB_CLIENT_H

#include <curl/curl.h>
#include <signal.h>

#include "core/base/text.h"
#include "core/hub/hub_answer.h"
#include "core/hub/hub_fetch.h"

struct lls_hub_client {
  const struct lls_hub_places *places;
  const struct lls_hub_name *name;
  const struct lls_hub_watch *watch;
  CURLM *multi;
  CURL *easy;
  struct curl_slist *headers;
  char why[CURL_ERROR_SIZE];
  sigset_t before;      /* the process's blocked signals */
  int signals;          /* signalfd */
  int caught;           /* the signal that ended the requests, or 0 */
  bool reached;         /* the hub has answered before */
  uint64_t done, total; /* bytes of the whole download */
};

struct lls_hub_request {
  const char *url, *what; /* `what` as in lls_hub_refusal */
  uint64_t from;          /* next byte that is wanted; grows as bytes come */
  uint64_t expected;      /* size; 0: unknown */
  /* Takes bytes of the body; a negative errno ends the request. */
  int (*take)(void *context, const void *data, size_t n);
  /* Forgets the bytes before `from`, since the server begins at byte 0 again. */
  int (*restart)(void *context);
  void *context;
};

int lls_hub_client_open(struct lls_hub_client *, const struct lls_hub_places *,
                        const struct lls_hub_name *, const struct lls_hub_watch *,
                        struct lls_error *err);
void lls_hub_client_close(struct lls_hub_client *);

/* Waits; returns 0, or -ECANCELED after a signal. */
int lls_hub_client_wait(struct lls_hub_client *, int64_t ms);

/* Sends a GET, and sends it again from the first missing byte if the transfer breaks off,
 * or after the time that the hub asks to wait. */
int lls_hub_client_get(struct lls_hub_client *, struct lls_hub_request *,
                       struct lls_error *err);

/* Gets a body of at most `most` bytes as text. */
int lls_hub_client_get_text(struct lls_hub_client *, const char *url, size_t most,
                            struct lls_text *out, struct lls_error *err);

#endif
