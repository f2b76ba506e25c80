/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon put together: model, device, engine, tokeniser, policies, step loop, HTTP.
 * Everything in this folder runs on [main], except for the threads of load.c and
 * reload_prepare.c.
 *
 *   serve.c             lls_serve: start to exit, and the signals
 *   load.c              loading the model while requests are answered with 503
 *   listen.c            the sockets that clients connect to
 *   start.c             making the parts from the configuration
 *   settings.c          settings that start, check and reload all read
 *   resources.c         whether the folders, files and memory they need exist
 *   instances.c         devices and engines, one of each for every instance
 *   draft_models.c      the small models that guess for them
 *   worker_ranks.c      the other tensor parallel ranks
 *   processes.c         instances in other processes
 *   cluster.c           the same, of processes that join and leave
 *   leaving.c           how such a process leaves
 *   follow.c            what such a process does
 *   follow_reload.c     its part of a reload
 *   config_check.c      finds what would keep the server from starting
 *   config_reload.c     another configuration under live requests
 *   reload_prepare.c    the part of a reload on another thread
 *   sandbox.c           the sandbox: sandbox_files.c, sandbox_calls.c
 *   stop.c              draining and closing
 *   service_manager.c   messages to the service manager
 *   hang_watch.c        watches for plugin calls that do not return
 *   whatif_process.c    runs llmserve-whatif to simulate other policies
 *   autopilot.c         changes to the best of them, if configured
 */
#ifndef LLS_SERVE_DAEMON_H
#define LLS_SERVE_DAEMON_H

#include <stdatomic.h>
#include <uv.h>

#include "core/api/api.h"
#include "core/base/progress_bar.h"
#include "core/base/sha256.h"
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
#include "core/model/labels.h"
#include "core/model/model_text.h"
#include "text/grammar/grammar_cache.h"

/* The loading of the model. */
struct load {
  uv_thread_t thread;
  uv_async_t loaded;          /* sent by the thread as its last act */
  bool running;               /* the thread must be joined */
  atomic_bool given_up;       /* set by main; the thread checks it at each weight */
  _Atomic size_t done, total; /* bytes of weights */
  uint64_t began_ns;
  struct lls_progress progress; /* progress display, used by the loading thread only */
  int status;                   /* the thread's result, valid after its end */
  struct lls_error error;
};

/* A reload in progress; reload_prepare.c. Belongs to its thread until `done`. */
struct reload {
  struct server *server;
  pthread_t thread;
  /* set by the thread: from now on it reads no data of the server */
  atomic_bool creating;
  atomic_bool done; /* set by the thread as its last act before it sends `prepared` */
  bool read;        /* `wanted` must be freed */
  struct lls_changes changes; /* settings of requests */
  char *packed; /* (n_packed) the file as process 0 has read it; NULL: read the file */
  size_t n_packed;
  struct lls_config wanted;
  struct lls_config_change change;
  struct lls_api_keyring keys;
  struct lls_tls *tls;
  struct lls_lora **adapters; /* (n_adapters) as wanted.lora; NULL: as before */
  size_t n_adapters;
  struct lls_config_errors errors; /* errors in the file */
  struct lls_error error;          /* any other error */
  int status;
  /* NULL: not prepared yet, or taken over by the loop */
  struct lls_loop_prepared *prepared;
  /* main's members */
  bool given_up;          /* main no longer waits for it */
  struct lls_error hangs; /* why it was given up */
  bool installing;        /* the loop is changing the policies */
  bool ended;             /* the reload's thread was joined */
  struct reload *next;    /* next in server.reloads */
};

/* Anonymous files that llmserve-whatif inherits. */
enum { WHATIF_HISTORY, WHATIF_RUNNING_CONFIG, WHATIF_ANSWER, WHATIF_FILES };

/* The last run of llmserve-whatif; whatif_process.c. */
struct whatif {
  struct lls_whatif_state state;
  char policies[LLS_CANDIDATES_TEXT_MAX], objective[64], goodput[512];
  bool measures;                  /* the process measures the device and ends */
  void (*ended)(struct server *); /* called at the end; NULL: no callback */
  int files[WHATIF_FILES];        /* open while it runs; -1: closed */
  uv_work_t work;
  bool writing; /* a pool thread is writing the history file */
  int written;  /* the result of writing it */
  uv_process_t child;
  uv_pipe_t said; /* the process's stderr */
  int open;       /* how many of child and said are open */
  bool given_up;
  int status;               /* exit status of the process */
  char read[512];           /* bytes read from stderr */
  char line[LLS_ERROR_MAX]; /* the last line of stderr */
  size_t length;
  bool line_ended;
};

