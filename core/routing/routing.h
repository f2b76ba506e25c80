/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several models behind one address. Each model of [models] has a process of its own, an
 * llmserve with [models] only = NAME that listens on a Unix socket in a private folder;
 * this process answers what concerns all models and passes every other request to the
 * process of the model that it names. So a model that is loaded, crashes or is unloaded
 * never delays the others, and its memory is all given back.
 *
 *   request --> choice.c: which model --> relay.c: waits while the model is loaded
 *           --> upstream.c: to its process, and the answer back as it arrives
 *   relay_upload.c: the same for a file, whose body is passed on as it arrives, too
 *
 *   UNLOADED --wanted--> QUEUED --room.c--> LOADING --/ready--> LOADED
 *       ^                                      |                  |
 *       +---------- its process ends ----------+----- STOPPING <--+ idle, short of memory
 *
 * Everything runs on [main].
 */
#ifndef LLS_ROUTING_ROUTING_H
#define LLS_ROUTING_ROUTING_H

#include "core/api/api.h"
#include "core/config/config.h"

struct lls_routing;

struct lls_routing_options {
  uv_loop_t *uv;
  const struct lls_config *config; /* borrowed until another one replaces it */
  const char *folder;              /* private, for sockets; borrowed */
  const struct lls_log *log;
  void *context;
  /* Called for POST /admin/reload and /admin/drain. */
  void (*reload)(void *context);
  void (*drain)(void *context, const char *asked_by);
  /* Called when the last request has been answered or the last process has ended. */
  void (*on_idle)(void *context);
};

int lls_routing_create(const struct lls_routing_options *options,
                       struct lls_routing **out, struct lls_error *err);

/* Handlers of struct lls_api_router; context is the routing. */
void lls_routing_handle(void *context, struct lls_http_exchange *exchange);
bool lls_routing_on_upload(void *context, struct lls_http_exchange *exchange);

/* Begins to serve: loads the models that are pinned. The api must have been created with
 * lls_routing_handle. */
void lls_routing_begin(struct lls_routing *routing, struct lls_api *api);

/* Replaces the configuration. Processes of models that stay read the file again;
 * processes of others end once they are idle. If its copy for them cannot be written
 * nothing changes; -ENOMEM: new models are missing. */
int lls_routing_reconfigure(struct lls_routing *routing, const struct lls_config *config,
                            struct lls_error *err);

/* A reload has begun, or has ended: the clients that have asked for it are answered. */
void lls_routing_reload_begins(struct lls_routing *routing);
void lls_routing_reloaded(struct lls_routing *routing, bool good, const char *message);

/* Refuses new requests. */
void lls_routing_drain(struct lls_routing *routing);
/* True if no request is under way. */
bool lls_routing_is_idle(const struct lls_routing *routing);
/* Returns how many processes there are. */
unsigned lls_routing_processes(const struct lls_routing *routing);
/* Asks every process to end; `force` kills them. */
void lls_routing_stop(struct lls_routing *routing, bool force);

/* Closes the timer, then calls back once, when no process is left. */
void lls_routing_close(struct lls_routing *routing, void (*closed)(void *context),
                       void *context);
void lls_routing_destroy(struct lls_routing *routing);

#endif
