/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of llmserve-whatif. Exit status 0: the question was answered; 1: it
 * could not be; 2: wrong usage or configuration; 3: no server answers.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/whatif/question.h"

#define EXIT_USAGE   2
#define EXIT_SILENCE 3

static const char usage[] =
    "Usage: llmserve-whatif [OPTION]...\n"
    "Which policies would have served the last minutes' requests best? Asks a running\n"
    "llmserve for its traffic ([server] history), simulates it with the policies that\n"
    "run, says how far that is from what was served, and then with others.\n"
    "\n"
    "  llmserve-whatif -c llmserve.ini --policies apt+hybrid,sarathi:chunk=128..512:128\n"
    "  llmserve-whatif -c llmserve.ini --history decisions.log --objective ttft_p99\n"
    "  llmserve-whatif -c llmserve.ini --policies apt+hybrid,alise --apply\n"
    "  llmserve-whatif -c llmserve.ini --watch 10min --notify\n";

static int ask(const struct whatif_options *o, const struct lls_candidates *all,
               struct lls_error *err)
{
  struct answered a;
  if (o->watch > 0)
    return question_watch(o, all, err);
  int rc = question_ask(o, all, &a, err);
  if (rc == 0 && o->apply && a.best != NULL)
    rc = question_apply(o, a.settings, err);
  answered_free(&a);
  return rc;
}

static int run(const struct whatif_options *o, struct lls_error *err)
{
  struct lls_candidates all;
  if (o->apply && (o->watch > 0 || o->history[0] != '\0'))
    return lls_fail(err, -EINVAL,
                    "--apply is for a server that is asked once; [server] autopilot is "
                    "for one that chooses by itself");
  if (o->running[0] != '\0' && o->history[0] == '\0')
    return lls_fail(err, -EINVAL, "--running is of no use without --history");
  int rc = lls_candidates_read(
      o->policies[0] != '\0' ? o->policies : WHATIF_DEFAULT_POLICIES, false, &all, err);
  if (rc < 0)
    return lls_fail_at(err, rc, "--policies");
  rc = ask(o, &all, err);
  lls_candidates_free(&all);
  return rc;
}

/* Replaces the short options that llmserve-ctl also has by their long forms. */
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
