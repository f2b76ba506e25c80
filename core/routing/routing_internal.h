/* SPDX-License-Identifier: Apache-2.0 */
/* The structs of the router, for core/routing only. */
#ifndef LLS_ROUTING_ROUTING_INTERNAL_H
#define LLS_ROUTING_ROUTING_INTERNAL_H

#include "core/api/dialect.h"
#include "core/routing/routing.h"
#include "core/routing/upstream.h"

#define LLS_ROUTING_PATH_MAX 108 /* of a Unix socket */
#define LLS_HOSTED_CODE      13  /* hex digits of a model's code, and the NUL */

enum lls_hosted_state {
  LLS_HOSTED_UNLOADED,
  LLS_HOSTED_QUEUED, /* wants to be loaded, and waits for room */
  LLS_HOSTED_LOADING,
  LLS_HOSTED_LOADED,
  LLS_HOSTED_STOPPING,
};

struct lls_hosted;

/* A process of a model. It outlives its model if a reload removes that. */
struct lls_model_process {
  uv_process_t handle;
  struct lls_routing *routing;
  struct lls_hosted *model; /* NULL: the model is no longer configured */
  char socket[LLS_ROUTING_PATH_MAX], admin[LLS_ROUTING_PATH_MAX];
  /* Called at its end, unless the model is no longer configured. */
  void (*ended)(struct lls_hosted *model, int64_t status, int signal);
  uint64_t stop_ms; /* when it was asked to end; 0: it was not */
  struct lls_model_process *prev, *next;
};

/* A request and its answer, from the front end's exchange to the process of a model. */
struct lls_relay {
  struct lls_routing *routing;
  struct lls_hosted *model; /* NULL: it has failed, and the rest of its body is dropped */
  struct lls_http_exchange *exchange; /* NULL: its client has left */
  struct lls_upstream *upstream;      /* NULL: it waits for the model */
  struct lls_text body;               /* counted in the HTTP server's bytes */
  /* how events of its answer are written, if that is a stream */
  const struct lls_framing *framing;
  int64_t arrival_ns, quiet_ns; /* quiet: when the client last got something */
  unsigned tries;               /* to send it */
  bool sent;                    /* in the model's `active`, else in `waiting` */
  bool for_admin; /* by the admin's socket; does not keep the model loaded */
  bool begun;     /* the router has begun the stream, to keep it alive */
  bool streaming; /* the answer is passed on as it arrives */
  bool merges;    /* an answer that begun: only its events are passed on */
  unsigned status;
  char *type;            /* content-type of the answer, or NULL */
  int64_t length;        /* of the answer's body, or -1 */
  struct lls_text whole; /* an answer that is passed on whole */
  /* of an upload (relay_upload.c); NULL: `body` has the whole body */
  void (*taken)(void *relay);
  bool receiving; /* the body is still arriving: the client cannot be answered yet */
  struct lls_api_error failure; /* answer at the body's end; status 0: none */
  char last[2];                 /* bytes of the stream: "\n\n" ends an event */
  struct lls_relay *prev, *next;
};

/* A model of [models]. */
struct lls_hosted {
  struct lls_routing *routing;
  char *name, *path;
  char code[LLS_HOSTED_CODE]; /* in ids of what its process stores */
  struct lls_own_settings own;
  enum lls_hosted_state state;
  struct lls_model_process *process; /* LOADING to STOPPING */
  struct lls_upstream *probe;        /* a question to the process: /ready, /load */
  struct lls_text probe_text;
  unsigned probe_status;
  bool wanted;   /* by a request to load it, or because it is pinned */
  bool yields;   /* new requests wait, so that it gets idle and makes room */
  bool failed;   /* its last process ended by itself */
  bool reloads;  /* its process is to read the configuration again */
  bool outdated; /* its process cannot take the new settings while it runs */
  bool removed;  /* a reload has removed it: it is freed once nothing needs it */
  int exit_status, exit_signal;
  const char *why;   /* static: why it is to be unloaded */
  unsigned failures; /* to load, since it was loaded last */
  uint64_t retry_ms; /* until then requests are refused; 0: no such time */
  uint64_t queued_ms, load_ms, used_ms, next_probe_ms;
  int64_t loaded_s;  /* Unix time */
  size_t took_bytes; /* memory of its last process, when it was last looked at */
  uint64_t loads, load_failures, crashes, unloads;
  unsigned n_active;         /* relays to its process, but those for admins */
  struct lls_relay *waiting; /* utlist, oldest first */
  struct lls_relay *active;  /* utlist */
  struct lls_hosted *next;   /* utlist, in the configuration's order */
};

struct lls_routing {
  struct lls_routing_options options;
  const struct lls_config *config;
  char copy[LLS_ROUTING_PATH_MAX]; /* of the configuration's file, for processes */
  struct lls_api *api;
  struct lls_upstreams upstreams;
  struct lls_hosted *models;           /* utlist */
  struct lls_model_process *processes; /* utlist: those not reaped yet */
  unsigned n_processes, n_relays;
  uint64_t reloads_begun, generation;
  struct lls_wait *reload_waits; /* exchanges that wait for a reload, by its number */
  unsigned n_made;               /* processes made so far: numbers their sockets */
  uv_timer_t timer;
  void (*on_tick)(uv_timer_t *timer);
  void (*make_room)(struct lls_routing *routing); /* lls_routing_make_room */
  int64_t started_s;
  bool draining, closing, timer_closed;
  void (*closed)(void *context);
  void *closed_context;
};

