/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llmserve.ini, typed: one struct per section. The tables that describe the keys (type,
 * default, bounds, unit, sentence) are in sections.c; a key is added there and here.
 *
 * A loaded configuration holds the four chosen plugins open with their parameters bound,
 * ready for create; nothing is created yet. It never changes: a reload loads another.
 */
#ifndef LLS_CONFIG_CONFIG_H
#define LLS_CONFIG_CONFIG_H

#include "core/base/error.h"
#include "core/config/changes.h"
#include "core/config/ini.h"
#include "core/config/limits.h"
#include "core/device/devices.h"
#include "core/params/params.h"
#include "core/plugin/kinds.h"

struct lls_server_config {       /* [server] */
  struct lls_api_limits api;     /* first: see sections.c */
  const char *listen;            /* list of listen_address.h, well formed */
  int64_t drain_timeout;         /* ns, as all timeouts */
  const char *api_keys;          /* file, or "": no key is needed */
  int64_t log_level;             /* enum lls_log_level, LLS_LOG_ERROR..LLS_LOG_DEBUG */
  int64_t log_format;            /* enum lls_log_format */
  const char *decisions;         /* "": not recorded */
  const char *served_model_name; /* never "": the model folder's name by default */
  int64_t watchdog;              /* ns */
  const char *admin_keys;        /* file, or "": any client on this machine */
  const char *admin_socket;      /* path, or "": none */
  const char *state;             /* folder, or "": no state outlives the process */
  /* URL of the database, and folder of the files, that replicas share; "": in `state` */
  const char *state_database, *state_files;
  const char *replica; /* name of this replica, or "": it is the only one */
  /* "": none, "stream": only GET /admin/kv_events, or an endpoint; another or "" */
  const char *kv_events, *kv_events_replay;
  const char *traces; /* URL of a collector, or "" */
  const char *kv_events_topic;
  int64_t kv_events_form; /* enum lls_kv_form */
  int64_t history;        /* ns; 0: not kept */
  int64_t sandbox;        /* enum lls_sandbox_choice */
  bool autopilot;
  /* the same options as of llmserve-whatif */
  const char *autopilot_policies, *autopilot_objective;
};

/* AUTO: as far as the kernel and build support it. ON: the server does not start
 * without. */
enum lls_sandbox_choice { LLS_SANDBOX_AUTO, LLS_SANDBOX_OFF, LLS_SANDBOX_ON };

enum lls_kv_form { LLS_KV_ARRAY, LLS_KV_MAP };

enum lls_load_format { LLS_LOAD_AUTO, LLS_LOAD_DUMMY };

/* AUTO: by the files in the model's folder. */
enum lls_pooling_choice {
  LLS_CHOOSE_AUTO,
  LLS_CHOOSE_NONE,
  LLS_CHOOSE_LAST,
  LLS_CHOOSE_MEAN,
  LLS_CHOOSE_CLS
};

enum lls_tls_version { LLS_TLS_1_2, LLS_TLS_1_3 };

struct lls_tls_section {                     /* [tls] */
  const char *certificate, *key, *client_ca; /* files, or "" */
  int64_t min_version;                       /* enum lls_tls_version */
};

struct lls_model_section {                    /* [model] */
  const char *path;                           /* folder with config.json, or .gguf file */
  int64_t load_format;                        /* enum lls_load_format */
  int64_t weights;                            /* enum lls_weight_format */
  const char *chat_template;                  /* file, or "": the model's own */
  const char *template_variables;             /* a JSON object, or "" */
  const char *tool_format, *reasoning_format; /* text/tools/tool_dialect.h reads them */
  int64_t pooling;                            /* enum lls_pooling_choice */
  int64_t task;                               /* enum lls_model_task */
};

/* The transport of tensor parallel ranks. AUTO: MPI if it started the process, else
 * threads. */
enum lls_ranks_choice { LLS_RANKS_AUTO, LLS_RANKS_THREADS, LLS_RANKS_MPI };

/* How blocks travel to other processes. AUTO: the first available way. */
enum lls_blocks_by {
  LLS_BLOCKS_BY_AUTO,
  LLS_BLOCKS_BY_UCX,
  LLS_BLOCKS_BY_NCCL,
  LLS_BLOCKS_BY_GPU_MPI,
  LLS_BLOCKS_BY_HOST
};

/* Form of the blocks in disk_space. */
enum lls_disk_element { LLS_DISK_AS_CACHED, LLS_DISK_INT8 };

/* When to run the measurements that precede serving. */
enum lls_measure_choice { LLS_MEASURE_ONCE, LLS_MEASURE_ALWAYS };

