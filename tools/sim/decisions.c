/* SPDX-License-Identifier: Apache-2.0 */
/* Compares plans with a decision log; see decisions.h. */
#include "tools/sim/decisions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int lls_decisions_open(struct lls_decisions *d, const char *record, const char *against,
                       uint32_t max_requests, struct lls_error *err)
{
  const struct lls_decision_log_options o = {
      .path = record, .max_requests = max_requests, .wait = true};
  *d = (struct lls_decisions){.comparing = against[0] != '\0'};
  int rc = d->comparing ? lls_decision_file_open(&d->against, against, err) : 0;
  if (rc == 0)
    rc = lls_decision_numbers_init(&d->numbers, max_requests);
  if (rc == 0 && record[0] != '\0')
    rc = lls_decision_log_create(&o, &d->record, err);
  if (rc < 0)
    lls_decisions_close(d, NULL);
  return rc;
}

int lls_decisions_close(struct lls_decisions *d, struct lls_error *err)
{
  int rc = lls_decision_log_destroy(d->record, err);
  if (rc == 0 && d->failed < 0)
    rc = lls_fail(err, d->failed, "%s", d->why.text);
  lls_decision_file_close(&d->against);
  lls_decision_numbers_free(&d->numbers);
  lls_text_free(&d->plan);
  lls_text_free(&d->expected.items);
  lls_text_free(&d->other);
  *d = (struct lls_decisions){0};
  return rc;
}

void lls_decisions_arrival(struct lls_decisions *d, const struct lls_request *r)
{
  lls_decision_number_new(&d->numbers, r->id);
  if (d->record != NULL)
    lls_decision_log_arrival(d->record, r);
}

static bool alike(const struct lls_text *a, const struct lls_text *b)
{
  return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

bool lls_decisions_compare(struct lls_decisions *d, int64_t now_ns,
                           const struct lls_plan *plan)
{
  lls_decision_items(&d->numbers, plan, &d->plan);
  if (d->compared == 0)
    d->first_ns = now_ns;
  if (alike(&d->plan, &d->expected.items) && d->expected.time_ns == now_ns) {
    d->compared++;
    return true;
  }
  d->parted = true;
  d->parted_ns = now_ns - d->first_ns;
  lls_text_append(&d->other, d->plan.data, d->plan.length);
  return false;
}

/* Reads the log's next plan into `expected`; after its end no plan is expected. */
static int next_plan(struct lls_decisions *d)
{
  int rc = 1;
  d->expected.kind = '\0';
  while (rc > 0 && d->expected.kind != 'P')
    rc = lls_decision_file_next(&d->against, &d->expected, &d->why);
  if (rc == 0)
    lls_text_clear(&d->expected.items);
  return rc;
}

void lls_decisions_plan(struct lls_decisions *d, int64_t now_ns,
                        const struct lls_plan *plan)
{
  if (d->record != NULL)
    lls_decision_log_plan(d->record, now_ns, plan);
  if (!d->comparing || d->parted || d->failed < 0 || plan->n_items == 0)
    return;
  int rc = next_plan(d);
  if (rc < 0)
    d->failed = rc;
  else
    lls_decisions_compare(d, now_ns, plan);
}

/* ---- telling ----------------------------------------------------------------------- */

static const char *items_of(const struct lls_text *text)
{
  return text->length > 0 ? text->data + 1 : "nothing";
}

void lls_decisions_print(const struct lls_decisions *d, FILE *out)
{
  if (!d->comparing)
    return;
  if (!d->parted) {
    fprintf(out, "Decisions: all %" PRIu64 " plans are those of %s\n", d->compared,
            d->against.path);
    return;
  }
  fprintf(out,
          "Decisions: %" PRIu64
          " plans are those of %s; %.6f s after the first they part\n"
          "  there: %.500s\n  here:  %.500s\n",
          d->compared, d->against.path, (double)d->parted_ns * 1e-9,
          items_of(&d->expected.items), items_of(&d->other));
}

json_t *lls_decisions_json(const struct lls_decisions *d)
{
  if (!d->comparing)
    return NULL;
  json_t *json =
      json_pack("{s:I, s:b}", "alike", (json_int_t)d->compared, "parted", d->parted);
  if (json != NULL && d->parted) {
    json_object_set_new(json, "parted_s", json_real((double)d->parted_ns * 1e-9));
    json_object_set_new(json, "there", json_string(items_of(&d->expected.items)));
    json_object_set_new(json, "here", json_string(items_of(&d->other)));
  }
  return json;
}
