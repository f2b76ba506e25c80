/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llmserve-plugin-check: does a plugin keep its side of the contract (include/llmserve)?
 * Loads it as the daemon does and runs it in the daemon's own loop on the simulated
 * device. Prints TAP and a verdict. Status 0: fit; 1: not; 2: wrong usage.
 */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/installed.h"
#include "core/base/progress_bar.h"
#include "core/params/params.h"
#include "tools/plugin-check/checks.h"

#define EXIT_USAGE     2
#define MAX_PARAMETERS 32
/* more than the loads of a check, so that no two seeds share a load */
#define SEEDS_APART 1000
#define DONE        77 /* exit status of a child whose check completed */

static const char usage[] =
    "Usage: llmserve-plugin-check [OPTION]... FILE.so\n"
    "Checks that a plugin keeps the contract of <llmserve/...>: loads it, runs it under\n"
    "many loads on a simulated device, and says what is wrong with it.\n"
    "\n"
    "  -x, --fail-fast         make no more checks after one that fails\n"
    "      --only=WORDS        no check but that it loads and those with these words\n"
    "  -q, --quiet             print only checks that fail, and the verdict\n"
    "  -s, --set=KEY=VALUE     a parameter of the plugin, as in llmserve.ini\n"
    "      --scheduler=NAME    companion instead of fcfs and sarathi in turn\n"
    "      --cache=NAME        companion instead of paged and tiered\n"
    "      --predictor=NAME    companion instead of fixed\n"
    "      --drafter=NAME      companion instead of none\n"
    "      --seed=NUMBER       of the loads (1); each number makes others\n"
    "      --patience=TIME     CPU time of a check before it is taken to hang (2min)\n"
    "      --time-limit=TIME   of a decision among 1,600 requests (1ms); 0: report only\n"
    "  -h, --help              show this\n"
    "  -V, --version           show the version\n"
    "\n"
    "Prints TAP, then a verdict; on a terminal in colour, unless NO_COLOR is set. "
    "Status: 0 fit to serve, 1 not, 2 wrong usage.\n"
    "Companions are looked for in the folders of LLS_PLUGIN_PATH (separated by\n"
    "colons), then in\n%s.\n";

static const struct check checks[] = {
    {"its file's name, kind and id agree", check_name},
    {"it exports one symbol, and takes time and randomness from the host", check_symbols},
    {"every parameter can be set to its bounds", check_parameters},
    {"a request alone", check_alone},
    {"fuzzed loads", check_fuzz},
    {"a full pool", check_full},
    {"prompts with blocks in common", check_prefixes},
    {"cancelled requests", check_cancel},
    {"stopped with requests alive", check_abandon},
    {"sequences that move beside the steps", check_transfers},
    {"requests that move between instances", check_instances},
    {"layers with a sliding window", check_window},
    {"groups of layers of all kinds that it keeps", check_groups},
    {"guesses of texts that repeat themselves", check_drafts},
    {"the same seed, the same decisions", check_determinism},
    {"two instances side by side", check_side_by_side},
    {"nothing leaks", check_leaks},
    {"replaced by itself under load, with its state", check_reload},
    {"replaced by another under load, and back", check_exchange},
    {"reconfigured under load", check_reconfigure},
    {"state that is not its own", check_blobs},
    {"time of a decision", check_time},
};

#define N_CHECKS (sizeof checks / sizeof *checks)

/* ---- one check in a process of its own ---------------------------------------- */

struct outcome {
  uint32_t n_found;
  char found[FINDINGS_MAX + 2][1024];
  uint32_t n_notes;
  char notes[16][1024];
  char skipped[1024];
  char identity[256];
  bool hung, needs_roles;
};

static void keep(struct outcome *o, char *line)
{
  const char *text = line + 1;
  line[strcspn(line, "\n")] = '\0';
  if (line[0] == 'F' && o->n_found < FINDINGS_MAX + 1)
    snprintf(o->found[o->n_found++], sizeof o->found[0], "%s", text);
  else if (line[0] == 'N' && o->n_notes < 16)
    snprintf(o->notes[o->n_notes++], sizeof o->notes[0], "%s", text);
  else if (line[0] == 'S')
    snprintf(o->skipped, sizeof o->skipped, "%s", text);
  else if (line[0] == 'I')
    snprintf(o->identity, sizeof o->identity, "%s", text);
  else if (line[0] == 'R')
    o->needs_roles = true;
}

