/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon put together: model, device, engine, tokeniser, policies, step loop, HTTP.
 * Everything in this folder runs on [main], but for what load.c and reload_prepare.c
 * say.
 *
 *   serve.c             the whole, and the signals
 *   load.c              loading the model while requests are told to come again
 *   start.c             the parts, and how the configuration makes them
 *   settings.c          what start, check and reload read of the configuration alike
 *   resources.c         what they name, or ask for, that has to be there
 *   instances.c         devices and engines, one of each for every instance
 *   worker_ranks.c      the tensor parallel ranks that compute with it
 *   processes.c         instances in other processes,
 *   follow.c            and what those do,
 *   follow_reload.c     and of a reload
 *   config_check.c      what would keep it from starting
 *   config_reload.c     another configuration under live requests
 *   reload_prepare.c    what of that is done beside main
 *   sandbox.c           what the process gives up: sandbox_files.c, sandbox_calls.c
 *   stop.c              the way down
 *   service_manager.c   what the service manager hears of it
 *   hang_watch.c        plugins that do not return
 *   whatif_process.c    what other policies would have done, asked of a process
 *   autopilot.c         and done, where the owner wants it
 */
#ifndef LLS_SERVE_DAEMON_H
#define LLS_SERVE_DAEMON_H

#include <stdatomic.h>
#include <uv.h>

#include "core/api/api.h"
#include "core/base/progress_bar.h"
#include "core/channel/channel.h"
#include "core/config/autopilot_rule.h"
#include "core/config/candidates.h"
#include "core/config/compare.h"
#include "core/config/instance_list.h"
#include "core/engine/engine.h"
#include "core/engine/worker_rank.h"
#include "core/loop/loop.h"
#include "core/record/decision_log.h"
#include "core/obs/log.h"
#include "core/obs/notify.h"
#include "core/ranks/ranks.h"
#include "core/model/model_text.h"
#include "text/grammar/grammar_cache.h"

/* The model on its way in. */
struct load {
  uv_thread_t thread;
  uv_async_t loaded;          /* sent by the thread as its last act */
  bool running;               /* the thread is to be joined */
  atomic_bool given_up;       /* by main: it is told at the next weight */
  _Atomic size_t done, total; /* bytes of weights */
  uint64_t began_ns;
  struct lls_progress progress; /* of the thread */
  int status;                   /* of the thread, once it has ended */
  struct lls_error error;
};

/* Another configuration on its way in; reload_prepare.c. Its thread's until `done`. */
struct reload {
  struct server *server;
  pthread_t thread;
  atomic_bool creating; /* by the thread: from now on it reads nothing of the server's */
  atomic_bool done;     /* by the thread, as its last act but for sending `prepared` */
  bool read;            /* `wanted` is to be freed */
  struct lls_changes changes; /* of requests */
  char *packed; /* (n_packed) instead of the file: as process 0 has read it */
  size_t n_packed;
  struct lls_config wanted;
  struct lls_config_change change;
  struct lls_api_keyring keys;
  struct lls_config_errors errors; /* of the file */
  struct lls_error error;          /* else */
  int status;
  struct lls_loop_prepared *prepared; /* NULL: not yet, or the loop's */
  /* main's */
  bool given_up;          /* nobody waits for it any more */
  struct lls_error hangs; /* then: why */
  bool installing;        /* the loop has it */
  bool ended;             /* its thread was joined */
  struct reload *next;    /* in server.reloads */
};

/* Files without names that llmserve-whatif is given. */
enum { WHATIF_HISTORY, WHATIF_RUNNING_CONFIG, WHATIF_ANSWER, WHATIF_FILES };

/* The last question; whatif_process.c. */
struct whatif {
  struct lls_whatif_state state;
  char policies[LLS_CANDIDATES_TEXT_MAX], objective[64], goodput[512];
  bool measures;                  /* the device alone, and asks nothing */
  void (*ended)(struct server *); /* NULL: nobody waits for it */
  int files[WHATIF_FILES];        /* while it runs; -1: closed */
  uv_work_t work;
  bool writing; /* the thread of the pool has the first file */
  int written;  /* and what became of it */
  uv_process_t child;
  uv_pipe_t said; /* its stderr */
  int open;       /* of the two */
  bool given_up;
  int status;               /* of the process */
  char read[512];           /* of what it says, */
  char line[LLS_ERROR_MAX]; /* the last line */
  size_t length;
  bool line_ended;
};

/* autopilot.c */
struct autopilot {
  uv_timer_t timer;
  struct lls_autopilot rule;
  bool measured;             /* the device is known */
  char said[256];            /* of its profile, as it was logged last */
  struct lls_changes before; /* what requests had set when the last change was made */
  char runs[LLS_AUTOPILOT_NAME], ran_before[LLS_AUTOPILOT_NAME]; /* "": the file's */
};

