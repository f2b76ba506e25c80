/* SPDX-License-Identifier: Apache-2.0 */
/* A test's queries to a bed: figures of policies, and findings of the watch; see
 * bed.h. */
#include "t/tap.h"

#include "t/plugin/bed.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static void append(struct bed *bed, const char *text, size_t n)
{
  if (bed->text_length + n + 1 > bed->text_capacity) {
    bed->text_capacity = 2 * bed->text_capacity + n + 4096;
    bed->text = realloc(bed->text, bed->text_capacity);
    assert_non_null(bed->text);
  }
  memcpy(bed->text + bed->text_length, text, n);
  bed->text_length += n;
  bed->text[bed->text_length] = '\0';
}

/* Replaces "request ID" by "request NUMBER". */
static void sink_text(void *context, const char *line)
{
  static const char word[] = "request ";
  struct bed *bed = context;
  const char *at = strstr(line, word), *digits = at != NULL ? at + strlen(word) : line;
  char *rest;
  unsigned long long id = strtoull(digits, &rest, 10);
  if (at != NULL && rest > digits && id >= bed->in->table->slots) {
    char number[16];
    snprintf(number, sizeof number, "%u", bed_number(bed, id));
    append(bed, line, (size_t)(digits - line));
    append(bed, number, strlen(number));
    line = rest;
  }
  append(bed, line, strlen(line));
  append(bed, "\n", 1);
}

static void sink_number(void *context, const char *name, double value)
{
  char line[128];
  snprintf(line, sizeof line, "%s %.17g", name, value);
  sink_text(context, line);
}

/* Begins with an empty line, so that each line follows the end of another one. */
static struct lls_sink sink_of(struct bed *bed)
{
  lls_sim_advance(bed->harness.device, bed->now_ns);
  bed->text_length = 0;
  sink_text(bed, "");
  return (struct lls_sink){bed, sink_number, sink_text};
}

int bed_audit(struct bed *bed)
{
  struct lls_sink sink = sink_of(bed);
  return bed->c->audit(bed->cache_self, &sink);
}

void bed_dump(struct bed *bed)
{
  struct lls_sink sink = sink_of(bed);
  bed->s->dump(bed->scheduler_self, &sink);
}

void bed_stats(struct bed *bed)
{
  struct lls_sink sink = sink_of(bed);
  if (bed->s->stats != NULL)
    bed->s->stats(bed->scheduler_self, &sink);
  if (bed->c->stats != NULL)
    bed->c->stats(bed->cache_self, &sink);
  for (uint32_t kind = 0; kind < LLS_KINDS; kind++) {
    const struct lls_policy_host *host = bed->in->policies.by_kind[kind].host;
    for (uint32_t i = 0; i < host->n_counters; i++)
      sink_number(bed, host->counters[i].name, host->counters[i].value);
  }
}

double bed_figure(struct bed *bed, const char *name)
{
  char wanted[64];
  snprintf(wanted, sizeof wanted, "\n%s ", name);
  bed_stats(bed);
  const char *found = strstr(bed->text, wanted);
  return found != NULL ? strtod(found + strlen(wanted), NULL) : NAN;
}

const char *bed_found(struct bed *bed)
{
  ssize_t n = pread(bed->findings.fd, bed->found, sizeof bed->found - 1, 0);
  bed->found[n > 0 ? n : 0] = '\0';
  return bed->found;
}

bool bed_complains(struct bed *bed)
{
  bed_found(bed);
  return !bed->broken &&
         (bed->o.misbehaves ? strstr(bed->found, "takes exception") != NULL
                            : bed->found[0] != '\0');
}

void bed_forgive(struct bed *bed)
{
  assert_int_equal(ftruncate(bed->findings.fd, 0), 0);
  lseek(bed->findings.fd, 0, SEEK_SET);
  bed->findings.n = 0;
}