struct lls_engine_config {      /* [engine] */
  int64_t device;               /* enum lls_device_choice */
  int64_t threads;              /* 0 = one per core */
  bool pin;                     /* each thread to a core */
  int64_t isa;                  /* of LLS_ISA_LEVELS; LLS_NEVER = the best this CPU has */
  int64_t tensor_parallel_size; /* ranks; LLS_NEVER = the number of started ranks, or 1 */
  int64_t ranks;                /* enum lls_ranks_choice */
  int64_t rank_timeout;         /* ns */
  int64_t blocks_by;            /* enum lls_blocks_by */
  int64_t instances;            /* LLS_NEVER = the number of roles, or 1 */
  const char *roles, *gpus;     /* lists; core/config/instance_list.h reads them */
  int64_t max_step_tokens;
  int64_t max_sequences; /* most sequences of one step */
  int64_t max_context;   /* tokens; 0 = the model's own limit */
  int64_t max_requests;  /* alive at once, running and waiting */
  int64_t seed;          /* for sampling without a seed, and for dummy weights */
  const char *profile;   /* file or name, for llmserve-whatif; "": it measures */
};

/* The role that a process joins for: any, or LLS_CLUSTER_ROLES + enum lls_role. */
enum lls_cluster_role { LLS_CLUSTER_ANY, LLS_CLUSTER_ROLES };

struct lls_cluster_config { /* [cluster] */
  const char *listen;       /* HOST:PORT where others join; "": none can */
  const char *join;         /* HOST:PORT of the front end; "": this is the front end */
  const char *secret;       /* file; "": no secret */
  int64_t role;             /* enum lls_cluster_role */
  int64_t load_timeout;     /* ns; 0: no limit */
};

enum lls_element_choice {
  LLS_ELEMENT_CHOICE_AUTO,
  LLS_ELEMENT_CHOICE_F32,
  LLS_ELEMENT_CHOICE_BF16
};

struct lls_cache_config {      /* [cache] */
  struct lls_pool_limits pool; /* first: see sections.c */
  int64_t block_tokens;
  int64_t device_memory;    /* bytes; LLS_NEVER = see core/engine/pool_size.c */
  int64_t element;          /* enum lls_element_choice */
  const char *measurements; /* folder; "": the service's, if it has one */
  int64_t measure;          /* enum lls_measure_choice */
  int64_t kept_prompts;     /* bytes in the state folder; 0 = none */
  int64_t disk_space;       /* bytes in the state folder; 0 = none */
  int64_t disk_element;     /* enum lls_disk_element */
  int64_t isolate;          /* enum lls_isolate */
  int64_t lease_tool, lease_end, session_memory; /* see struct lls_lease_limits */
  double disk_lease_share;
};

struct lls_named_adapter {
  const char *name; /* the key's */
  char *path;
  float scale; /* of its changes: 1, or a number after the path's last ':' */
};

struct lls_lora_section {             /* [lora] */
  int64_t max_loaded;                 /* adapters in memory */
  int64_t memory;                     /* bytes of them; 0 = no bound */
  int64_t device_memory;              /* bytes of a GPU for some of them */
  bool runtime;                       /* requests may load and unload adapters */
  struct lls_named_adapter *adapters; /* (n) in the file's order */
  size_t n;
};

/* True if requests may use adapters. */
static inline bool lls_lora_is_on(const struct lls_lora_section *lora)
{
  return lora->n > 0 || lora->runtime;
}

#define LLS_MODEL_NAME_MAX 200

struct lls_own_settings { /* [model.NAME]; LLS_NEVER where it is auto */
  const char *path;
  bool pinned;
  int64_t unload_after;
  int64_t memory;
};

struct lls_served_model {
  char *name;
  char *path;    /* as written, relative to the file's folder, or a hub's name */
  unsigned line; /* where the file has it */
  struct lls_own_settings own;
};

struct lls_models_section { /* [models] */
  const char *folder;       /* its models are served, too; "": none */
  const char *fallback;     /* model of requests that name none; "": they are refused */
  int64_t max_loaded;       /* models loaded at once; 0 = no bound */
  int64_t memory;           /* bytes of all together; LLS_NEVER = what is available */
  int64_t unload_after;     /* of a model that is not used; 0 = never */
  int64_t load_timeout;
  bool autoload;                 /* requests have the model that they name loaded */
  const char *only;              /* the one model of this process; "": all, routed */
  const char *copy_of;           /* the file that this one is a copy of, or "" */
  struct lls_served_model *list; /* (n) */
  size_t n;
};

struct lls_plugins_config {                            /* [plugins] */
  struct lls_loop_limits loop;                         /* first: see sections.c */
  const char *scheduler, *cache, *predictor, *drafter; /* name or path */
  /* SHA-256 of the file, or "": any file */
  const char *scheduler_sha256, *cache_sha256, *predictor_sha256, *drafter_sha256;
  int64_t max_drafts;      /* guesses of one request that a step verifies at most */
  const char *draft_model; /* a path, or "": none */
  int64_t draft_cache;     /* bytes of its cache, of each instance */
};