#define SERVER_EXIT_DRAINED 3 /* by /admin/drain */

struct server {
  struct lls_config *config; /* what runs */
  struct lls_log log;
  struct lls_model_config model;
  struct lls_pooling_config pooling;
  struct lls_instances instances; /* of the configuration that it was started with */
  struct lls_device *devices[LLS_MAX_INSTANCES];
  struct lls_engine *engines[LLS_MAX_INSTANCES];
  struct lls_ranks *ranks;     /* this process's end, or rank 0's; NULL = alone */
  struct lls_channel *channel; /* to instances in other processes; NULL = none */
  struct lls_channel *within;  /* then: to the other ranks of this one; NULL = none */
  struct lls_worker_ranks *followers; /* the other ranks, where they are threads */
  struct lls_tokenizer *tokenizer;
  struct lls_grammar_cache *grammars; /* of the tokenizer */
  struct lls_chat_template *chat_template;
  struct lls_tool_dialect dialect;
  struct lls_loop *loop;
  struct lls_http_server *http;       /* of the api, once there is one */
  struct lls_decision_log *decisions; /* NULL: not recorded */
  struct lls_history *history;        /* NULL: none is kept */
  struct lls_api *api;
  struct load load;
  struct lls_admin_state admin;

  struct lls_api_keyring wanted_keys; /* at the start until there is an api */
  struct reload *reload;              /* under way; NULL: none */
  struct reload *reloads;   /* it, and those given up that have not returned yet */
  bool reload_again;        /* it was asked for while one was under way */
  struct lls_changes asked; /* for the next one, on top of what requests set before */
  bool afresh;              /* the next one forgets that: the file is what counts */

  uv_loop_t uv;
  uv_async_t wake, prepared; /* prepared: by the thread of a reload */
  uv_signal_t terminate, interrupt, hangup;
  uv_timer_t deadline, watchdog, look;
  struct whatif whatif;
  struct autopilot autopilot;
  uint64_t steps_seen[LLS_MAX_INSTANCES]; /* of the watchdog */
  uint64_t last_call_until_ms; /* uv_now; 0: requests may still come (stop.c) */
  bool stopping;
  bool closing;
  int status; /* the exit status */
};

/* Instance i is one of this process. */
static inline bool server_has_instance(const struct server *s, uint32_t i)
{
  return s->channel == NULL || s->channel->self == i;
}

/* This is not process 0, of several with an instance each. */
static inline bool server_follows(const struct server *s)
{
  return s->channel != NULL && s->channel->self > 0;
}

/* ---- settings.c */
/* The chat template, and how the model writes calls. A template that cannot be used is
 * for chat requests to answer with: all else works. */
int server_load_template(struct server *s, struct lls_error *err);
/* The keys of [server] api_keys and admin_keys; none to free on failure. */
int server_load_keys(const struct lls_config *, struct lls_api_keyring *out,
                     struct lls_error *err);
/* Tokens that the cache holds at once, in int8 where it makes that; SIZE_MAX where it is
 * for the cache manager to say, which keeps them in hidden form or gives them back. */
size_t server_cache_tokens(const struct lls_config *, const struct lls_engine *);
/* The most tokens that one request can have. */
uint32_t server_max_context(const struct lls_config *, const struct lls_engine *);
/* How vectors are made of texts, by [model] and its folder. */
int server_read_pooling(const struct lls_config *, const struct lls_model_config *,
                        struct lls_pooling_config *out, struct lls_error *err);
/* Says, a sentence each, what is likely not to be meant. */
typedef void (*server_say)(void *context, const char *text);
void server_warn(const struct lls_config *, const struct lls_model_config *,
                 const struct lls_engine *, server_say, void *context);
/* The same, to the log. */
void server_log_warnings(struct server *);

/* ---- resources.c */
/* Folders and files that process 0 writes and reads while it serves. */
int server_check_places(const struct lls_config *, struct lls_error *err);
/* -EBUSY: another process has [server] state. */
int server_check_state_is_free(const struct lls_config *, struct lls_error *err);
/* [cache] asks for no more memory than the device has. */
int server_check_memory(const struct server *, const struct lls_config *,
                        struct lls_device *, struct lls_error *err);

/* ---- load.c */
/* Listens and begins to load; server_loaded is to be called when load.loaded comes. */
int server_load(struct server *, struct lls_error *err);
void server_loaded(struct server *);
/* Told by the loader of weights; false: give up. */
bool server_load_progress(void *server, size_t done, size_t total);

