/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. Exit status 0: success; 1: serving failed; 2: wrong usage or
 * configuration; 3: drained over HTTP. */
#include "config.h"

#include "core/base/installed.h"
#include "core/base/json_memory.h"
#include "core/config/config.h"
#include "core/config/help.h"
#include "core/engine/engine.h"
#include "core/model/model_config.h"
#include "core/plugin/trial.h"
#include "core/ranks/ranks.h"
#include "core/sdk/new_plugin.h"
#include "core/serve/get_model.h"
#include "core/serve/serve.h"
#include "kernels/builtin.h"

#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_CONFIG LLS_SYSCONF_DIR "/llmserve/llmserve.ini"
#define EXIT_USAGE     2

static const char usage[] =
    "Usage: llmserve [-c FILE] [MODEL] [--port=N] [--set=SECTION.KEY=VALUE]... "
    "[COMMAND]\n"
    "Serves a language model over an OpenAI-compatible HTTP API.\n"
    "\n"
    "  -c, --config=FILE  configuration (%s)\n"
    "      --port=N       listen on port N of 127.0.0.1\n"
    "      --set=SECTION.KEY=VALUE\n"
    "                     count this before what the file says; may be given again;\n"
    "                     paths are relative to the folder of FILE\n"
    "      --no-download  serve a model of Hugging Face as the cache has it, or not\n"
    "\n"
    "MODEL is a Hugging Face folder or a .gguf file, or the name of a model at Hugging\n"
    "Face, which is fetched: Qwen/Qwen3-0.6B, or for one GGUF file "
    "OWNER/NAME:Q4_K_M. It\n"
    "counts before [model] path. With it no file is needed, or read unless -c names "
    "one:\n"
    "llmserve model.gguf --port 8080\n"
    "\n"
    "Instead of serving:\n"
    "      --check-config  check the configuration, and the model without its\n"
    "                      weights\n"
    "      --help-config   describe every section and key, of the plugins too\n"
    "      --list-plugins [NAME]\n"
    "                      list the plugins that are found; of NAME, its parameters too\n"
    "      --experimental  with either of these: parameters for experiments too\n"
    "      --new-plugin=KIND NAME\n"
    "                      write a plugin to begin with into the folder NAME; KIND is\n"
    "                      scheduler, cache, predictor or drafter\n"
    "  -h, --help          show this\n"
    "  -V, --version       show the version\n"
    "\n"
    "Plugins are looked for in the folders of LLS_PLUGIN_PATH (separated by colons), "
    "then "
    "in\n%s.\n";

enum command {
  COMMAND_SERVE,
  COMMAND_CHECK_CONFIG,
  COMMAND_HELP_CONFIG,
  COMMAND_LIST_PLUGINS,
  COMMAND_NEW_PLUGIN,
  COMMAND_HELP,
  COMMAND_VERSION
};

struct arguments {
  const char *config; /* NULL: no file */
  struct lls_installed default_config;
  const char **settings; /* (n_settings) */
  size_t n_settings;
  char model[PATH_MAX + sizeof "model.path="], listen[64]; /* settings made from
                                                            * options */
  const char *kind, *name; /* kind and name of a new plugin, or of one to describe */
  enum command command;
  bool experimental; /* also describe experimental parameters */
  bool no_download;
};

/* Values of options without a letter begin here, above every character. */
#define LONG_ONLY 256

static void set_port(struct arguments *out, const char *port)
{
  int n = snprintf(out->listen, sizeof out->listen, "server.listen=127.0.0.1:%s", port);
  /* a text that does not fit is no port: an empty port is refused with an error */
  out->settings[out->n_settings++] =
      n > 0 && (size_t)n < sizeof out->listen ? out->listen : "server.listen=127.0.0.1:";
}

/* Sets model.path from an argument, which is relative to the working directory; paths
 * in settings are relative to the configuration file's folder. */
static void set_model(struct arguments *out, const char *path)
{
  char real[PATH_MAX];
  snprintf(out->model, sizeof out->model, "model.path=%s",
           realpath(path, real) != NULL ? real : path);
  out->settings[out->n_settings++] = out->model;
}