/* A chosen plugin, with the parameters of its section bound. */
struct lls_policy {
  struct lls_plugin_module *module;
  void *params; /* parameters for create */
};

struct lls_config {
  struct lls_server_config server;
  struct lls_tls_section tls;
  struct lls_model_section model;
  struct lls_engine_config engine;
  struct lls_cluster_config cluster;
  struct lls_cache_config cache;
  struct lls_plugins_config plugins;
  struct lls_tenant_limits tenants; /* [tenants] */
  struct lls_lora_section lora;
  struct lls_models_section models;
  struct lls_tenant_override *overrides; /* [tenant.NAME]; server.api borrows them */
  struct {
    LLS_EACH_KIND_OF(struct lls_policy);
  } policies;
  struct lls_ini ini; /* the file as read, for messages that name a line */
  /* (n_settings) settings of the command line; they override the file; borrowed */
  const char *const *settings;
  size_t n_settings;
  struct lls_changes changes; /* settings by requests; they override both */
  bool has_file;
  char *copy; /* the file that was read, where `ini` has the path of its original; or NULL
               */
};

#define LLS_CONFIG_MAX_ERRORS 200

/* The errors of a file, by line; those without a line come last, then the number of
 * errors left out. */
struct lls_config_errors {
  size_t n;
  size_t n_left_out;
  struct lls_config_error {
    unsigned line;
    struct lls_error error;
  } * list; /* (n) */
};

/*
 * Reads, checks and binds the whole file. On failure there is at least one error, each
 * "FILE:LINE: ...", and no config to free. `errors` must be zeroed before, and always
 * freed after.
 */
int lls_config_load(const char *path, struct lls_config *config,
                    struct lls_config_errors *errors);
/*
 * Does so with n further settings that override or complete the file:
 * "SECTION.KEY=VALUE" each, as in "scheduler.sarathi.chunk=256". With path = NULL
 * there are only the settings. They must outlive the configuration.
 */
int lls_config_load_with(const char *path, const char *const *settings, size_t n,
                         struct lls_config *config, struct lls_config_errors *errors);
/* The warning that a scheduler orders by lengths but the predictor, %s, predicts none,
 * and the test for it, which knows policies by their names. */
#define LLS_NO_PREDICTIONS                                                               \
  "orders by predicted lengths, and %s predicts nothing: it goes by max_tokens, first "  \
  "come, first served among equals; set a predictor in [plugins]"
bool lls_config_lacks_predictions(const struct lls_config *);
/* Reads the running configuration's file and settings again, with these changes, in a
 * running server: plugins are first opened in another process, where a crash does no
 * harm (LLS_IMAGE_TRIED). */
int lls_config_reload(const struct lls_config *running, const struct lls_changes *changes,
                      struct lls_config *config, struct lls_config_errors *errors);
/* Does so with a file that another process has read and packed (lls_ini_pack of its
 * `ini`, which includes its settings and changes) instead of this process's file. */
int lls_config_unpack(const struct lls_config *running, struct lls_unpack *packed,
                      struct lls_config *config, struct lls_config_errors *errors);
void lls_config_free(struct lls_config *);

/* True if this process serves no model itself, but routes requests to those of [models].
 */
static inline bool lls_config_routes(const struct lls_config *config)
{
  return config->models.n > 0;
}

/* Returns the path of a model of [models], as written, malloc'ed, and its line; NULL if
 * there is no such model. folder: what [models] folder is relative to. */
char *lls_models_path(const struct lls_ini *, const char *folder, const char *name,
                      unsigned *line);
/* Returns the name of the adapter if the entry adds one to a model: lora.NAME in
 * [model.NAME]; else NULL. */
const char *lls_config_adapter_of(const struct lls_ini_entry *);
/* The keys of [model.NAME], besides SECTION.KEY. */
extern const struct lls_param_table lls_own_table;
void lls_config_errors_free(struct lls_config_errors *);

/*
 * Sets err to "FILE:LINE: [section] key: " and the sentence, for an error found after
 * loading (such as a model that can't be read); without LINE if the file does not set
 * the key. Returns code.
 */
int lls_config_fail(const struct lls_config *, struct lls_error *err, int code,
                    const char *section, const char *key, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Returns the text of a key as in the file, or else its default. */
const char *lls_config_text(const struct lls_config *, const char *section,
                            const struct lls_param *);

/* The core's sections, for --help-config. */
struct lls_section {
  const char *name;
  const char *sentence;
  struct lls_param_table table;
  size_t offset; /* offset of the section's struct in struct lls_config */
};

/* Ends with a NULL name. */
extern const struct lls_section lls_sections[];

#endif
