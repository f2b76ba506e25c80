/* SPDX-License-Identifier: Apache-2.0 */
/* See decisions.h. */
#include "tools/sim/decisions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static FILE *open_file(const char *path, const char *mode, struct lls_error *err)
{
  FILE *f = fopen(path, mode);
  if (f == NULL)
    lls_fail(err, -errno, "%s: cannot open: %s", path, strerror(errno));
  return f;
}

int lls_decisions_open(struct lls_decisions *d, const char *record, const char *against,
                       struct lls_error *err)
{
  *d = (struct lls_decisions){.against_path = against, .slots = 1};
  if (against[0] != '\0' && (d->against = open_file(against, "re", err)) == NULL)
    return -errno;
  if (record[0] != '\0' && (d->record = open_file(record, "we", err)) == NULL) {
    int rc = -errno;
    lls_decisions_close(d, NULL);
    return rc;
  }
  return 0;
}

static void end_repeats(struct lls_decisions *d)
{
  if (d->record != NULL && d->repeated > 0)
    fprintf(d->record, "=%" PRIu64 "\n", d->repeated);
  d->repeated = 0;
}

int lls_decisions_close(struct lls_decisions *d, struct lls_error *err)
{
  int rc = 0;
  end_repeats(d);
  if (d->against != NULL)
    fclose(d->against);
  if (d->record != NULL) {
    bool good = ferror(d->record) == 0;
    if (fclose(d->record) != 0 || !good)
      rc = lls_fail(err, -EIO, "the decision log could not be written");
  }
  lls_text_free(&d->plan);
  lls_text_free(&d->previous);
  lls_text_free(&d->expected);
  lls_text_free(&d->other);
  d->record = d->against = NULL;
  return rc;
}

/* ---- writing
 * ---------------------------------------------------------------------------- */

static uint64_t number_of(const struct lls_decisions *d, uint64_t id)
{
  return id / d->slots;
}

void lls_decisions_arrival(struct lls_decisions *d, const struct lls_request *r)
{
  if (d->record == NULL)
    return;
  end_repeats(d);
  lls_text_clear(&d->previous); /* so that the next plan is written out */
  fprintf(d->record, "A %" PRIu64 " %" PRId64 " %u %u %u %d %u\n", number_of(d, r->id),
          r->arrival_ns, r->prompt_tokens, r->max_new_tokens, r->request_class,
          r->priority, r->tenant);
}

static int by_request(const void *a, const void *b)
{
  const struct lls_plan_item *x = a, *y = b;
  return (x->request > y->request) - (x->request < y->request);
}

static void write_item(struct lls_decisions *d, const struct lls_plan_item *item)
{
  uint64_t number = number_of(d, item->request);
  switch (item->kind) {
  case LLS_PLAN_RUN:
    lls_text_printf(&d->plan, " r%" PRIu64 ":%u", number, item->tokens);
    break;
  case LLS_PLAN_PREEMPT:
    lls_text_printf(&d->plan, " p%" PRIu64 ":%u", number, item->mode);
    break;
  case LLS_PLAN_REJECT:
    lls_text_printf(&d->plan, " x%" PRIu64 ":%u", number, item->reason);
    break;
  default:
    lls_text_printf(&d->plan, " %u,%" PRIu64, item->kind, number);
  }
}

/* By request, so that two schedulers that only list them in another order are alike. */
static void write_items(struct lls_decisions *d, const struct lls_plan *plan)
{
  struct lls_plan_item *items = malloc(plan->n_items * sizeof *items);
  lls_text_clear(&d->plan);
  if (items == NULL)
    return;
  memcpy(items, plan->items, plan->n_items * sizeof *items);
  qsort(items, plan->n_items, sizeof *items, by_request);
  for (uint32_t i = 0; i < plan->n_items; i++)
    write_item(d, &items[i]);
  free(items);
}

static bool alike(const struct lls_text *a, const struct lls_text *b)
{
  return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

static void record(struct lls_decisions *d, int64_t now_ns)
{
  if (d->previous.length > 0 && alike(&d->plan, &d->previous)) {
    d->repeated++;
    return;
  }
  end_repeats(d);
  fprintf(d->record, "P %" PRId64 "%s\n", now_ns, d->plan.data);
  lls_text_clear(&d->previous);
  lls_text_append(&d->previous, d->plan.data, d->plan.length);
}

/* ---- comparing
 * -------------------------------------------------------------------------- */

/* The log's next plan into expected; its time, LLS_NEVER for a repeat. False at the end.
 */
static bool next_plan(struct lls_decisions *d, int64_t *time_ns)
{
  char *line = NULL;
  size_t room = 0;
  bool found = false;
  *time_ns = LLS_NEVER;
  if (d->left > 0) {
    d->left--;
    return true;
  }
  for (ssize_t n; !found && (n = getline(&line, &room, d->against)) > 0;) {
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == 'P' && line[1] == ' ') {
      char *items;
      *time_ns = strtoll(line + 2, &items, 10);
      lls_text_clear(&d->expected);
      lls_text_puts(&d->expected, items);
      found = true;
    } else if (line[0] == '=') {
      d->left = strtoull(line + 1, NULL, 10);
      found = d->left > 0;
      d->left -= found;
    }
  }
  free(line);
  return found;
}

static void compare(struct lls_decisions *d, int64_t now_ns)
{
  int64_t time_ns;
  bool more = next_plan(d, &time_ns);
  if (!more)
    lls_text_clear(&d->expected);
  if (more && alike(&d->plan, &d->expected) &&
      (time_ns == LLS_NEVER || time_ns == now_ns)) {
    d->compared++;
    return;
  }
  d->parted = true;
  d->parted_ns = now_ns;
  lls_text_append(&d->other, d->plan.data, d->plan.length);
}

void lls_decisions_plan(struct lls_decisions *d, int64_t now_ns,
                        const struct lls_plan *plan)
{
  bool comparing = d->against != NULL && !d->parted;
  if (plan->n_items == 0 || (d->record == NULL && !comparing))
    return;
  write_items(d, plan);
  if (d->record != NULL)
    record(d, now_ns);
  if (comparing)
    compare(d, now_ns);
}

/* ---- telling
 * ----------------------------------------------------------------------------- */

static const char *items_of(const struct lls_text *text)
{
  return text->length > 0 ? text->data + 1 : "nothing any more";
}

void lls_decisions_print(const struct lls_decisions *d, FILE *out)
{
  if (d->against == NULL)
    return;
  if (!d->parted) {
    fprintf(out, "Decisions: all %" PRIu64 " plans are those of %s\n", d->compared,
            d->against_path);
    return;
  }
  fprintf(out,
          "Decisions: %" PRIu64 " plans are those of %s, then at %.6f s they part\n"
          "  there: %.500s\n  here:  %.500s\n",
          d->compared, d->against_path, (double)d->parted_ns * 1e-9,
          items_of(&d->expected), items_of(&d->other));
}

json_t *lls_decisions_json(const struct lls_decisions *d)
{
  if (d->against == NULL)
    return NULL;
  json_t *json =
      json_pack("{s:I, s:b}", "alike", (json_int_t)d->compared, "parted", d->parted);
  if (json != NULL && d->parted) {
    json_object_set_new(json, "parted_s", json_real((double)d->parted_ns * 1e-9));
    json_object_set_new(json, "there", json_string(items_of(&d->expected)));
    json_object_set_new(json, "here", json_string(items_of(&d->other)));
  }
  return json;
}
