/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor-parallel ranks on the emulated CUDA device: two and four, each a thread with
 * its own streams over t/simt's NCCL, give the logits of the reference, in f32 as
 * closely as one rank; in KV and hidden form, with steps cut, swapped and restored. A
 * rank that fails or is late ends the step of all ranks.
 */
#include "t/bad_rank.h"
#include "t/drive.h"

#include "core/device/devices.h"

#define F32_TOLERANCE  1e-4
#define BF16_TOLERANCE 3e-2 /* as one rank's in test_cuda_engine.c */

extern const struct lls_device_module lls_device_module; /* the emulated one */
unsigned simt_graph_launches(void);
void simt_nccl_refuse_after(long receives);
int simt_nccl_open_groups(void);

static const struct drive_rule rules[] = {
    {.chunk = 16, .stagger = 3, .preempt = 9, .swap = true, .n_prompts = 2},
    {.chunk = 16, .stagger = 3, .hidden = true, .n_prompts = 2},
    {.chunk = 7,
     .stagger = 1,
     .hidden = true,
     .convert = 7,
     .reversed = true,
     .n_prompts = 2},
};

/* Compares one rank's result; returns how many rules passed. */
static void check(const char *model, uint32_t ranks, bool bf16)
{
  const struct drive_options options = {
      .weights = bf16 ? LLS_WEIGHTS_BF16 : LLS_WEIGHTS_F32,
      .cache_element = bf16 ? LLS_BF16 : LLS_F32,
      .ranks = ranks,
      .create_device = lls_device_module.create,
  };
  struct drive_model m = {0};
  drive_open(&m, model, &options);
  bool hidden = lls_model_why_no_hidden(lls_engine_config(m.engine)) == NULL;
  assert_true((lls_engine_why_no_hidden(m.engine) == NULL) == hidden);
  for (size_t i = 0; i < (hidden ? 3 : 1); i++) {
    struct drive_outcome o = drive_run(&m, &rules[i]);
    print_message("# %s on %u, rule %zu: worst logit %.2g, row %.2g\n", model, ranks, i,
                  o.worst_absolute, o.worst_relative);
    assert_true(bf16 ? o.worst_relative <= BF16_TOLERANCE
                     : o.worst_absolute <= F32_TOLERANCE);
    assert_true(o.wrong_tokens == 0 || o.gap_at_wrong < 2 * o.worst_absolute);
  }
  drive_close(&m);
}

static void test_f32(void **state)
{
  unsigned before = simt_graph_launches();
  check(*state, 2, false);
  assert_true(simt_graph_launches() > before);
}

static void test_four(void **state)
{
  check(*state, 4, false);
}

static void test_bf16(void **state)
{
  check(*state, 2, true);
}

static void test_a_rank_that_fails(void **state)
{
  (void)state;
  const struct bad_rank fails = {lls_device_module.create, 6, false, 60 * LLS_NS_PER_S};
  int good = bad_rank_check(&fails, "rank 1: it fell off the bus");
  assert_true(good == 1 || good == 2); /* rank 0 may have ended that step */
}

static void test_a_rank_that_is_late(void **state)
{
  (void)state;
  const struct bad_rank slow = {lls_device_module.create, 6, true, LLS_NS_PER_S / 5};
  assert_int_equal(bad_rank_check(&slow, "rank 0: waited too long for another rank"), 1);
}

/* A receive that NCCL refuses ends the step of all ranks, and leaves no group open,
 * which would include the thread's later NCCL calls. */
static void test_a_receive_that_is_refused(void **state)
{
  (void)state;
  const struct bad_rank never = {lls_device_module.create, 1 << 20, false,
                                 60 * LLS_NS_PER_S};
  simt_nccl_refuse_after(1);
  assert_int_equal(bad_rank_check(&never, "NCCL: system error"), 1);
  assert_int_equal(simt_nccl_open_groups(), 0);
}

int main(void)
{
  static char llama[] = "llama", opt[] = "opt", neox[] = "neox", olmo2[] = "olmo2",
              gemma_3n[] = "gemma-3n";
  const struct CMUnitTest tests[] = {
      {"llama on 2", test_f32, NULL, NULL, llama},
      {"opt on 2", test_f32, NULL, NULL, opt},
      {"neox on 2", test_f32, NULL, NULL, neox},
      {"olmo2 on 2", test_f32, NULL, NULL, olmo2},
      {"gemma-3n on 2", test_f32, NULL, NULL, gemma_3n},
      {"opt on 4", test_four, NULL, NULL, opt},
      {"llama on 2 in bf16", test_bf16, NULL, NULL, llama},
      {"opt on 2 in bf16", test_bf16, NULL, NULL, opt},
      cmocka_unit_test(test_a_rank_that_fails),
      cmocka_unit_test(test_a_rank_that_is_late),
      cmocka_unit_test(test_a_receive_that_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
