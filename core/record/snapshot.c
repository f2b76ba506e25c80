/* SPDX-License-Identifier: Apache-2.0 */
/* See snapshot.h. */
#include "core/record/snapshot.h"

#include <stdio.h>
#include <string.h>

#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/plugin/loader.h"

static void on_text(void *context, const char *line)
{
  struct lls_snapshot *q = context;
  size_t room = sizeof q->lines - q->length,
         n = line != NULL ? strnlen(line, room) : room;
  if (q->lines_left_out > 0 || n + 1 > room) {
    q->lines_left_out++;
    return;
  }
  memcpy(q->lines + q->length, line, n);
  q->lines[q->length + n] = '\n';
  q->length += n + 1;
}

static void on_number(void *context, const char *name, double value)
{
  char line[128];
  snprintf(line, sizeof line, "%.64s %.9g", name != NULL ? name : "(NULL)", value);
  on_text(context, line);
}

static void count_list(struct lls_snapshot *q, const struct lls_request_list *list,
                       const char *state)
{
  struct lls_snapshot_count *count = &q->counts[q->n_counts++];
  *count = (struct lls_snapshot_count){.state = state};
  for (uint32_t i = 0; i < list->n; i++) {
    uint32_t class = list->items[i]->request_class;
    count->by_class[class <= LLS_CLASS_BEST_EFFORT ? class : LLS_CLASS_NONE]++;
  }
}

static void show_list(struct lls_instance *in, struct lls_snapshot *q,
                      const struct lls_request_list *list, const char *state,
                      int64_t now_ns)
{
  count_list(q, list, state);
  for (uint32_t i = 0; i < list->n; i++) {
    const struct lls_request *r = list->items[i];
    if (q->n == LLS_SNAPSHOT_REQUESTS) {
      q->n_left_out += list->n - i;
      return;
    }
    struct lls_snapshot_request *out = &q->requests[q->n++];
    struct lls_cache_info info;
    lls_cache_info(in, r, &info);
    bool predicted = r->prediction.source != LLS_PREDICTED_NOT;
    *out = (struct lls_snapshot_request){
        .id = r->id,
        .state = state,
        .request_class = r->request_class,
        .tenant = r->tenant,
        .prompt_tokens = r->prompt_tokens,
        .generated_tokens = r->generated_tokens,
        .cached_tokens = r->cached_tokens,
        .preemptions = r->preemptions,
        .device_units = info.device_units,
        .host_units = info.host_units,
        .owned_units = info.owned_units,
        .form = info.form,
        .predicted_tokens = predicted ? r->prediction.length : 0,
        .priority = r->priority,
        .arrival_ns = r->arrival_ns,
        .alive_ns = now_ns - r->arrival_ns,
        .life = lls_live_of(r)->life,
    };
    snprintf(out->label, sizeof out->label, "%s", r->label);
  }
}

/* Adds a line with the scheduler's description of its order, before the lines of its
 * dump. */
static void on_order(struct lls_snapshot *q, const struct lls_policies *p)
{
  char line[256];
  snprintf(line, sizeof line, "order: %.200s",
           p->scheduler_off ? "the built-in one: first come, first served"
                            : p->scheduler.module->descriptor->description);
  on_text(q, line);
}

void lls_snapshot_take(struct lls_instance *in, struct lls_snapshot *q)
{
  struct lls_policies *p = &in->policies;
  const struct lls_sink sink = {.context = q, .number = on_number, .text = on_text};
  int64_t now_ns = lls_instance_now(in);
  LLS_ON_STEP(in);
  q->n = q->n_left_out = q->n_counts = q->lines_left_out = 0;
  q->length = 0;
  memcpy(q->scheduler, p->scheduler.host->name_text, sizeof q->scheduler);
  q->built_in = p->scheduler_off;
  show_list(in, q, &in->running, "running", now_ns);
  show_list(in, q, &in->moving, "moving", now_ns);
  show_list(in, q, &in->preempted, "preempted", now_ns);
  show_list(in, q, &in->waiting, "waiting", now_ns);
  show_list(in, q, &in->migration.incoming, "offered", now_ns);
  show_list(in, q, &in->reading, "reading", now_ns);
  on_order(q, p);
  if (LLS_SCHEDULER_HAS(p, dump))
    LLS_CALL(p, scheduler, dump, &sink);
  atomic_store(&q->ready, true);
  in->answered = true;
}