static int parse(int argc, char **argv, struct arguments *out)
{
  static const struct option options[] = {
      {"config", required_argument, NULL, 'c'},
      {"port", required_argument, NULL, 'p'},
      {"set", required_argument, NULL, 's'},
      {"check-config", no_argument, NULL, LONG_ONLY + COMMAND_CHECK_CONFIG},
      {"help-config", no_argument, NULL, LONG_ONLY + COMMAND_HELP_CONFIG},
      {"list-plugins", no_argument, NULL, LONG_ONLY + COMMAND_LIST_PLUGINS},
      {"experimental", no_argument, NULL, 'e'},
      {"no-download", no_argument, NULL, 'n'},
      {"new-plugin", required_argument, NULL, LONG_ONLY + COMMAND_NEW_PLUGIN},
      {"help", no_argument, NULL, 'h'},
      {"version", no_argument, NULL, 'V'},
      {NULL, 0, NULL, 0},
  };
  for (int c; (c = getopt_long(argc, argv, "c:hV", options, NULL)) != -1;) {
    if (c == '?') /* getopt has printed the reason */
      return -1;
    else if (c == 'c')
      out->config = optarg;
    else if (c == 'p')
      set_port(out, optarg);
    else if (c == 's')
      out->settings[out->n_settings++] = optarg;
    else if (c == 'e')
      out->experimental = true;
    else if (c == 'n')
      out->no_download = true;
    else
      out->command = c == 'h'   ? COMMAND_HELP
                     : c == 'V' ? COMMAND_VERSION
                                : (enum command)(c - LONG_ONLY);
    if (c == LONG_ONLY + COMMAND_NEW_PLUGIN)
      out->kind = optarg;
  }
  if ((out->command == COMMAND_NEW_PLUGIN || out->command == COMMAND_LIST_PLUGINS) &&
      optind < argc)
    out->name = argv[optind++];
  else if (optind < argc)
    set_model(out, argv[optind++]);
  if (out->config == NULL && out->model[0] == '\0') {
    out->default_config = lls_installed(DEFAULT_CONFIG);
    out->config = out->default_config.path;
  }
  if (optind < argc) {
    fprintf(stderr, "llmserve: '%s': expected no further argument\n", argv[optind]);
    return -1;
  }
  return 0;
}

static int load_config(const struct arguments *a, struct lls_config *config)
{
  struct lls_config_errors errors = {0};
  int rc = lls_config_load_with(a->config, a->settings, a->n_settings, config, &errors);
  bool told = rc < 0 && errors.n > 0 && a->command == COMMAND_SERVE &&
              lls_ranks_mpi_decline(errors.list[0].error.text);
  for (size_t i = 0; i < errors.n && !told; i++)
    fprintf(stderr, "%s\n", errors.list[i].error.text);
  lls_config_errors_free(&errors);
  return rc;
}

static int check_models(const struct arguments *a, struct lls_config *config);

static int check_config(const struct arguments *a)
{
  struct lls_config config;
  if (load_config(a, &config) < 0)
    return EXIT_USAGE;
  if (lls_config_routes(&config))
    return check_models(a, &config);
  if (lls_config_lacks_predictions(&config))
    fprintf(stderr, "%s: warning: scheduler %s " LLS_NO_PREDICTIONS "\n", config.ini.path,
            config.policies.scheduler.module->descriptor->id, "predictor none");
  int rc = lls_serve_check(&config, &lls_builtin_devices);
  if (rc == 0)
    printf("%s: ok\n", config.ini.path);
  lls_config_free(&config);
  return rc == 0 ? 0 : EXIT_USAGE;
}

/* Checks one model of [models], with the settings that its process gets. */
static int check_model(const struct arguments *a, const char *name)
{
  char only[LLS_MODEL_NAME_MAX + sizeof "models.only="];
  struct arguments one = *a;
  one.settings = calloc(a->n_settings + 1, sizeof *one.settings);
  if (one.settings == NULL)
    return EXIT_FAILURE;
  memcpy(one.settings, a->settings, a->n_settings * sizeof *one.settings);
  snprintf(only, sizeof only, "models.only=%s", name);
  one.settings[one.n_settings++] = only;
  int status = check_config(&one);
  free(one.settings);
  return status;
}

/* Checks a configuration with [models]: its own part, then each model's. */
static int check_models(const struct arguments *a, struct lls_config *config)
{
  int status = 0;
  for (size_t i = 0; i < config->models.n; i++) {
    printf("model %s: ", config->models.list[i].name);
    fflush(stdout);
    int one = check_model(a, config->models.list[i].name);
    status = one != 0 ? one : status;
  }
  lls_config_free(config);
  return status;
}

/* Prints whether the configured model supports hidden form. */
static void print_hidden_form(const struct arguments *a)
{
  struct lls_config config;
  struct lls_config_errors errors = {0};
  struct lls_model_config model;
  int rc = lls_config_load_with(a->config, a->settings, a->n_settings, &config, &errors);
  lls_config_errors_free(&errors);
  if (rc < 0)
    return;
  struct lls_error ignored;
  if (lls_model_config_read(config.model.path, &model, &ignored) == 0) {
    double ratio = (double)model.hidden / (2.0 * model.kv_heads * model.head_dim);
    const char *why = lls_model_why_no_hidden(&model);
    printf("; hidden form with the model of %s: %s%s (%.2f of the bytes of keys and "
           "values)\n",
           config.ini.path, why != NULL ? "off, " : "on", why != NULL ? why : "", ratio);
  }
  lls_config_free(&config);
}