/* autopilot.c */
struct autopilot {
  uv_timer_t timer;
  struct lls_autopilot rule;
  bool measured;             /* the device was measured */
  char said[256];            /* the last warning about the profile */
  struct lls_changes before; /* settings of requests at the time of the last change */
  /* names of the configurations; "": the one of the file */
  char runs[LLS_AUTOPILOT_NAME], ran_before[LLS_AUTOPILOT_NAME];
};

/* [cluster] as it was at the start; cluster.c. */
struct server_cluster {
  bool prepared;
  char listen[320], join[320];
  char secret[LLS_SHA256_HEX], model[LLS_SHA256_HEX]; /* digests; secret "": none */
  uint32_t role;
};

#define SERVER_EXIT_DRAINED 3 /* exit status after /admin/drain */

/* The draft model of each instance, if [plugins] draft_model names one, or the model has
 * a layer that guesses. */
struct draft_models {
  bool heads; /* it is that layer, or an EAGLE-3 layer in a folder of its own */
  bool eagle; /* draft_model names such a folder */
  struct lls_model_config model;
  struct lls_device *devices[LLS_MAX_INSTANCES];
  struct lls_engine *engines[LLS_MAX_INSTANCES]; /* NULL: none */
};

struct server {
  struct lls_config *config; /* the running configuration */
  const struct lls_devices *builtin;
  struct lls_log log;
  struct lls_model_config model;
  struct lls_pooling_config pooling;
  struct lls_labels labels;       /* of a model that classifies texts */
  char *reranker_form;            /* of a generator that scores pairs, else NULL */
  struct lls_instances instances; /* the instances configured at the start */
  struct lls_device *devices[LLS_MAX_INSTANCES];
  struct lls_engine *engines[LLS_MAX_INSTANCES];
  struct draft_models draft; /* draft_models.c */
  struct lls_ranks *ranks;   /* handle of this process's rank; NULL = a single rank */
  /* channel to instances in other processes; NULL = none */
  struct lls_channel *channel;
  struct server_cluster cluster;
  /* if there is a channel: the channel to the other ranks of this instance; NULL =
   * none */
  struct lls_channel *within;
  struct lls_worker_ranks *followers; /* the other ranks if they are threads */
  struct lls_tokenizer *tokenizer;
  json_t *template_variables;         /* defaults for the chat template; or NULL */
  struct lls_grammar_cache *grammars; /* for the tokenizer's vocabulary */
  struct lls_chat_template *chat_template;
  struct lls_tool_dialect dialect;
  struct lls_lora_set *adapters; /* NULL: no adapters */
  struct lls_loop *loop;
  struct lls_http_server *http;       /* belongs to the api once that exists */
  struct lls_decision_log *decisions; /* NULL: not recorded */
  struct lls_history *history;        /* NULL: not kept */
  struct lls_api *api;
  struct load load;
  struct lls_admin_state admin;

  /* the keys read at the start, until the api takes them */
  struct lls_api_keyring wanted_keys;
  struct lls_exporter *traces; /* NULL: none */
  struct reload *reload;       /* the reload in progress; NULL: none */
  struct reload *reloads;      /* `reload`, and given up ones whose threads still run */
  bool reload_again; /* another reload was requested while one was in progress */
  /* settings for the next reload, added to those of earlier requests */
  struct lls_changes asked;
  bool afresh; /* the next reload drops the settings of earlier requests */

  uv_loop_t uv;
  uv_async_t wake, prepared; /* prepared: sent by the thread of a reload */
  uv_signal_t terminate, interrupt, hangup;
  uv_timer_t deadline, watchdog, look;
  struct whatif whatif;
  struct autopilot autopilot;
  /* steps at the service manager's last watchdog check */
  uint64_t steps_seen[LLS_MAX_INSTANCES];
  /* uv_now at which stop.c stops waiting for requests that clients have begun to send; 0:
   * not stopping */
  uint64_t last_call_until_ms;
  bool stopping;
  bool closing;
  int status; /* the exit status */
};

/* True if instance i belongs to this process. */
static inline bool server_has_instance(const struct server *s, uint32_t i)
{
  return s->channel == NULL || s->channel->self == i;
}

/* True in every process but process 0, if instances are processes. */
static inline bool server_follows(const struct server *s)
{
  return s->channel != NULL && s->channel->self > 0;
}

/* ---- settings.c */
/* Reads the chat template and the model's tool call format. If the template cannot be
 * used, only chat requests are refused. */
int server_load_template(struct server *s, struct lls_error *err);
/* Reads the keys of [server] api_keys and admin_keys; on failure `out` needs no free. */
int server_load_keys(const struct lls_config *, struct lls_api_keyring *out,
                     struct lls_error *err);
/* Returns the most tokens that one request can have. */
uint32_t server_max_context(const struct lls_config *, const struct lls_engine *);
/* Reads from [model] and its folder how texts are pooled into vectors. */
int server_read_pooling(const struct lls_config *, const struct lls_model_config *,
                        struct lls_pooling_config *out, struct lls_error *err);
