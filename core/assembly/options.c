/* SPDX-License-Identifier: Apache-2.0 */
/* Fills options from a configuration; see options.h. */
#include "core/assembly/options.h"

#include <string.h>

#include "core/device/isa.h"

#define NAME(name) #name,
static const char *const isa_names[] = {LLS_ISA_LEVELS(NAME, NAME)};

/* Returns the element type of the weights that the choice of a device depends on. */
static enum lls_dtype weight_numbers(const struct lls_config *c,
                                     const struct lls_model_config *model)
{
  switch (c->model.weights) {
  case LLS_WEIGHTS_F32:
    return LLS_F32;
  case LLS_WEIGHTS_BF16:
  case LLS_WEIGHTS_INT8: /* multiplied by bf16, unless the CPU has instructions for
                          * codes */
  case LLS_WEIGHTS_INT4:
    return LLS_BF16;
  default:
    return model->dtype;
  }
}

enum lls_device_choice lls_device_choice_of(const struct lls_config *c,
                                            const struct lls_model_config *model)
{
  bool on_cpu = model->encoder && c->engine.device == LLS_DEVICE_AUTO;
  return on_cpu ? LLS_DEVICE_CPU : (enum lls_device_choice)c->engine.device;
}

struct lls_device_options lls_device_options_of(const struct lls_config *c,
                                                const struct lls_model_config *model)
{
  const struct lls_engine_config *e = &c->engine;
  return (struct lls_device_options){
      .threads = (uint32_t)e->threads,
      .pin = e->pin,
      .max_rows = (uint32_t)e->max_step_tokens,
      .max_columns = lls_engine_max_columns(model),
      .max_sequences = (uint32_t)e->max_sequences,
      .isa = e->isa == LLS_NEVER ? NULL : isa_names[e->isa],
      .numbers = weight_numbers(c, model),
  };
}

/* Models in f32 are cached in f32, so that they stay exact; other models in bf16. */
static enum lls_dtype cache_element(const struct lls_config *c,
                                    const struct lls_model_config *model)
{
  switch (c->cache.element) {
  case LLS_ELEMENT_CHOICE_F32:
    return LLS_F32;
  case LLS_ELEMENT_CHOICE_BF16:
    return LLS_BF16;
  default:
    return model->dtype == LLS_F32 ? LLS_F32 : LLS_BF16;
  }
}

bool lls_config_drafts(const struct lls_config *c)
{
  return strcmp(c->policies.drafter.module->descriptor->id, "none") != 0;
}

struct lls_engine_options lls_engine_options_of(const struct lls_config *c,
                                                const struct lls_model_config *model)
{
  return (struct lls_engine_options){
      .model_path = c->model.path,
      .dummy = c->model.load_format == LLS_LOAD_DUMMY,
      .weights = (enum lls_weight_format)c->model.weights,
      .cache_element = cache_element(c, model),
      .max_tokens = (uint32_t)c->engine.max_step_tokens,
      .max_sequences = (uint32_t)c->engine.max_sequences,
      .max_context = (uint32_t)c->engine.max_context,
      .block_tokens = (uint32_t)c->cache.block_tokens,
      .cache_bytes =
          c->cache.device_memory == LLS_NEVER ? 0 : (size_t)c->cache.device_memory,
      .gives_back = lls_cache_keeps(&c->policies.cache.module->cache, LLS_GROUP_WINDOW),
      .groups = lls_cache_groups(&c->policies.cache.module->cache),
      .keeps_chunks = lls_cache_keeps(&c->policies.cache.module->cache, LLS_GROUP_CHUNK),
      .keeps_states = lls_cache_keeps(&c->policies.cache.module->cache, LLS_GROUP_STATE),
      .pool = c->cache.pool,
      .max_drafts = lls_config_drafts(c) ? (uint32_t)c->plugins.max_drafts : 0,
      .kv_only = c->policies.cache.module->cache.forms == NULL,
      .adapters = lls_lora_is_on(&c->lora),
      .adapter_bytes = (size_t)c->lora.device_memory,
  };
}

struct lls_loop_options lls_loop_options_of(const struct lls_config *c,
                                            const struct lls_model_config *model)
{
  return (struct lls_loop_options){
      .policies = {.scheduler = {c->policies.scheduler.module,
                                 c->policies.scheduler.params},
                   .cache = {c->policies.cache.module, c->policies.cache.params},
                   .predictor = {c->policies.predictor.module,
                                 c->policies.predictor.params},
                   .drafter = {c->policies.drafter.module, c->policies.drafter.params}},
      .max_requests = (uint32_t)c->engine.max_requests,
      .limits = c->plugins.loop,
      .leases = {.tool_ns = c->cache.lease_tool,
                 .end_ns = c->cache.lease_end,
                 .key_bytes = c->cache.session_memory,
                 .disk_share = c->cache.disk_lease_share},
      .seed = (uint64_t)c->engine.seed,
      .model_name = c->server.served_model_name,
      .model_folder = c->model.path,
      .measurements = c->cache.measurements,
      .measure_always = c->cache.measure == LLS_MEASURE_ALWAYS,
      .prompts = {.folder = c->server.state,
                  .most_bytes = (uint64_t)c->cache.kept_prompts},
      .block_events = c->server.kv_events[0] != '\0',
      .disk = {.folder = c->server.state,
               .most_bytes = (uint64_t)c->cache.disk_space,
               .int8 = c->cache.disk_element == LLS_DISK_INT8},
      .eos_tokens = model->eos,
      .n_eos_tokens = model->n_eos,
  };
}