#define LLS_ROUTING_ON_MAIN(ROUTING) LLS_ON((ROUTING)->upstreams.thread)

/* Milliseconds from a change to the tick that looks at it. */
#define LLS_ROUTING_SOON_MS 20

/* From the ground up: a file calls those above it here alone. */

/* ---- tick.c */
struct lls_hosted *lls_hosted_find(struct lls_routing *routing, const char *name);
/* Adapts the timer to what is waited for. */
void lls_routing_tick_soon(struct lls_routing *routing);
/* Called when a relay or process has ended. */
void lls_routing_check(struct lls_routing *routing);

/* ---- choice.c */
/* Returns the model of a request; NULL with *error set. *wants_stream: the body or the
 * path asks for a stream. */
struct lls_hosted *lls_routing_choose(struct lls_routing *routing,
                                      struct lls_http_exchange *exchange,
                                      bool *wants_stream, struct lls_api_error *error);
/* As lls_hosted_find; as Ollama has it, NAME and NAME:latest are one model. NULL with
 * *error set. */
struct lls_hosted *lls_routing_named(struct lls_routing *routing, const char *name,
                                     struct lls_api_error *error);

/* ---- hosted.c: the states of a model */
/* Called for each model at each tick. */
void lls_hosted_tick(struct lls_hosted *model, uint64_t now_ms);
/* Has the model loaded, as soon as there is room. */
void lls_hosted_want(struct lls_hosted *model);
/* room.c has made room: starts the process. */
void lls_hosted_load(struct lls_hosted *model);
/* Asks the process to end; requests that run there may finish. */
void lls_hosted_unload(struct lls_hosted *model, const char *why);
/* Asks the process whether it still computes, and has it end if not. */
void lls_hosted_unload_if_idle(struct lls_hosted *model, const char *why);
void lls_hosted_free(struct lls_hosted *model);
const char *lls_hosted_state_name(const struct lls_hosted *model);
/* True if a request may not have the model loaded; *error says so then. */
bool lls_hosted_stays_unloaded(const struct lls_hosted *model,
                               struct lls_api_error *error);
/* True if requests are to be refused for now; *error says why. */
bool lls_hosted_refuses(const struct lls_hosted *model, struct lls_api_error *error);

/* ---- model_process.c */
int lls_model_process_start(struct lls_hosted *model,
                            void (*ended)(struct lls_hosted *, int64_t, int),
                            struct lls_error *err);
void lls_model_process_stop(struct lls_model_process *process, bool force);
/* Resident bytes of the process, 0 if unknown. */
size_t lls_model_process_memory(const struct lls_model_process *process);

/* ---- room.c */
/* Loads queued models while there is room, and unloads idle ones to make some. */
void lls_routing_make_room(struct lls_routing *routing);
/* Unloads an idle model if the machine is short of memory. */
void lls_routing_watch_memory(struct lls_routing *routing);

/* ---- relay.c */
void lls_relay_begin(struct lls_routing *routing, struct lls_hosted *model,
                     struct lls_http_exchange *exchange, bool wants_stream,
                     bool for_admin);
/* Sends the requests that wait for the model, or answers them with the error. */
void lls_relay_send_waiting(struct lls_hosted *model);
void lls_relay_fail_waiting(struct lls_hosted *model, const struct lls_api_error *error);
/* Returns a relay that waits for its model; NULL without memory. */
struct lls_relay *lls_relay_new(struct lls_routing *routing, struct lls_hosted *model,
                                struct lls_http_exchange *exchange);
/* Sends a relay that waits, if its model is loaded. Returns false if it goes on
 * waiting. */
bool lls_relay_send(struct lls_relay *relay);
/* Ends the exchange with an error, in the way that its state allows, and the relay. That
 * of a body that still arrives ends when the body does. */
void lls_relay_fail(struct lls_relay *relay, const struct lls_api_error *error);
/* Callback on_gone of the exchange. */
void lls_relay_gone(void *owner);
/* Keeps the streams that wait alive, and ends those over [server] request_timeout. */
void lls_relay_tick(struct lls_hosted *model, int64_t now_ns);

/* ---- relay_upload.c */
/* Begins to pass on a request of which only the head has come. Returns false without
 * memory. */
bool lls_relay_begin_upload(struct lls_routing *routing, struct lls_hosted *model,
                            struct lls_http_exchange *exchange);
/* The body is complete: the exchange is answered as any other from here on. Returns false
 * if the exchange is no such upload. */
bool lls_relay_end_upload(struct lls_http_exchange *exchange);

/* ---- relay_head.c */
#define LLS_RELAY_CHUNKED SIZE_MAX
/* Appends the head of the exchange's request, for a body of `length` bytes. */
void lls_relay_write_head(struct lls_http_exchange *exchange, size_t length,
                          struct lls_text *head);
/* Adds the headers of an answer to the exchange, but those of its connection. Returns a
 * copy of its content-type in *type; false without memory. */
bool lls_relay_take_headers(struct lls_http_exchange *exchange,
                            const struct lls_text *lines, char **type);

/* ---- model_metrics.c */
void lls_routing_metrics(struct lls_routing *routing, struct lls_http_exchange *exchange);

#endif