/* Reports settings that are probably mistakes, a sentence each. */
typedef void (*server_say)(void *context, const char *text);
void server_warn(const struct lls_config *, const struct lls_model_config *,
                 const struct lls_engine *, server_say, void *context);
/* Reads the files of [tls]; *out is NULL if there is no TLS. Says if the certificate
 * expires soon. */
int server_load_tls(const struct lls_config *, struct lls_tls **out, server_say,
                    void *context, struct lls_error *err);
/* Logs a warning; context is the server. */
void server_say_warning(void *context, const char *text);
/* Logs the warnings of server_warn. */
void server_log_warnings(struct server *);

/* ---- resources.c */
/* Checks the folders and files that process 0 writes and reads while it serves. */
int server_check_places(const struct lls_config *, struct lls_error *err);
/* Returns -EBUSY if another process has locked [server] state. */
int server_check_state_is_free(const struct lls_config *, struct lls_error *err);
/* Checks that [cache] asks for no more memory than the device has. */
int server_check_memory(const struct server *, const struct lls_config *,
                        struct lls_device *, struct lls_error *err);

/* ---- load.c */
/* Reads keys and certificate, creates the HTTP server, and starts to listen. */
int server_make_http(struct server *, const struct lls_http_config *, struct lls_error *);
/* Starts to listen and to load the model; load.loaded then calls server_loaded. */
int server_load(struct server *, struct lls_error *err);
void server_loaded(struct server *);

/* ---- listen.c */
/* Opens the sockets that clients connect to. */
int server_listen(struct server *, struct lls_error *err);

/* ---- worker_ranks.c */
/* Joins the processes that a launcher has started, if ranks are processes. */
int server_join_ranks(struct server *, struct lls_error *err);
/* Checks that the loaded model can be divided among the ranks, and starts ranks that
 * are threads. */
int server_start_ranks(struct server *, struct lls_error *err);
/* Checks that the model can be divided among n ranks in addition to the instances. */
int server_check_ranks(const struct server *, uint32_t n, struct lls_error *err);
/* True in a process of a rank other than 0. */
static inline bool server_is_other_rank(const struct server *s)
{
  return s->ranks != NULL && s->ranks->rank > 0;
}
/* Runs such a process; returns its exit status. */
int server_follow(struct server *);
/* Ends the other ranks; call it before rank 0's engine is destroyed. */
void server_stop_ranks(struct server *);
/* True if the server cannot continue because its engine or a rank failed; `why` has the
 * reason. */
bool server_has_failed(struct server *, struct lls_error *why);

/* ---- processes.c */
/* Joins the processes that a launcher has started, for `wanted` instances. */
int server_join_instances(struct server *, uint32_t wanted, struct lls_error *err);

/* ---- cluster.c */
/* Opens the channel of [cluster]: listens, or joins. */
int server_join_cluster(struct server *, struct lls_error *err);
/* True if [cluster] is set. */
static inline bool server_has_cluster(const struct lls_config *c)
{
  return c->cluster.listen[0] != '\0' || c->cluster.join[0] != '\0';
}

/* ---- processes.c */
struct lls_loop_remote server_remote_options(struct server *);
/* How blocks travel to other processes: by the channel from GPU memory, or by links (enum
 * lls_link_use). */
bool server_is_gpu_aware(const struct server *);
int server_links(const struct server *);
/* Leaves the channel once the loop is destroyed; the other processes continue without
 * this one. */
void server_leave_channel(struct server *);

/* ---- follow.c */
/* Runs a process other than process 0, or reports the earlier failure rc and err;
 * returns the exit status. */
int server_follow_instance(struct server *, int rc, struct lls_error *err);

/* ---- leaving.c */
/* Returns the flag that SIGTERM and SIGINT set in a process of a cluster, which then
 * leaves it. */
const _Atomic(bool) *server_leaves(void);
/* Ignores the signals that end or reload the server: process 0 gets them and speaks for
 * the other processes. A process of a cluster (elastic) leaves it at those that end. */
void server_set_signals(bool elastic);

/* ---- follow_reload.c: the part of a reload in a process other than 0 */
struct lls_loop_change_ops server_change_ops(struct server *);

/* ---- instances.c */
int server_create_instances(struct server *, struct lls_error *err);
/* Lists the instances for the loop: `out` has s->instances.n places, which the loop
 * borrows while it is created. */
void server_list_instances(struct server *, struct lls_loop_instance *out);
void server_destroy_instances(struct server *);

/* ---- draft_models.c */
/* Reads what the draft model is, if there is one. Its tokens must be the tokeniser's. */
int server_read_draft_model(struct server *, struct lls_error *err);
bool server_has_draft_model(const struct server *);
/* Creates the device of instance i's draft model, after the instance's own, on the cores
 * of this thread. */
