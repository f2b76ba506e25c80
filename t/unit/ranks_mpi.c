/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Started by mpirun (t/api/ranks_mpi.t): rank 0 runs the tests against the references,
 * like test_ranks, and the other processes follow it from model to model.
 */
#include "t/rules.h"

static const char *const models[] = {"llama", "opt", "neox"};
#define N_MODELS (sizeof models / sizeof *models)

static struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                       .cache_element = LLS_F32};

/* A few rules suffice for the transport: test_ranks has all kinds of steps. */
static void test_model(const char *model)
{
  const struct rule_case *some[] = {&rule_cases[1], &rule_cases[6], &rule_cases[9],
                                    &rule_left[0], &rule_hidden[0]};
  struct drive_model m = {0};
  double worst = 0;
  drive_open(&m, model, &options);
  size_t n = lls_engine_why_no_hidden(m.engine) == NULL ? 5 : 4;
  for (size_t i = 0; i < n; i++)
    worst = fmax(worst, rule_check(&m, model, some[i]));
  print_message("# %s: worst error of a logit %.2g\n", model, worst);
  drive_close(&m);
}

/* The adapters of t/unit/test_lora.c, which only rank 0 reads. */
static const char *const adapted[] = {"llama", "mixtral"};
#define N_ADAPTED (sizeof adapted / sizeof *adapted)

static char paths[3][4096]; /* of a model and its adapters */

static struct drive_options adapted_options(const char *model)
{
  static const char *list[REFERENCE_MAX_PROMPTS];
  static const char *const forms[] = {"t/data/models/%s", "t/data/models/%s-lora/first",
                                      "t/data/models/%s-lora/second"};
  struct drive_options o = options;
  char relative[128];
  for (int i = 0; i < 3; i++) {
    snprintf(relative, sizeof relative, forms[i], model);
    snprintf(paths[i], sizeof paths[i], "%s", source_path(relative));
    list[i] = i > 0 ? paths[i] : NULL;
  }
  o.path = paths[0];
  o.adapters = list;
  return o;
}

static void test_adapters(const char *model)
{
  struct drive_options o = adapted_options(model);
  struct drive_model m = {0};
  char reference[64];
  snprintf(reference, sizeof reference, "%s-lora", model);
  drive_open(&m, reference, &o);
  double worst = fmax(rule_check(&m, reference, &rule_cases[1]),
                      rule_check(&m, reference, &rule_cases[6]));
  print_message("# %s: worst error of a logit %.2g\n", reference, worst);
  drive_close(&m);
}

static void test_all(void **state)
{
  (void)state;
  for (size_t i = 0; i < N_MODELS; i++)
    test_model(models[i]);
  for (size_t i = 0; i < N_ADAPTED; i++)
    test_adapters(adapted[i]);
}

static int follow_model(const char *name, const struct drive_options *given)
{
  struct lls_error err = {0};
  struct drive_model m = {0};
  struct lls_worker_rank_options o;
  drive_prepare(&m, name, given, &o);
  int rc = lls_worker_rank_run(&o, options.group, &err);
  reference_free(m.reference);
  if (rc < 0)
    fprintf(stderr, "rank %u: %s\n", options.group->rank, lls_error_text(&err, rc));
  return rc;
}

static int follow(void)
{
  int rc = 0;
  char reference[64];
  for (size_t i = 0; rc == 0 && i < N_MODELS; i++)
    rc = follow_model(models[i], &options);
  for (size_t i = 0; rc == 0 && i < N_ADAPTED; i++) {
    struct drive_options o = adapted_options(adapted[i]);
    snprintf(reference, sizeof reference, "%s-lora", adapted[i]);
    rc = follow_model(reference, &o);
  }
  return rc < 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
  struct lls_error err = {0};
  if (lls_ranks_mpi(60 * LLS_NS_PER_S, &options.group, &err) < 0) {
    fprintf(stderr, "%s\n", err.text);
    return 1;
  }
  int failed =
      options.group->rank > 0 ? follow() : cmocka_run_group_tests(tests, NULL, NULL);
  if (failed)
    lls_ranks_fail(options.group, "its test failed");
  options.group->ops->destroy(options.group);
  return failed;
}
