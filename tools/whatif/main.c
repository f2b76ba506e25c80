/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line. Status 0: the question was answered; 1: it could not be; 2: wrong
 * usage or configuration; 3: nobody answers.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/whatif/candidate.h"
#include "tools/whatif/verdict.h"

#define EXIT_USAGE   2
#define EXIT_SILENCE 3

static const char usage[] =
    "Usage: llmserve-whatif [OPTION]...\n"
    "Which policies would have served the last minutes' requests best? Asks a running\n"
    "llmserve for its traffic ([server] history), simulates it with the policies that\n"
    "run, says how far that is from what was served, and then with others.\n"
    "\n"
    "  llmserve-whatif -c llmserve.ini --policies apt+hybrid,sarathi:chunk=128..512:128\n"
    "  llmserve-whatif -c llmserve.ini --history decisions.log --objective ttft_p99\n";

/* ---- comparing -------------------------------------------------------------------- */

static void tell_progress(const struct whatif_options *o, const char *name, size_t i,
                          size_t n)
{
  if (!o->quiet)
    fprintf(stderr, "llmserve-whatif: %zu of %zu: %s\n", i + 1, n, name);
}

/* Simulates all. The running policies must work; a candidate that does not is left out,
 * with its reason. */
static int simulate_all(const struct simulation *s, struct result *results, size_t n,
                        struct lls_error *err)
{
  for (size_t i = 0; i < n; i++) {
    struct result *r = &results[i];
    tell_progress(s->options, r->name, i, n);
    int rc = simulate(s, r->settings, &r->report, &r->why);
    if (rc < 0 && i == 0)
      return lls_fail(err, rc, "what runs cannot be simulated: %s", r->why.text);
  }
  return 0;
}

static int answer(const struct whatif_options *o, const struct verdict *v,
                  const struct result *results, size_t n, const struct traffic *t,
                  struct lls_error *err)
{
  verdict_print(v, results, n, t);
  if (o->json[0] == '\0')
    return 0;
  json_t *json = verdict_json(v, results, n, t);
  int rc = json == NULL ? lls_fail(err, -ENOMEM, "no memory for the answer")
           : json_dump_file(json, o->json, JSON_INDENT(1)) < 0
               ? lls_fail(err, -EIO, "%s: cannot be written", o->json)
               : 0;
  json_decref(json);
  return rc;
}

static int compare(const struct simulation *s, const struct candidates *all,
                   const struct traffic *t, const struct metric *objective,
                   struct lls_error *err)
{
  size_t n = all->n + 1;
  struct result *results = calloc(n, sizeof *results);
  if (results == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the results");
  results[0] = (struct result){.name = s->running->name, .settings = ""};
  for (size_t i = 0; i < all->n; i++)
    results[i + 1] =
        (struct result){.name = all->items[i].name, .settings = all->items[i].settings};
  int rc = simulate_all(s, results, n, err);
  if (rc == 0) {
    struct verdict v = judge(results, n, t, objective);
    rc = answer(s->options, &v, results, n, t, err);
  }
  for (size_t i = 0; i < n; i++)
    json_decref(results[i].report);
  free(results);
  return rc;
}

/* ---- one after the other ---------------------------------------------------------- */

static int with_profile(const struct whatif_options *o, const struct running *running,
                        const struct candidates *all, const struct traffic *t,
                        const char *folder, struct lls_error *err)
{
  const char *wanted = strcmp(o->objective, "auto") != 0 ? o->objective
                       : t->has_slos                     ? "goodput"
                                                         : "latency";
  const struct metric *objective = metric_find(wanted);
  char *profile;
  if (objective == NULL)
    return lls_fail(err, -EINVAL,
                    "--objective: expected one of those that --help lists, "
                    "found '%s'",
                    wanted);
  int rc = profile_find(o, running, &profile, err);
  if (rc < 0)
    return rc;
  const struct simulation s = {o, running, profile, folder};
  rc = compare(&s, all, t, objective, err);
  free(profile);
  return rc;
}

static int with_traffic(const struct whatif_options *o, const struct candidates *all,
                        const char *folder, struct lls_error *err)
{
  struct running running;
  struct traffic traffic;
  int rc = running_ask(o, folder, &running, err);
  if (rc < 0)
    return rc;
  rc = traffic_read(running.history, o->goodput, &traffic, err);
  if (rc == 0) {
    rc = with_profile(o, &running, all, &traffic, folder, err);
    traffic_free(&traffic);
  }
  running_free(&running);
  return rc;
}

static int run(const struct whatif_options *o, struct lls_error *err)
{
  char folder[] = "/tmp/llmserve-whatif-XXXXXX";
  struct candidates all;
  int rc = candidates_read(o->policies[0] != '\0' ? o->policies : WHATIF_DEFAULT_POLICIES,
                           &all, err);
  if (rc < 0)
    return rc;
  if (mkdtemp(folder) == NULL) {
    rc = lls_fail(err, -errno, "%s: cannot be made: %s", folder, strerror(errno));
  } else {
    rc = with_traffic(o, &all, folder, err);
    rmdir(folder);
  }
  candidates_free(&all);
  return rc;
}

/* The short options of llmserve-ctl. */
static void spell_out(int argc, char **argv)
{
  static char config[] = "--config", address[] = "--address", key[] = "--key-file";
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "-c") == 0)
      argv[i] = config;
    if (strcmp(argv[i], "-a") == 0)
      argv[i] = address;
    if (strcmp(argv[i], "-k") == 0)
      argv[i] = key;
  }
}

static int start(const struct whatif_options *o, const struct lls_bound_options *bound,
                 struct lls_error *err)
{
  if (o->version) {
    puts("llmserve-whatif " PACKAGE_VERSION);
    return 0;
  }
  if (!o->help)
    return run(o, err);
  fputs(usage, stdout);
  lls_options_help(bound, 1, stdout);
  return 0;
}

static int status_of(int rc)
{
  if (rc == -EINVAL || rc == -ERANGE || rc == -ENOENT || rc == -E2BIG)
    return EXIT_USAGE;
  return rc == -ECONNREFUSED || rc == -EADDRNOTAVAIL || rc == -ETIMEDOUT ? EXIT_SILENCE
                                                                         : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
  struct whatif_options options;
  const struct lls_bound_options bound = {&whatif_option_group, &options};
  struct lls_error err = {0};
  spell_out(argc, argv);
  int rc = lls_options_default(&bound, 1, &err);
  if (rc == 0) {
    rc = lls_options_parse(&bound, 1, argc, argv, &err);
    if (rc == 0)
      rc = start(&options, &bound, &err);
    lls_options_release(&bound, 1);
  }
  if (rc == 0)
    return EXIT_SUCCESS;
  fprintf(stderr, "llmserve-whatif: %s\n", lls_error_text(&err, rc));
  return status_of(rc);
}