/* ---- worker_ranks.c */
/* Joins the processes that a launcher has started, if ranks are processes. */
int server_join_ranks(struct server *, struct lls_error *err);
/* Once the model is known: checks that it can be shared out; starts ranks as threads. */
int server_start_ranks(struct server *, struct lls_error *err);
/* True if the model can be shared out to so many, beside several instances. */
int server_check_ranks(const struct server *, uint32_t n, struct lls_error *err);
/* This is not rank 0, in a process of its own. */
static inline bool server_is_other_rank(const struct server *s)
{
  return s->ranks != NULL && s->ranks->rank > 0;
}
/* All of such a process; the exit status. */
int server_follow(struct server *);
/* The other ranks end, before rank 0's engine does. */
void server_stop_ranks(struct server *);
/* True if the server cannot go on: its engine, or its ranks. */
bool server_has_failed(struct server *, struct lls_error *why);

/* ---- processes.c */
/* Joins the processes that a launcher has started, for so many instances. */
int server_join_instances(struct server *, uint32_t wanted, struct lls_error *err);
struct lls_loop_remote server_far_options(struct server *);
/* How blocks go to them: in a GPU's memory by MPI? By links, enum lls_link_use? */
bool server_is_gpu_aware(const struct server *);
int server_links(const struct server *);
/* Once there is no loop: the other processes do without this one. */
void server_leave_channel(struct server *);

/* ---- follow.c */
/* All of a process that is not process 0, after what went wrong before: the exit status.
 */
int server_follow_instance(struct server *, int rc, struct lls_error *err);

/* ---- follow_reload.c: what such a process does of a reload */
struct lls_loop_change_ops server_change_ops(struct server *);

/* ---- instances.c */
int server_create_instances(struct server *, struct lls_error *err);
/* (s->instances.n) for the loop; it borrows them while it is created. */
void server_list_instances(struct server *, struct lls_loop_instance *out);
void server_destroy_instances(struct server *);

/* ---- start.c */
int server_load_model(struct server *, struct lls_error *err);
int server_create_loop(struct server *, struct lls_error *err);
int server_create_api(struct server *, struct lls_error *err);
void server_destroy(struct server *);
/* Destroys what server_load_model has made. */
void server_destroy_parts(struct server *);

/* ---- config_reload.c */
/* Begins to change to what the file says now; the outcome is logged and kept. */
void server_reload(struct server *);
/* The same with settings on top, and on top of those before; -ENOMEM. */
int server_change(struct server *, const struct lls_changes *);
/* The same with these alone, instead of those before. */
int server_change_to(struct server *, const struct lls_changes *);
/* The loop has it: it is the configuration from here on. */
void server_take_over(struct server *, struct reload *);
/* To be called on each wake, when a reload was prepared, or is not waited for. */
void server_reload_continue(struct server *);

/* ---- reload_prepare.c */
/* Begins to read the file and to create what it names; r is in the server's list. */
int server_prepare(struct server *, struct reload **r, struct lls_error *err);
/* The same of what process 0 has read. */
int server_prepare_packed(struct server *, const char *data, size_t n, struct reload **r,
                          struct lls_error *err);
/* Frees those given up that have returned since. */
void server_forget_reloads(struct server *);
/* Gives the one under way up, with the reason as its error, if a plugin of it hangs. */
void server_look_at_reload(struct server *, int64_t now_ns);
/* Takes it out of the list and frees it with all that it still has. */
void server_free_reload(struct server *, struct reload *);
/* At the end: waits for their threads, and destroys what they have created. False: one
 * has not ended within timeout_ns. */
bool server_end_reloads(struct server *, int64_t timeout_ns);

/* ---- service_manager.c */
void server_ready(struct server *);
void server_reloading(void);
void server_reload_over(struct server *);
void server_stopping(void);

/* ---- hang_watch.c */
/* Begins to look at the step threads, or goes on with another limit. */
void server_look(struct server *);
/* After the last request: the step threads end, or the process does, with a failure. */
void server_end_steps(struct server *);

/* ---- sandbox.c */
/* Before there are threads. A failure only where the configuration insists. */
int server_give_up_files(struct server *, struct lls_error *err);
/* When all is ready. */
int server_give_up_calls(struct server *, struct lls_error *err);

/* ---- whatif_process.c */
bool server_whatif_runs(const struct server *);
/* Begins to ask, or only to measure the device; `ended` is called on main unless the
 * server closes before. As lls_whatif_asker.ask. */
int server_ask_whatif(struct server *, const struct lls_whatif_question *, bool measures,
                      void (*ended)(struct server *), struct lls_error *err);
void server_give_up_whatif(struct server *);
void server_free_whatif(struct server *);

/* ---- autopilot.c */
/* Begins to look at the clock. */
void server_steer(struct server *);

/* ---- stop.c */
/* Says why, and ends with a failure. */
void server_fail(struct server *, const struct lls_error *err, int rc);
/* No new requests; running ones go on, at most until the deadline. */
void server_drain(struct server *);
void server_close(struct server *); /* at once */
void server_close_if_done(struct server *);
void server_close_handles(struct server *);

#endif
