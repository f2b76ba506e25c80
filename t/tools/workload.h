/* SPDX-License-Identifier: Apache-2.0 */
/* A workload from a command line, for tests. */
#ifndef LLS_T_TOOLS_WORKLOAD_H
#define LLS_T_TOOLS_WORKLOAD_H

#include <string.h>

#include "t/folder.h"
#include "t/tap.h"
#include "tools/workload/workload.h"

#define MAX_ARGUMENTS 32
#define LINE_MAX_LEN  8192

/* Builds a workload from arguments separated by spaces; *err gets an error. */
static inline int build(const char *line, struct lls_workload *out, struct lls_error *err)
{
  struct lls_workload_options options;
  struct lls_bound_options bound = {&lls_workload_option_group, &options};
  char copy[2 * LINE_MAX_LEN], *argv[MAX_ARGUMENTS] = {"test"};
  int argc = 1;
  snprintf(copy, sizeof copy, "%s", line);
  for (char *at = strtok(copy, " "); at != NULL; at = strtok(NULL, " "))
    argv[argc++] = at;
  *err = (struct lls_error){0};
  assert_int_equal(lls_options_default(&bound, 1, err), 0);
  int rc = lls_options_parse(&bound, 1, argc, argv, err);
  if (rc == 0)
    rc = lls_workload_build(&options, out, err);
  lls_options_release(&bound, 1);
  return rc;
}

static inline struct lls_workload built(const char *line)
{
  struct lls_workload workload;
  struct lls_error err;
  int rc = build(line, &workload, &err);
  if (rc != 0)
    fail_msg("%s: %s", line, err.text);
  return workload;
}

/* Builds it from a file of t/data/traces, with further arguments. */
static inline struct lls_workload from_file(const char *file, const char *more)
{
  char line[2 * LINE_MAX_LEN], name[128];
  snprintf(name, sizeof name, "t/data/traces/%s", file);
  snprintf(line, sizeof line, "--trace %s %s", source_path(name), more);
  return built(line);
}

/* Writes a file into the folder; the error of reading it names the file, and says what is
 * expected. */
static inline void refuse(const struct folder *f, const char *name, const char *text,
                          const char *expected)
{
  struct lls_workload w;
  struct lls_error err;
  char line[256];
  folder_write_text(f, name, text);
  snprintf(line, sizeof line, "--trace %s/%s", f->path, name);
  if (build(line, &w, &err) == 0) {
    lls_workload_free(&w);
    fail_msg("taken: %s", text);
  }
  if (strstr(err.text, expected) == NULL || strstr(err.text, name) == NULL)
    fail_msg("'%s' does not say '%s'", err.text, expected);
}

#endif