static int new_plugin(const struct arguments *a)
{
  struct lls_error err = {0};
  if (a->name == NULL) {
    fprintf(stderr, "llmserve: --new-plugin: expected KIND NAME\n");
    return EXIT_USAGE;
  }
  if (lls_new_plugin(a->kind, a->name, &err) < 0) {
    fprintf(stderr, "llmserve: %s\n", err.text);
    return EXIT_USAGE;
  }
  printf("%s/%s.c: a %s that works. Next: cd %s && make && make check\n", a->name,
         a->name, a->kind, a->name);
  return 0;
}

static int list_plugins(const struct arguments *a)
{
  if (a->name == NULL) {
    lls_help_plugins(stdout);
    print_hidden_form(a);
    return 0;
  }
  if (lls_help_plugin(stdout, a->name, a->experimental))
    return 0;
  fprintf(stderr,
          "llmserve: there is no plugin '%s'; --list-plugins shows those there are\n",
          a->name);
  return EXIT_USAGE;
}

#ifdef LLS_CURL
/* Fetches the model if it is one at a hub. Returns 0 or the process's exit status, or
 * ends by the signal that ended the download. */
static int get_model(const struct arguments *a)
{
  struct lls_error err = {0};
  int signal_of_end;
  signal(SIGPIPE, SIG_IGN); /* a hub that closes the connection is an error code */
  int rc = lls_get_model(a->config, a->settings, a->n_settings, &signal_of_end, &err);
  if (rc == 0)
    return 0;
  fprintf(stderr, "llmserve: %s%s\n", lls_error_text(&err, rc),
          signal_of_end != 0 ? "; the next start continues" : "");
  if (signal_of_end != 0) {
    signal(signal_of_end, SIG_DFL);
    raise(signal_of_end);
  }
  return EXIT_FAILURE;
}
#else
/* Fetches nothing; loading has a sentence for a model that the cache lacks. */
static int get_model(const struct arguments *a)
{
  (void)a;
  return 0;
}
#endif

static int serve(const struct arguments *a)
{
  struct lls_config config;
  struct lls_error err;
  lls_serve_follow_router();
  if (lls_serve_check_descriptors(&err) < 0) {
    fprintf(stderr, "llmserve: %s\n", err.text);
    return EXIT_FAILURE;
  }
  int status = a->no_download ? 0 : get_model(a);
  if (status != 0)
    return status;
  if (load_config(a, &config) < 0)
    return EXIT_USAGE;
  return lls_serve(&config, &lls_builtin_devices);
}

static int run(const struct arguments *a)
{
  switch (a->command) {
  case COMMAND_SERVE:
    return serve(a);
  case COMMAND_CHECK_CONFIG:
    return check_config(a);
  case COMMAND_HELP_CONFIG:
    lls_help_config(stdout, a->experimental);
    return 0;
  case COMMAND_LIST_PLUGINS:
    return list_plugins(a);
  case COMMAND_NEW_PLUGIN:
    return new_plugin(a);
  case COMMAND_HELP:
    printf(usage, lls_installed(DEFAULT_CONFIG).path, lls_installed(LLS_PLUGIN_DIR).path);
    return 0;
  case COMMAND_VERSION:
    puts("llmserve " PACKAGE_VERSION);
    return 0;
  }
  return EXIT_USAGE;
}

int main(int argc, char **argv)
{
  lls_json_memory_watch();
  json_object_seed(0); /* random, and before threads exist: clients choose names in
                        * JSON objects */
  if (argc == 2 && strcmp(argv[1], LLS_TRIAL_ARGUMENT) == 0)
    return lls_trial_main();
  /* libuv 1.45 to 1.48 wait by io_uring, which the sandbox refuses, since its calls pass
   * every filter: they would end the process. Older and newer ones do not read this, or
   * do as without it. */
  setenv("UV_USE_IO_URING", "0", 1);
  signal(SIGXFSZ, SIG_IGN); /* the copy of a plugin may exceed the file size limit:
                             * then an error code, no signal */
  struct arguments arguments = {.settings = calloc((size_t)argc + 1, sizeof(char *))};
  int status = EXIT_USAGE;
  if (arguments.settings == NULL) {
    fputs("llmserve: no memory for the arguments\n", stderr);
    return EXIT_FAILURE;
  }
  if (parse(argc, argv, &arguments) == 0)
    status = run(&arguments);
  else
    fputs("Try 'llmserve --help'.\n", stderr);
  free(arguments.settings);
  return status;
}
