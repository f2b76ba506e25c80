/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin: a shared object that exports a single symbol, `llmserve_plugin`, a const
 * descriptor. Everything else in it is static or hidden. It has no undefined symbol of
 * llmserve, and reaches the host through the struct lls_host passed to create.
 *
 * A complete plugin:
 *
 *   struct params { int64_t max_seqs; };
 *   static const struct lls_param params[] = {
 *     LLS_PARAM_INT(struct params, max_seqs, "256", 1, 65536, "sequences",
 *                   "most sequences in one step"),
 *   };
 *   static const struct lls_scheduler_vtable vtable = {
 *     .api_version = LLS_API_VERSION, .size = sizeof vtable,
 *     .create = create, .destroy = destroy, .plan = plan, ...
 *   };
 *   LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
 *     .api_version = LLS_API_VERSION, .size = sizeof llmserve_plugin,
 *     .kind = LLS_KIND_SCHEDULER, .id = "mine", .version = "1.0",
 *     .description = "...", .licence = "Apache-2.0",
 *     LLS_PLUGIN_PARAMS(params, struct params),
 *     .vtable = &vtable,
 *   };
 *
 * It must have no mutable static data: several instances and several generations of a
 * plugin run at the same time. If the core refuses a plugin, its error says what was
 * expected and what was found.
 */
#ifndef LLMSERVE_PLUGIN_H
#define LLMSERVE_PLUGIN_H

#include <llmserve/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when something is appended; the core loads plugins built for
 * 1..LLS_API_VERSION. */
#define LLS_API_VERSION 1

#define LLS_PLUGIN_SYMBOL "llmserve_plugin"
#ifdef __cplusplus /* in C++ a const object would be local to its file */
#define LLS_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define LLS_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

enum lls_plugin_kind {
  LLS_KIND_SCHEDULER = 1,
  LLS_KIND_CACHE = 2,
  LLS_KIND_PREDICTOR = 3,
  LLS_KIND_DRAFTER = 4,
};

/*
 * The C type of the member a parameter is bound to, and its text in llmserve.ini. A path
 * is relative to the folder of the ini.
 */
enum lls_param_type {
  LLS_TYPE_BOOL = 1, /* bool         true false on off yes no 1 0 */
  LLS_TYPE_INT,      /* int64_t      whole number */
  LLS_TYPE_FLOAT,    /* double       number */
  LLS_TYPE_STRING,   /* const char * anything */
  LLS_TYPE_PATH,     /* const char * a file or folder */
  LLS_TYPE_CHOICE,   /* int64_t      index of one of `choices`, "a|b|c" */
  LLS_TYPE_DURATION, /* int64_t, ns  10ms 1.5s 2min 1h; a bare number is s */
  LLS_TYPE_BYTES,    /* int64_t      512MiB 2GiB 1000 */
};

enum lls_param_flags {
  LLS_PARAM_RELOADABLE = 1, /* may change while running, through reconfigure */
  LLS_PARAM_AUTO = 2,       /* "auto" is allowed: NaN for FLOAT, LLS_NEVER for other
                             * types */
  LLS_PARAM_REQUIRED = 4,   /* no default: the section must set it */
  /* For experiments, such as an ablation of a paper: set like any other, but omitted
   * from help and man pages unless requested, and any release may change or remove it. */
  LLS_PARAM_EXPERIMENTAL = 8,
};

/*
 * The only description of a parameter: parsing, checking, --help-config, the man page
 * and /admin/plugins are derived from it.
 */
struct lls_param {
  const char *name;
  uint32_t type;             /* enum lls_param_type */
  size_t offset;             /* offset of the member in the params struct */
  const char *default_value; /* value in the syntax of the configuration file */
  double min,
      max; /* limits of the bound value (ns for durations); no limits if both are 0 */
  const char *choices;  /* CHOICE: "a|b|c", else NULL */
  const char *unit;     /* "tokens", "" if none */
  const char *sentence; /* what it does */
  uint32_t flags;       /* enum lls_param_flags */
  /* version 1 ends here; lls_plugin.param_size is the stride of a table */
};

/*
 * Entries of a table, named after the types of their members. Arguments after the
 * sentence set further members: LLS_PARAM_INT(..., "sentence", .flags =
 * LLS_PARAM_RELOADABLE). C++ accepts them, too, as designated initialisers, which g++
 * and clang++ support since C++17.
 */