static void run_child(const struct check *check, const struct subject *s, int fd,
                      char *where)
{
  struct findings f = {.fd = fd, .where = where};
  rlim_t seconds = (rlim_t)(s->patience_ns / LLS_NS_PER_S) + 1;
  struct rlimit cpu = {seconds, seconds + 5}, core = {0, 0};
  setrlimit(RLIMIT_CPU, &cpu);
  setrlimit(RLIMIT_CORE, &core);
  alarm((unsigned)(2 * seconds)); /* for a plugin that waits without using CPU time */
  check->run(s, &f);
  if (f.n > FINDINGS_MAX) {
    uint32_t more = f.n - FINDINGS_MAX;
    f.n = 0;
    found(&f, "and %u more of this kind", more);
  }
  _exit(DONE);
}

/* Reports how the check's process ended, if it did not complete. */
static void judge_end(struct outcome *o, int status, const char *where)
{
  char *text = o->found[o->n_found];
  size_t size = sizeof o->found[0];
  const char *in = where[0] != '\0' ? where : "none of its callbacks";
  if (WIFSIGNALED(status)) {
    int signal = WTERMSIG(status);
    o->hung = signal == SIGXCPU || signal == SIGALRM || signal == SIGKILL;
    if (o->hung)
      snprintf(text, size, "hung in %s", in);
    else
      snprintf(text, size, "crashed in %s: %s", in, strsignal(signal));
    o->n_found++;
  } else if (WEXITSTATUS(status) != DONE) {
    snprintf(text, size, "ended the process in %s", in);
    o->n_found++;
  }
}

static void run_check(const struct check *check, const struct subject *s, char *where,
                      struct outcome *o)
{
  int ends[2], status = 0;
  *o = (struct outcome){0};
  where[0] = '\0';
  fflush(stdout);
  if (pipe(ends) < 0)
    abort();
  pid_t child = fork();
  if (child < 0)
    abort();
  if (child == 0) {
    close(ends[0]);
    run_child(check, s, ends[1], where);
  }
  close(ends[1]);
  char *line = NULL;
  size_t size = 0;
  FILE *from = fdopen(ends[0], "r");
  while (from != NULL && getline(&line, &size, from) >= 0)
    keep(o, line);
  free(line);
  if (from != NULL)
    fclose(from);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  judge_end(o, status, where);
}

/* ---- TAP ---------------------------------------------------------------------- */

static bool quiet;
/* Sequences of a terminal around what failed and what did not; empty elsewhere. */
static const char *red = "", *green = "", *plain = "";

static void choose_colours(void)
{
  if (!lls_terminal_colours(STDOUT_FILENO))
    return;
  red = "\033[31m", green = "\033[32m", plain = "\033[0m";
}

static void report(const char *name, uint32_t number, const struct outcome *o)
{
  if (quiet && o->n_found == 0)
    return;
  printf("%s%sok%s %u - %s", o->n_found > 0 ? red : green, o->n_found > 0 ? "not " : "",
         plain, number, name);
  if (o->n_found == 0 && o->skipped[0] != '\0')
    printf(" # SKIP %s", o->skipped);
  printf("\n");
  for (uint32_t i = 0; i < o->n_found; i++)
    printf("#   %s\n", o->found[i]);
  for (uint32_t i = 0; i < o->n_notes; i++)
    printf("# %s\n", o->notes[i]);
}

struct tally {
  uint32_t made, failed, skipped;
  char first[1200];
};

static void count(struct tally *t, const char *name, const struct outcome *o)
{
  t->made++;
  t->skipped += o->n_found == 0 && o->skipped[0] != '\0';
  if (o->n_found > 0 && t->failed++ == 0)
    snprintf(t->first, sizeof t->first, "%s: %s", name, o->found[0]);
}

static void verdict(const struct subject *s, const struct tally *t, const char *version)
{
  if (t->failed > 0)
    printf("# verdict: %s%s is not fit to serve%s: %u of %u checks failed; the first: "
           "%s\n",
           red, s->path, plain, t->failed, t->made, t->first);
  else
    printf("# verdict: %s%s %s %s keeps the contract%s: %u checks passed, %u did not "
           "apply\n",
           green, lls_plugin_kind_name(s->kind), s->id, version, plain,
           t->made - t->skipped, t->skipped);
}

