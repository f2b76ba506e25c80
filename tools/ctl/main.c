/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of llmserve-ctl. Exit status 0: done; 1: refused, or there are
 * differences; 2: wrong usage or configuration; 3: no server answers. */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/installed.h"
#include "core/config/ini.h"
#include "tools/ctl/ask.h"
#include "tools/ctl/key.h"
#include "tools/ctl/print.h"
#include "tools/ctl/top.h"

#define DEFAULT_CONFIG  LLS_SYSCONF_DIR "/llmserve/llmserve.ini"
#define EXIT_REFUSED    1
#define EXIT_USAGE      2
#define EXIT_SILENCE    3
#define LINES_A_HEADING 20

static const char usage[] =
    "Usage: llmserve-ctl [-a HOST:PORT] [-c FILE] [-k FILE] COMMAND [OPTION]...\n"
    "Looks at and steers a running llmserve.\n"
    "\n"
    "  status   what runs: plugins, generation, the last reload, requests, memory\n"
    "  queues   running and waiting requests, and what the scheduler orders them by\n"
    "  plugins  the policies with their files and parameters\n"
    "  reload   change to what the file says now; the reason if that is refused\n"
    "  diff     keys in which the file differs from what runs; status 1 if any does\n"
    "  watch    a line a second, until interrupted\n"
    "  top      rates, latencies and requests on one page, each second; q ends it\n"
    "  drain    take no new requests, finish what runs, exit\n"
    "  whatif   would other policies have been better? Its options are those of\n"
    "           llmserve-whatif(1) and stand behind it\n"
    "\n"
    "  -a, --address=HOST:PORT  where it listens (as in the file), or the path of its\n"
    "                           admin_socket\n"
    "  -c, --config=FILE        its file (%s)\n"
    "  -k, --key-file=FILE      file that begins with the API key to send; else that of\n"
    "                           LLMSERVE_ADMIN_KEY, or the first of the admin_keys, or\n"
    "                           of the api_keys, that the server's file names\n"
    "  -j, --json               print the server's answer as JSON; of diff a list, of\n"
    "                           watch an object a line\n"
    "  -m, --model=NAME         which one of [models]; without it status, reload and\n"
    "                           drain are about all\n"
    "  -h, --help               show this\n"
    "  -V, --version            show the version\n";

struct arguments {
  const char *address; /* NULL: as in the INI */
  const char *config, *command;
  const char *key_file; /* NULL: see key.c */
  const char *model;    /* NULL: none is named */
  bool json;
};

/* ---- commands ---------------------------------------------------------------------- */

/* Sends a request. Returns 0 with the answer, or the exit status after printing an
 * error. */
static int ask(const struct ctl_server *server, const char *method, const char *path,
               json_t **answer)
{
  struct lls_error err = {0};
  int status = ctl_ask(server, method, path, answer, &err);
  if (status < 0) {
    fprintf(stderr, "llmserve-ctl: %s\n", err.text);
    return EXIT_SILENCE;
  }
  if (status < 300)
    return 0;
  const char *why =
      json_string_value(json_object_get(json_object_get(*answer, "error"), "message"));
  fprintf(stderr, "llmserve-ctl: refused: %s\n", why != NULL ? why : "(no reason given)");
  json_decref(*answer);
  return EXIT_REFUSED;
}

static void print_json(const json_t *answer)
{
  json_dumpf(answer, stdout, JSON_INDENT(2));
  putchar('\n');
}

static void print_reloaded(const json_t *answer)
{
  printf("generation %lld: %s\n",
         (long long)json_integer_value(json_object_get(answer, "generation")),
         json_string_value(json_object_get(answer, "message")));
}

static void print_draining(const json_t *answer)
{
  (void)answer;
  puts("draining");
}

static int diff(const struct ctl_server *server, const struct arguments *a)
{
  json_t *running, *list = json_array();
  int rc = ask(server, "GET", "/admin/config", &running);
  if (rc == 0) {
    int n = ctl_diff(json_object_get(running, "sections"), a->config, list);
    if (n >= 0)
      (a->json ? print_json : ctl_print_diff)(list);
    json_decref(running);
    rc = n < 0 ? EXIT_USAGE : n > 0 ? EXIT_REFUSED : 0;
  }
  json_decref(list);
  return rc;
}

static int watch(const struct ctl_server *server, const struct arguments *a)
{
  json_t *before = NULL, *status;
  int rc;
  for (int line = 0; (rc = ask(server, "GET", "/admin/status", &status)) == 0; line++) {
    if (a->json) {
      json_dumpf(status, stdout, JSON_COMPACT);
      puts("");
      fflush(stdout);
    } else {
      ctl_print_watch(status, before, 1, line % LINES_A_HEADING == 0);
    }
    json_decref(before);
    before = status;
    sleep(1);
  }
  json_decref(before);
  return rc;
}

static int top(const struct ctl_server *server, const struct arguments *a)
{
  struct lls_error err = {0};
  if (a->json) {
    fputs("llmserve-ctl: top has no JSON: `watch --json` has\n", stderr);
    return EXIT_USAGE;
  }
  int rc = ctl_top(server, &err);
  if (rc != 0)
    fprintf(stderr, "llmserve-ctl: %s%s\n", rc > 0 ? "refused: " : "", err.text);
  return rc < 0 ? EXIT_SILENCE : rc > 0 ? EXIT_REFUSED : 0;
}

