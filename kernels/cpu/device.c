/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU device: its threads, its working memory and the vtable. Operations run at
 * once, in call order, each on all threads together, and return when they are done.
 */
#include "config.h"

#include "core/base/least.h"
#include "core/device/control_group.h"
#include "core/device/host_memory.h"
#include "core/ranks/ranks.h"
#include "kernels/cpu/codes_pack.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/ops.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void destroy(struct lls_device *device)
{
  if (device == NULL)
    return;
  struct lls_cpu_device *d = lls_cpu(device);
  lls_cpu_memory_free(d->angles);
  lls_cpu_memory_free(d->scratch);
  lls_cpu_memory_free(d->shared);
  lls_cpu_threads_destroy(d->threads);
  free(d);
}

static int memory(struct lls_device *device, size_t *total, size_t *available)
{
  (void)device;
  return lls_host_memory_size(total, available);
}

/* The processor's name as Linux reports it; "" if it reports none. */
static void processor_name(char *name, size_t size)
{
  char line[256];
  FILE *f = fopen("/proc/cpuinfo", "re");
  name[0] = '\0';
  while (f != NULL && name[0] == '\0' && fgets(line, sizeof line, f) != NULL)
    if (strncmp(line, "model name", strlen("model name")) == 0) {
      const char *text = strchr(line, ':');
      text = text != NULL ? text + 1 + strspn(text + 1, " \t") : "";
      snprintf(name, size, "%.*s, ", (int)strcspn(text, ";\n"), text);
    }
  if (f != NULL)
    fclose(f);
}

static void identify(struct lls_device *device, char *text, size_t size)
{
  const struct lls_cpu_device *d = lls_cpu(device);
  char name[96];
  processor_name(name, sizeof name);
  snprintf(text, size, "cpu: %s%s, %u thread%s%s", name, d->level->name, d->n_threads,
           d->n_threads == 1 ? "" : "s", d->options.pin ? " (pinned)" : "");
}

static void describe(struct lls_device *device, char *text, size_t size)
{
  const struct lls_cpu_device *d = lls_cpu(device);
  size_t total = 0, available = 0;
  double cores = lls_control_group_cores(&lls_control_groups);
  char quota[80] = "";
  lls_host_memory_size(&total, &available);
  if (isfinite(cores))
    snprintf(quota, sizeof quota,
             ", limited to the time of %.3g core%s by its control group", cores,
             cores == 1 ? "" : "s");
  snprintf(text, size, "cpu: %s, %u thread%s%s%s, %.1f of %.1f GB memory free",
           d->level->name, d->n_threads, d->n_threads == 1 ? "" : "s",
           d->options.pin ? " (pinned)" : "", quota, (double)available * 1e-9,
           (double)total * 1e-9);
}

/* Device and host memory are both ordinary memory here. */
static int alloc(struct lls_device *device, enum lls_memory kind, size_t bytes,
                 void **out)
{
  (void)device;
  (void)kind;
  return lls_cpu_memory_alloc(bytes, out);
}

static void release(struct lls_device *device, enum lls_memory kind, void *data)
{
  (void)device;
  (void)kind;
  lls_cpu_memory_free(data);
}

static void download(struct lls_device *device, const void *from, void *to, size_t bytes)
{
  (void)device;
  memcpy(to, from, bytes);
}

static const struct lls_device_ops ops = {
    .name = "cpu",
    .has_filter_chain = true,
    .destroy = destroy,
    .describe = describe,
    .identify = identify,
    .memory = memory,
    .alloc = alloc,
    .release = release,
    .weight_create = lls_cpu_weight_create,
    .weight_destroy = lls_cpu_weight_destroy,
    .weight_bytes = lls_cpu_weight_bytes,
    .vector_create = lls_cpu_vector_create,
    .table_create = lls_cpu_table_create,
    .table_destroy = lls_cpu_table_destroy,
    .pool_create = lls_cpu_pool_create,
    .pool_destroy = lls_cpu_pool_destroy,
    .pool_copy = lls_cpu_pool_copy,
    .pool_pull = lls_cpu_pool_pull,
    .pool_pack = lls_cpu_pool_pack,
    .pool_unpack = lls_cpu_pool_unpack,
    .pool_read = lls_cpu_pool_read,
    .pool_write = lls_cpu_pool_write,
    .step_begin = lls_cpu_step_begin,
    .step_end = lls_cpu_step_end,
    .embed = lls_cpu_embed,
    .embed_positions = lls_cpu_embed_positions,
    .norm = lls_cpu_norm,
    .linear = lls_cpu_linear,
    .logits = lls_cpu_logits,
    .activate = lls_cpu_activate,
    .gated = lls_cpu_gated,
    .add = lls_cpu_add,
    .xielu = lls_cpu_xielu,
    .grow_queries = lls_cpu_grow_queries,
    .gate_rows = lls_cpu_gate_rows,
    .embed_layer = lls_cpu_embed_layer,
    .gate_inputs = lls_cpu_gate_inputs,
    .predict = lls_cpu_predict,
    .correct = lls_cpu_correct,
    .match_size = lls_cpu_match_size,
    .cut_gates = lls_cpu_cut_gates,
    .scale = lls_cpu_scale,
    .conv = lls_cpu_conv,
    .delta = lls_cpu_delta,
    .space = lls_cpu_space,
    .norm_gated = lls_cpu_norm_gated,
    .gate_columns = lls_cpu_gate_columns,
    .norm_qk = lls_cpu_norm_qk,
    .rope = lls_cpu_rope,
    .cache_write = lls_cpu_cache_write,
    .latent_rows = lls_cpu_latent_rows,
    .latent_values = lls_cpu_latent_values,
    .choose = lls_cpu_choose,
    .attention = lls_cpu_attention,
    .gather = lls_cpu_gather,
    .cap_logits = lls_cpu_cap_logits,
    .sample = lls_cpu_sample,
    .download = download,
    .experts_create = lls_cpu_experts_create,
    .experts_destroy = lls_cpu_experts_destroy,
    .route = lls_cpu_route,
    .gather_routed = lls_cpu_gather_routed,
    .linear_experts = lls_cpu_linear_experts,
    .gated_experts = lls_cpu_gated_experts,
    .combine = lls_cpu_combine,
    .hidden_write = lls_cpu_hidden_write,
    .restore = lls_cpu_restore,
    .absorbs = lls_cpu_absorbs,
    .attend_hidden = lls_cpu_attend_hidden,
    .all_reduce = lls_cpu_all_reduce,
    .gather_columns = lls_cpu_gather_columns,
    .attention_both_ways = lls_cpu_attention_both_ways,
    .adapt = lls_cpu_adapt,
};