#define LLS_PARAM_(TYPE, STRUCT, MEMBER, DEFAULT, MIN, MAX, CHOICES, UNIT, ...)          \
  {                                                                                      \
    .name = #MEMBER, .type = TYPE, .offset = offsetof(STRUCT, MEMBER),                   \
    .default_value = DEFAULT, .min = MIN, .max = MAX, .choices = CHOICES, .unit = UNIT,  \
    .sentence = __VA_ARGS__                                                              \
  }
#define LLS_PARAM_INT(STRUCT, MEMBER, DEFAULT, MIN, MAX, UNIT, ...)                      \
  LLS_PARAM_(LLS_TYPE_INT, STRUCT, MEMBER, DEFAULT, MIN, MAX, NULL, UNIT, __VA_ARGS__)
#define LLS_PARAM_FLOAT(STRUCT, MEMBER, DEFAULT, MIN, MAX, UNIT, ...)                    \
  LLS_PARAM_(LLS_TYPE_FLOAT, STRUCT, MEMBER, DEFAULT, MIN, MAX, NULL, UNIT, __VA_ARGS__)
#define LLS_PARAM_BOOL(STRUCT, MEMBER, DEFAULT, ...)                                     \
  LLS_PARAM_(LLS_TYPE_BOOL, STRUCT, MEMBER, DEFAULT, 0, 0, NULL, "", __VA_ARGS__)
#define LLS_PARAM_CHOICE(STRUCT, MEMBER, DEFAULT, CHOICES, ...)                          \
  LLS_PARAM_(LLS_TYPE_CHOICE, STRUCT, MEMBER, DEFAULT, 0, 0, CHOICES, "", __VA_ARGS__)
#define LLS_PARAM_DURATION(STRUCT, MEMBER, DEFAULT, MIN, MAX, ...)                       \
  LLS_PARAM_(LLS_TYPE_DURATION, STRUCT, MEMBER, DEFAULT, MIN, MAX, NULL, "", __VA_ARGS__)
#define LLS_PARAM_BYTES(STRUCT, MEMBER, DEFAULT, MIN, MAX, ...)                          \
  LLS_PARAM_(LLS_TYPE_BYTES, STRUCT, MEMBER, DEFAULT, MIN, MAX, NULL, "", __VA_ARGS__)
#define LLS_PARAM_STRING(STRUCT, MEMBER, DEFAULT, ...)                                   \
  LLS_PARAM_(LLS_TYPE_STRING, STRUCT, MEMBER, DEFAULT, 0, 0, NULL, "", __VA_ARGS__)
#define LLS_PARAM_PATH(STRUCT, MEMBER, DEFAULT, ...)                                     \
  LLS_PARAM_(LLS_TYPE_PATH, STRUCT, MEMBER, DEFAULT, 0, 0, NULL, "", __VA_ARGS__)

/* The one exported symbol. api_version and size always remain the first two members. */
struct lls_plugin {
  uint32_t api_version;           /* LLS_API_VERSION the plugin was compiled with */
  uint32_t size;                  /* sizeof(struct lls_plugin) when the plugin was
                                   * compiled */
  uint32_t kind;                  /* enum lls_plugin_kind */
  uint32_t reserved;              /* 0 */
  const char *id;                 /* [a-z][a-z0-9_-]*: the name in llmserve.ini */
  const char *version;            /* the plugin's own */
  const char *description;        /* one line */
  const char *licence;            /* SPDX expression */
  const struct lls_param *params; /* (n_params) */
  uint32_t n_params;
  uint32_t param_size; /* sizeof(struct lls_param) when compiled: the stride of params */
  size_t params_size;  /* size of the struct that the parameters are bound to */
  const void *vtable;  /* struct lls_KIND_vtable */
  /* version 1 ends here */
};

/* The four members that describe a table and the struct it is bound to. */
#define LLS_PLUGIN_PARAMS(TABLE, STRUCT)                                                 \
  .params = TABLE, .n_params = sizeof(TABLE) / sizeof *(TABLE),                          \
  .param_size = sizeof(struct lls_param), .params_size = sizeof(STRUCT)

/*
 * State that outlives a plugin instance, passed from export_state of the old one to
 * import_state of the new one. `version` is a number of the plugin's own; a plugin
 * refuses an unknown blob with -ENOTSUP, and starts empty.
 */
struct lls_blob { /* a result without a size: the struct never grows */
  uint32_t version;
  size_t bytes;
  void *data; /* export: malloc'ed by the plugin, freed by the core; import: borrowed */
};

#ifdef __cplusplus
}
#endif

#endif