/* A command is a request whose answer is printed, or has a function of its own. */
static const struct command {
  const char *name, *method, *path;
  void (*print)(const json_t *answer);
  int (*run)(const struct ctl_server *server, const struct arguments *a);
} commands[] = {
    {"status", "GET", "/admin/status", ctl_print_status, NULL},
    {"queues", "GET", "/admin/queues", ctl_print_queues, NULL},
    {"plugins", "GET", "/admin/status", ctl_print_plugins, NULL},
    {"reload", "POST", "/admin/reload", print_reloaded, NULL},
    {"drain", "POST", "/admin/drain", print_draining, NULL},
    {"diff", NULL, NULL, NULL, diff},
    {"watch", NULL, NULL, NULL, watch},
    {"top", NULL, NULL, NULL, top},
};

/* Carries out the command and returns the exit status. */
static int carry_out(const struct arguments *a, const struct ctl_server *server)
{
  const struct command *c = NULL;
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (strcmp(commands[i].name, a->command) == 0)
      c = &commands[i];
  if (c == NULL) {
    fprintf(stderr, "llmserve-ctl: no command '%s'; see llmserve-ctl --help\n",
            a->command);
    return EXIT_USAGE;
  }
  if (c->run != NULL)
    return c->run(server, a);
  json_t *answer;
  int rc = ask(server, c->method, c->path, &answer);
  if (rc != 0)
    return rc;
  (a->json ? print_json : c->print)(answer);
  json_decref(answer);
  return 0;
}

/* ---- the command line --------------------------------------------------------- */

static int parse(int argc, char **argv, struct arguments *out)
{
  static const struct option options[] = {
      {"address", required_argument, NULL, 'a'},
      {"config", required_argument, NULL, 'c'},
      {"key-file", required_argument, NULL, 'k'},
      {"json", no_argument, NULL, 'j'},
      {"model", required_argument, NULL, 'm'},
      {"help", no_argument, NULL, 'h'},
      {"version", no_argument, NULL, 'V'},
      {NULL, 0, NULL, 0},
  };
  for (int c; (c = getopt_long(argc, argv, "a:c:k:jm:hV", options, NULL)) != -1;) {
    if (c == '?')
      return -1;
    else if (c == 'a')
      out->address = optarg;
    else if (c == 'c')
      out->config = optarg;
    else if (c == 'k')
      out->key_file = optarg;
    else if (c == 'm')
      out->model = optarg;
    else if (c == 'j')
      out->json = true;
    else
      out->command = c == 'h' ? "help" : "version";
  }
  if (out->command == NULL && optind + 1 == argc)
    out->command = argv[optind];
  return out->command != NULL ? 0 : -1;
}

static void ignore_line(void *context, unsigned line, const char *sentence)
{
  (void)context, (void)line, (void)sentence; /* ignored: llmserve or `diff` reports it */
}

/* Returns the path of the admin socket that the INI names, relative to its folder, if
 * this user can open it; malloc'ed, or NULL. */
static char *find_socket(const char *config, const struct lls_ini *ini)
{
  const struct lls_ini_entry *entry = lls_ini_find(ini, "server", "admin_socket");
  char *copy = strdup(config), *path = NULL;
  if (copy == NULL || entry == NULL || entry->value[0] == '\0' ||
      asprintf(&path, "%s%s%s", entry->value[0] == '/' ? "" : dirname(copy),
               entry->value[0] == '/' ? "" : "/", entry->value) < 0)
    path = NULL;
  free(copy);
  if (path != NULL && access(path, R_OK | W_OK) == 0)
    return path;
  free(path);
  return NULL;
}

/* Takes what the command line leaves out from the server's INI, if it is readable. */
static int run(const struct arguments *a)
{
  struct lls_ini ini = {0};
  struct lls_error err = {0};
  char key[CTL_KEY_BYTES], listen[CTL_ADDRESS_BYTES];
  struct ctl_server server = {.address = a->address, .key = key, .model = a->model};
  bool has_ini = lls_ini_read(a->config, ignore_line, NULL, &ini, &err) == 0;
  char *socket = has_ini ? find_socket(a->config, &ini) : NULL;
  ctl_find_address(&ini, listen);
  if (server.address == NULL)
    server.address = socket;
  if (server.address == NULL)
    server.address = listen;
  int rc = ctl_find_key(a->key_file, has_ini ? &ini : NULL, key, &err);
  if (rc < 0)
    fprintf(stderr, "llmserve-ctl: %s\n", err.text);
  rc = rc < 0 ? EXIT_USAGE : carry_out(a, &server);
  lls_ini_free(&ini);
  free(socket);
  return rc;
}

/* Runs llmserve-whatif: the program beside this one, else the one in PATH. */
static int run_whatif(char **arguments)
{
  static char name[] = "llmserve-whatif";
  char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof name);
  char *last = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
  arguments[0] = name;
  if (last != NULL) {
    memcpy(last + 1, name, sizeof name);
    execv(path, arguments);
  }
  execvp(name, arguments);
  fprintf(stderr, "llmserve-ctl: %s does not exist: %s\n", name, strerror(errno));
  return EXIT_USAGE;
}

int main(int argc, char **argv)
{
  if (argc > 1 && strcmp(argv[1], "whatif") == 0)
    return run_whatif(argv + 1);
  const struct lls_installed default_config = lls_installed(DEFAULT_CONFIG);
  struct arguments arguments = {.config = default_config.path};
  if (parse(argc, argv, &arguments) < 0) {
    fputs("Usage: llmserve-ctl [-a HOST:PORT] [-c FILE] [-k FILE] COMMAND; see --help\n",
          stderr);
    return EXIT_USAGE;
  }
  if (strcmp(arguments.command, "help") == 0)
    printf(usage, default_config.path);
  else if (strcmp(arguments.command, "version") == 0)
    puts("llmserve-ctl " PACKAGE_VERSION);
  else
    return run(&arguments);
  return 0;
}