/* Allocates the scratch of the operation that needs most; a thread also unpacks a row
 * in it while loading. */
static int allocate_scratch(struct lls_cpu_device *d)
{
  size_t columns = d->options.max_columns, rows = d->options.max_rows;
  const struct lls_cpu_linear_kernels *linear = &d->kernels.linear;
  d->scratch_bytes =
      lls_most_size(lls_cpu_linear_scratch(linear), lls_codes_scratch(columns));
  d->scratch_bytes = lls_most_size(d->scratch_bytes, lls_cpu_attention_scratch());
  d->scratch_bytes = lls_most_size(d->scratch_bytes, lls_cpu_sample_scratch(columns));
  d->scratch_bytes = (d->scratch_bytes + 4095) & ~(size_t)4095;
  d->shared_bytes = lls_most_size(lls_cpu_linear_shared(linear, columns),
                                  lls_cpu_attention_shared(rows, d->n_threads));
  void *scratch = NULL, *angles = NULL;
  int rc = lls_cpu_memory_alloc(d->scratch_bytes * d->n_threads, &scratch);
  d->scratch = scratch;
  if (rc == 0)
    rc = lls_cpu_memory_alloc(lls_cpu_rope_bytes(rows), &angles);
  d->angles = angles;
  return rc != 0 ? rc : lls_cpu_memory_alloc(d->shared_bytes, &d->shared);
}

/* Returns the number of devices that share the control group's processor time: those of
 * all instances and ranks on this machine. */
static unsigned shares_of(const struct lls_device_options *o)
{
  return (o->shares > 0 ? o->shares : 1) * (o->ranks != NULL ? o->ranks->local_size : 1);
}

/* Writes the levels' names: "generic, avx2 or amx". */
static void list_levels(char *text, size_t size)
{
  const struct lls_cpu_level *level;
  size_t n = 0;
  for (size_t i = 0; (level = lls_cpu_level_at(i)) != NULL && n < size; i++)
    n += (size_t)snprintf(text + n, size - n, "%s%s",
                          i == 0                            ? ""
                          : lls_cpu_level_at(i + 1) != NULL ? ", "
                                                            : " or ",
                          level->name);
}

static int find_level(const char *name, const struct lls_cpu_level **out,
                      struct lls_error *err)
{
  char names[128];
  int rc = lls_cpu_level_find(name, out);
  if (rc == -ENOTSUP)
    return lls_fail(err, rc, "this CPU has no %s, only %s", name,
                    lls_cpu_level_best()->name);
  if (rc == -EINVAL) {
    list_levels(names, sizeof names);
    lls_fail(err, rc, "isa \"%s\" is unknown: use %s", name, names);
  }
  return rc;
}

int lls_cpu_device_create(const struct lls_device_options *options,
                          struct lls_device **out, struct lls_error *err)
{
  const struct lls_cpu_level *level;
  int rc = find_level(options->isa, &level, err);
  if (rc < 0)
    return rc;
  struct lls_cpu_device *d = calloc(1, sizeof *d);
  if (d == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the CPU device");
  d->base = (struct lls_device){
      .ops = &ops,
      .activation_type = LLS_F32,
      .is_host = true,
      .has_int8 = true,
      .extras = LLS_EXTRA_ALL,
  };
  d->options = *options;
  d->level = level;
  lls_cpu_kernels_fill(&d->kernels, level);
  unsigned threads =
      options->threads != 0 ? options->threads : lls_cpu_cores(shares_of(options));
  rc = lls_cpu_threads_create(threads, options->pin, &d->threads);
  if (rc != 0) {
    lls_fail(err, rc, "cannot start %u threads: %s", threads, strerror(-rc));
    goto fail_threads;
  }
  d->n_threads = lls_cpu_threads_count(d->threads);
  rc = allocate_scratch(d);
  if (rc != 0) {
    lls_fail(err, rc, "no memory for the working space of %u threads", d->n_threads);
    goto fail_scratch;
  }
  *out = &d->base;
  return 0;

fail_scratch:
  lls_cpu_memory_free(d->angles);
  lls_cpu_memory_free(d->scratch);
  lls_cpu_threads_destroy(d->threads);
fail_threads:
  free(d);
  return rc;
}

const struct lls_device_module lls_cpu_device = {
    .size = sizeof(struct lls_device_module),
    .ops_size = sizeof(struct lls_device_ops),
    .options_size = sizeof(struct lls_device_options),
    .version = PACKAGE_VERSION,
    .name = "cpu",
    .create = lls_cpu_device_create,
};