/* Returns true if no further check is useful, as with a plugin that hangs. */
static bool is_over(const struct subject *s, const struct tally *t,
                    const struct outcome *o)
{
  if (o->hung)
    printf("# no more checks are made of what hangs\n");
  return o->hung || (s->fail_fast && t->failed > 0);
}

static int run_checks(struct subject *s, char *where)
{
  static const struct check loads = {"it loads: symbol, API version, tables, callbacks",
                                     check_loads};
  char id[64] = "", version[64] = "";
  struct tally t = {0};
  struct outcome o;
  run_check(&loads, s, where, &o);
  if (!quiet)
    printf("TAP version 13\n");
  report(loads.name, 1, &o);
  count(&t, loads.name, &o);
  sscanf(o.identity, "%u %63s %63s", &s->kind, id, version);
  s->id = id;
  s->needs_roles = o.needs_roles;
  for (uint32_t i = 0; i < N_CHECKS && s->kind != 0 && !is_over(s, &t, &o); i++) {
    if (s->only != NULL && strstr(checks[i].name, s->only) == NULL)
      continue;
    run_check(&checks[i], s, where, &o);
    report(checks[i].name, t.made + 1, &o);
    count(&t, checks[i].name, &o);
  }
  if (!quiet)
    printf("1..%u\n", t.made);
  verdict(s, &t, version);
  return t.failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Finds the companion plugins, without which no plugin can be judged. */
static int find_companions(const struct subject *s)
{
  struct lls_error err = {0};
  char path[PATH_MAX];
  for (uint32_t kind = LLS_KIND_SCHEDULER; kind <= LLS_KIND_DRAFTER; kind++)
    for (const char *const *name = companion_names(s, kind); *name != NULL; name++)
      if (lls_plugin_find(kind, *name, path, &err) < 0) {
        fprintf(stderr, "llmserve-plugin-check: %s (see --help)\n", err.text);
        return -1;
      }
  return 0;
}

/* ---- the simulated model ------------------------------------------------------ */

static const char config_json[] =
    "{\"architectures\": [\"OPTForCausalLM\"], \"model_type\": \"opt\",\n"
    " \"hidden_size\": 64, \"num_attention_heads\": 4, \"num_hidden_layers\": 2,\n"
    " \"ffn_dim\": 256, \"vocab_size\": 1000, \"max_position_embeddings\": 2048,\n"
    " \"word_embed_proj_dim\": 64, \"do_layer_norm_before\": true,\n"
    " \"activation_function\": \"relu\", \"eos_token_id\": 2, \"bos_token_id\": 2,\n"
    " \"torch_dtype\": \"float16\"}\n";

static int with_model(struct subject *s, char *where)
{
  char folder[] = "/tmp/llmserve-plugin-check-XXXXXX", path[64];
  if (mkdtemp(folder) == NULL) {
    fprintf(stderr, "llmserve-plugin-check: /tmp: %s\n", strerror(errno));
    return EXIT_FAILURE;
  }
  snprintf(path, sizeof path, "%s/config.json", folder);
  FILE *file = fopen(path, "w");
  int status = EXIT_FAILURE;
  if (file != NULL && fputs(config_json, file) >= 0 && fclose(file) == 0) {
    s->model = folder;
    status = run_checks(s, where);
  }
  unlink(path);
  rmdir(folder);
  return status;
}

/* ---- the command line --------------------------------------------------------- */

struct arguments {
  const char *parameters[2 * MAX_PARAMETERS + 1];
  uint32_t n_parameters;
  struct subject subject;
};

static int set_parameter(struct arguments *a, char *text)
{
  char *equals = strchr(text, '=');
  if (equals == NULL || a->n_parameters == MAX_PARAMETERS) {
    fprintf(stderr, "llmserve-plugin-check: --set=%s: expected KEY=VALUE\n", text);
    return -1;
  }
  *equals = '\0';
  a->parameters[2 * a->n_parameters] = text;
  a->parameters[2 * a->n_parameters + 1] = equals + 1;
  a->n_parameters++;
  return 0;
}

static int set_number(const char *name, uint32_t type, const char *text, int64_t *out)
{
  const struct lls_param p = {.name = name,
                              .type = type,
                              .default_value = "0",
                              .max = 1e15,
                              .unit = "",
                              .sentence = name};
  struct lls_error err = {0};
  if (lls_param_bind(&p, text, NULL, out, &err) == 0)
    return 0;
  fprintf(stderr, "llmserve-plugin-check: --%s: %s\n", name, err.text);
  return -1;
}

/* Returns 0: continue; 1: done; -1: wrong usage. */
static int take(struct arguments *a, int option, char *value)
{
  int64_t number = 0;
  switch (option) {
  case 'x':
    a->subject.fail_fast = true;
    return 0;
  case 'q':
    quiet = true;
    return 0;
  case 'o':
    a->subject.only = value;
    return 0;
  case 's':
    return set_parameter(a, value);
  case 'S':
  case 'C':
  case 'P':
  case 'D':
    a->subject.companions[option == 'S'   ? LLS_KIND_SCHEDULER
                          : option == 'C' ? LLS_KIND_CACHE
                          : option == 'D' ? LLS_KIND_DRAFTER
                                          : LLS_KIND_PREDICTOR][0] = value;
    return 0;
  case 'n':
    if (set_number("seed", LLS_TYPE_INT, value, &number) < 0)
      return -1;
    a->subject.seed = ((uint64_t)number - 1) * SEEDS_APART + 1;
    return 0;
  case 't':
    return set_number("time-limit", LLS_TYPE_DURATION, value, &a->subject.time_limit_ns);
  case 'w':
    return set_number("patience", LLS_TYPE_DURATION, value, &a->subject.patience_ns);
  case 'h':
    printf(usage, lls_installed(LLS_PLUGIN_DIR).path);
    return 1;
  case 'V':
    puts("llmserve-plugin-check " PACKAGE_VERSION);
    return 1;
  default:
    return -1;
  }
}

static int parse(int argc, char **argv, struct arguments *a)
{
  static const struct option options[] = {
      {"set", required_argument, NULL, 's'},
      {"scheduler", required_argument, NULL, 'S'},
      {"cache", required_argument, NULL, 'C'},
      {"predictor", required_argument, NULL, 'P'},
      {"drafter", required_argument, NULL, 'D'},
      {"seed", required_argument, NULL, 'n'},
      {"time-limit", required_argument, NULL, 't'},
      {"patience", required_argument, NULL, 'w'},
      {"quiet", no_argument, NULL, 'q'},
      {"fail-fast", no_argument, NULL, 'x'},
      {"only", required_argument, NULL, 'o'},
      {"help", no_argument, NULL, 'h'},
      {"version", no_argument, NULL, 'V'},
      {NULL, 0, NULL, 0},
  };
  for (int c; (c = getopt_long(argc, argv, "xqs:hV", options, NULL)) != -1;) {
    int rc = take(a, c, optarg);
    if (rc != 0)
      return rc;
  }
  if (optind + 1 == argc)
    return 0;
  fprintf(stderr, "llmserve-plugin-check: expected one file\n");
  return -1;
}

int main(int argc, char **argv)
{
  struct arguments a = {
      .subject = {.seed = 1,
                  .time_limit_ns = LLS_NS_PER_S / 1000,
                  .patience_ns = 120 * LLS_NS_PER_S},
  };
  char path[PATH_MAX];
  int rc = parse(argc, argv, &a);
  if (rc > 0)
    return EXIT_SUCCESS;
  if (rc < 0) {
    fputs("Try 'llmserve-plugin-check --help'.\n", stderr);
    return EXIT_USAGE;
  }
  /* without a '/' it would name an installed plugin */
  snprintf(path, sizeof path, "%s%s", strchr(argv[optind], '/') == NULL ? "./" : "",
           argv[optind]);
  a.subject.path = path;
  a.subject.parameters = a.parameters;
  if (find_companions(&a.subject) < 0)
    return EXIT_USAGE;
  choose_colours();
  char *where =
      mmap(NULL, WHERE_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return where == MAP_FAILED ? EXIT_FAILURE : with_model(&a.subject, where);
}