int server_create_draft_device(struct server *, uint32_t i, struct lls_error *err);
/* Creates the engine of instance i's draft model, if there is one; call it before the
 * instance's own engine, which sizes its cache by the memory that is left, or after it
 * for the model's layer that guesses. */
int server_create_draft_model(struct server *, uint32_t i, struct lls_error *err);
/* Sets what instance i's engine leaves to its draft model: beside_bytes and heads. */
void server_leave_room_for_draft(const struct server *, uint32_t i,
                                 struct lls_engine_options *);
void server_destroy_draft_models(struct server *);

/* ---- adapter_list.c */
/* Reads and lists the adapters of [lora], when the engines exist. */
int server_make_adapters(struct server *, struct lls_error *err);
/* [any] An lls_loop_adapter, in a process that follows; one call at a time. */
int server_adapter_there(void *server, const char *path, const unsigned char digest[32],
                         struct lls_lora **out, struct lls_error *err);
/* [a reload's thread] Reads what the new configuration adds; the error is r->error. */
int server_read_adapters(const struct server *, struct reload *);
/* Lists and removes adapters, before the new configuration replaces the running one. */
void server_take_adapters(struct server *, struct reload *);
void server_free_adapters(struct reload *);

/* ---- start.c */
int server_load_model(struct server *, struct lls_error *err);
int server_create_loop(struct server *, struct lls_error *err);
int server_create_api(struct server *, struct lls_error *err);
void server_destroy(struct server *);
/* Destroys what server_load_model has made. */
void server_destroy_parts(struct server *);

/* ---- config_reload.c */
/* Begins a reload of the file; the outcome is logged and kept. */
void server_reload(struct server *);
/* Begins a reload with settings on top of the file and of earlier requests' settings; 0
 * or -ENOMEM. */
int server_change(struct server *, const struct lls_changes *);
/* Begins a reload with only these settings on top of the file. */
int server_change_to(struct server *, const struct lls_changes *);
/* Makes the reload's configuration the running one, after the loop has changed the
 * policies. */
void server_take_over(struct server *, struct reload *);
/* Continues a reload; call it on each wake, when a reload was prepared, and when one
 * was given up. */
void server_reload_continue(struct server *);

/* ---- reload_prepare.c */
/* Begins to read the file and to create its plugins; r is added to the server's list. */
int server_prepare(struct server *, struct reload **r, struct lls_error *err);
/* Does so with a configuration that process 0 has read and packed. */
int server_prepare_packed(struct server *, const char *data, size_t n, struct reload **r,
                          struct lls_error *err);
/* Frees given up reloads whose threads have returned. */
void server_forget_reloads(struct server *);
/* Gives up the reload in progress, with the reason as its error, if one of its plugins
 * hangs. */
void server_look_at_reload(struct server *, int64_t now_ns);
/* Takes a reload out of the list and frees it with everything it still owns. */
void server_free_reload(struct server *, struct reload *);
/* At the end: waits for the threads of reloads and destroys what they created. Returns
 * false if one has not ended within timeout_ns. */
bool server_end_reloads(struct server *, int64_t timeout_ns);

/* ---- service_manager.c */
void server_ready(struct server *);
void server_reloading(void);
void server_reload_over(struct server *);
void server_stopping(void);

/* ---- hang_watch.c */
/* Starts to watch the step threads, or continues with a new limit. */
void server_look(struct server *);
/* Ends the step threads after the last request; exits with a failure if one does not
 * end. */
void server_end_steps(struct server *);

/* ---- sandbox.c */
/* Restricts file access; call it before any thread is started. Fails only if [server]
 * sandbox = on. */
int server_give_up_files(struct server *, struct lls_error *err);
/* Restricts system calls; call it when everything is ready. */
int server_give_up_calls(struct server *, struct lls_error *err);

/* ---- whatif_process.c */
bool server_whatif_runs(const struct server *);
/* Starts llmserve-whatif, or only its measurement of the device. `ended` is called on
 * main unless the server closes first. See lls_whatif_asker.ask. */
int server_ask_whatif(struct server *, const struct lls_whatif_question *, bool measures,
                      void (*ended)(struct server *), struct lls_error *err);
void server_give_up_whatif(struct server *);
void server_free_whatif(struct server *);

/* ---- models_server.c */
/* Serves the models of [models], each by a process of its own. Returns the exit status.
 */
int server_route_models(struct server *);

/* ---- autopilot.c */
/* Starts the timer of the rounds. */
void server_steer(struct server *);

/* ---- stop.c */
/* Logs the reason, and ends with a failure. */
void server_fail(struct server *, const struct lls_error *err, int rc);
/* Refuses new requests; running ones continue until the deadline at most. */
void server_drain(struct server *);
void server_close(struct server *); /* ends at once */
void server_close_if_done(struct server *);

#endif
