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

static void test_all(void **state)
{
  (void)state;
  for (size_t i = 0; i < N_MODELS; i++)
    test_model(models[i]);
}

static int follow(void)
{
  struct lls_error err = {0};
  for (size_t i = 0; i < N_MODELS; i++) {
    struct drive_model m = {0};
    struct lls_worker_rank_options o;
    drive_prepare(&m, models[i], &options, &o);
    int rc = lls_worker_rank_run(&o, options.group, &err);
    reference_free(m.reference);
    if (rc < 0) {
      fprintf(stderr, "rank %u: %s\n", options.group->rank, lls_error_text(&err, rc));
      return 1;
    }
  }
  return 0;
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
