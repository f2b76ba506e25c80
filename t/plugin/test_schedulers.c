/* SPDX-License-Identifier: Apache-2.0 */
/* The common behaviour of all shipped schedulers: reconfigure, dump, and recovery after
 * plans that were not carried out. */
#include "t/tap.h"

#include <math.h>

#include "t/plugin/script.h"
#include "t/shipped.h"

/* Schedulers that do not work in this rig, a single mixed instance. */
static const struct left_out left_out[] = {
    {"distserve", "hands requests over between instances; t/plugin/test_distserve.c"},
};
static struct shipped schedulers;

static int find_schedulers(void **state)
{
  (void)state;
  return shipped_find_but(LLS_KIND_SCHEDULER, left_out,
                          sizeof left_out / sizeof *left_out, &schedulers)
             ? 0
             : -1;
}

static const struct bed_options defaults = {
    .cache = {"paged", NULL},
    .block_tokens = 16,
    .device_units = 200,
    .max_tokens = 512,
    .max_sequences = 16,
    .max_context = 320,
    .max_requests = 64,
    .audit_every = 1,
};

static void open_scheduler(struct bed *bed, const char *name)
{
  struct bed_options o = defaults;
  o.scheduler.name = name;
  assert_int_equal(bed_open(bed, &o), 0);
}

/* Sets the parameter to a valid value other than its default. Text parameters of
 * schedulers are weights by name. */
static void change(const struct lls_param *p, void *params)
{
  char *at = (char *)params + p->offset;
  if ((p->flags & LLS_PARAM_AUTO) && p->type != LLS_TYPE_FLOAT) {
    *(int64_t *)at = (int64_t)p->min + 1;
    return;
  }
  switch (p->type) {
  case LLS_TYPE_BOOL:
    *(bool *)at = !*(bool *)at;
    break;
  case LLS_TYPE_FLOAT:
    *(double *)at = p->max - (p->max - *(double *)at) / 2;
    break;
  case LLS_TYPE_STRING:
    *(const char **)at = "alice:3";
    break;
  default:
    *(int64_t *)at += p->type == LLS_TYPE_CHOICE && *(int64_t *)at > 0 ? -1 : 1;
  }
}

/* A choice by its index: "bounded" is the third of "off|on|bounded". */
static void choice_of(const struct lls_param *p, int64_t index, char out[64])
{
  const char *at = p->choices;
  while (index-- > 0)
    at = strchr(at, '|') + 1;
  snprintf(out, 64, "%.*s", (int)strcspn(at, "|"), at);
}

/* The parameter in the dump looks as in llmserve.ini, but for units. */
static void expect_dumped(struct bed *bed, const struct lls_param *p, const void *params)
{
  char line[128], text[64];
  const char *at = (const char *)params + p->offset;
  double number = p->type == LLS_TYPE_FLOAT    ? *(const double *)at
                  : p->type == LLS_TYPE_BOOL   ? *(const bool *)at
                  : p->type == LLS_TYPE_STRING ? 0
                                               : (double)*(const int64_t *)at;
  bool automatic = p->type == LLS_TYPE_FLOAT ? isnan(number) : number == LLS_NEVER;
  snprintf(text, sizeof text, "%.17g", number);
  if (p->type == LLS_TYPE_CHOICE)
    choice_of(p, *(const int64_t *)at, text);
  else if (p->type == LLS_TYPE_BOOL)
    snprintf(text, sizeof text, "%s", *(const bool *)at ? "true" : "false");
  else if (p->type == LLS_TYPE_STRING)
    snprintf(text, sizeof text, "%s", *(const char *const *)at);
  else if (p->flags & LLS_PARAM_AUTO && automatic)
    snprintf(text, sizeof text, "auto");
  snprintf(line, sizeof line, "%s %s", p->name, text);
  if (!dumps(bed, line))
    fail_msg("%s: expected \"%s\" in\n%s", bed->o.scheduler.name, line, bed->text);
}

/* Each scheduler has parameters that may change while it runs; only these change. */
static void test_reconfigure_and_dump(void **state)
{
  (void)state;
  for (uint32_t s = 0; s < schedulers.n; s++) {
    struct bed bed;
    uint32_t reloadable = 0;
    open_scheduler(&bed, schedulers.names[s]);
    const struct lls_param_table *table = &bed.harness.scheduler.module->params;
    char *changed = malloc(table->size);
    memcpy(changed, bed.harness.scheduler.params, table->size);
    for (uint32_t i = 0; i < table->n; i++) {
      expect_dumped(&bed, &table->params[i], bed.harness.scheduler.params);
      change(&table->params[i], changed);
    }
    const struct handed handed = {&bed.policies.scheduler.watched, changed};
    assert_int_equal(bed.s->reconfigure(bed.scheduler_self, &handed), 0);
    for (uint32_t i = 0; i < table->n; i++) {
      bool may = table->params[i].flags & LLS_PARAM_RELOADABLE;
      expect_dumped(&bed, &table->params[i],
                    may ? changed : bed.harness.scheduler.params);
      reloadable += may;
    }
    assert_true(reloadable > 0);
    free(changed);
    submit(&bed, 50, 5);
    bed_finish(&bed, 50);
    bed_close(&bed);
  }
}

/* After a plan that the core refused, the requests that it took out of queues or
 * preempted are where they were. */
static void test_refused_plans(void **state)
{
  (void)state;
  for (uint32_t s = 0; s < schedulers.n; s++) {
    struct bed bed;
    open_scheduler(&bed, schedulers.names[s]);
    bed.o.expect_refusals = true;
    for (int i = 0; i < 20; i++) {
      bed.next.request_class = i % 3;
      bed.next.tenant = (uint32_t)i % 4;
      submit(&bed, 20 + 7 * (uint32_t)i, 20 + (uint32_t)i);
    }
    for (int step = 0; bed_alive(&bed) > 0; step++) {
      assert_true(step < 3000);
      bed.in->caps.max_step_tokens = step % 3 == 2 ? 1 : defaults.max_tokens;
      bed.refuse_next = step % 3 == 1;
      bed_step(&bed);
    }
    assert_true(bed.refused_plans > 0);
    assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 20);
    bed_close(&bed);
  }
}

/* The core's own plans: other requests run, others are preempted. */
static void test_steps_of_others(void **state)
{
  (void)state;
  for (uint32_t s = 0; s < schedulers.n; s++) {
    struct bed bed;
    open_scheduler(&bed, schedulers.names[s]);
    for (int i = 0; i < 20; i++)
      submit(&bed, 20 + 7 * (uint32_t)i, 20 + (uint32_t)i);
    for (int step = 0; bed_alive(&bed) > 0; step++) {
      assert_true(step < 3000);
      bed.ask_nobody = step % 4 == 3;
      bed_step(&bed);
    }
    assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 20);
    bed_close(&bed);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reconfigure_and_dump),
      cmocka_unit_test(test_refused_plans),
      cmocka_unit_test(test_steps_of_others),
  };
  return cmocka_run_group_tests(tests, find_schedulers, NULL);
}
