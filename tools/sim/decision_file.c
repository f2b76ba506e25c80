/* SPDX-License-Identifier: Apache-2.0 */
/* See decision_file.h. */
#include "tools/sim/decision_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int lls_decision_file_open(struct lls_decision_file *f, const char *path,
                           struct lls_error *err)
{
  *f = (struct lls_decision_file){.path = path, .file = fopen(path, "re")};
  return f->file != NULL
             ? 0
             : lls_fail(err, -errno, "%s: cannot open: %s", path, strerror(errno));
}

void lls_decision_file_close(struct lls_decision_file *f)
{
  if (f->file != NULL)
    fclose(f->file);
  free(f->text);
  *f = (struct lls_decision_file){0};
}

static bool read_header(const char *text, struct lls_decision_line *out)
{
  int end = 0;
  unsigned version;
  if (sscanf(text, "H %u %n", &version, &end) != 1 || end == 0 || version != 1)
    return false;
  out->rest = text + end;
  return true;
}

static int64_t slo_of(int64_t ns)
{
  return ns < 0 ? LLS_NEVER : ns;
}

static bool read_arrival(const char *text, struct lls_decision_line *out)
{
  struct lls_request *r = &out->asked;
  int64_t slo[4];
  uint32_t group;
  int end = 0;
  *r = (struct lls_request){.tenant = 0};
  int n = sscanf(text,
                 "A %" SCNu64 " %" SCNd64 " %u %u %u %d %u %" SCNd64 " %" SCNd64
                 " %" SCNd64 " %" SCNd64 " %u%n",
                 &out->number, &out->time_ns, &r->prompt_tokens, &r->max_new_tokens,
                 &r->request_class, &r->priority, &r->tenant, &slo[0], &slo[1], &slo[2],
                 &slo[3], &group, &end);
  if (n != 12 || r->prompt_tokens == 0 || r->max_new_tokens == 0)
    return false;
  r->slo = (struct lls_slo){.ttft_ns = slo_of(slo[0]),
                            .tbt_ns = slo_of(slo[1]),
                            .tpot_ns = slo_of(slo[2]),
                            .completion_ns = slo_of(slo[3]),
                            .group = group};
  out->rest = text + end;
  return true;
}

static bool read_plan(struct lls_decision_file *f, struct lls_decision_line *out)
{
  int end = 0;
  if (sscanf(f->text, "P %" SCNd64 " %" SCNd64 "%n", &out->time_ns, &out->duration_ns,
             &end) != 2)
    return false;
  lls_text_clear(&out->items);
  lls_text_puts(&out->items, f->text + end);
  f->planned_ns = out->time_ns;
  return out->items.length > 0;
}

static bool read_repeat(struct lls_decision_file *f, struct lls_decision_line *out)
{
  int64_t after;
  if (out->items.length == 0 ||
      sscanf(f->text, "= %" SCNd64 " %" SCNd64, &after, &out->duration_ns) != 2)
    return false;
  out->kind = 'P';
  if (__builtin_add_overflow(f->planned_ns, after, &f->planned_ns))
    return false;
  out->time_ns = f->planned_ns;
  return true;
}

static bool read_end(const char *text, struct lls_decision_line *out)
{
  return sscanf(text, "E %" SCNu64 " %u %u", &out->number, &out->generated,
                &out->reason) == 3;
}

int lls_decision_file_next(struct lls_decision_file *f, struct lls_decision_line *out,
                           struct lls_error *err)
{
  ssize_t length = getline(&f->text, &f->room, f->file);
  if (length < 0)
    return 0;
  f->line++;
  f->text[strcspn(f->text, "\n")] = '\0';
  out->kind = f->text[0];
  bool good = out->kind == 'H'   ? read_header(f->text, out)
              : out->kind == 'A' ? read_arrival(f->text, out)
              : out->kind == 'P' ? read_plan(f, out)
              : out->kind == '=' ? read_repeat(f, out)
                                 : out->kind == 'E' && read_end(f->text, out);
  return good ? 1
              : lls_fail(err, -EINVAL,
                         "%s:%" PRIu64 ": expected a line of a decision log (version 1), "
                         "found '%.60s'",
                         f->path, f->line, f->text);
}
