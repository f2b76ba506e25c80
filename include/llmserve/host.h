/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the core gives to every plugin: clock, randomness, logging, timers, request
 * lookup, and descriptions of the engine, the instances and the cost of work. A plugin
 * gets one struct lls_host at create; it is valid until destroy returns.
 *
 * A plugin reads no clock, no random number and no configuration but through here: that
 * is what makes a run under the simulator repeatable to the byte.
 */
#ifndef LLMSERVE_HOST_H
#define LLMSERVE_HOST_H

#include <llmserve/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum lls_log_level {
  LLS_LOG_ERROR,
  LLS_LOG_WARNING,
  LLS_LOG_INFO,
  LLS_LOG_DEBUG,
  LLS_LOG_PLUGIN_MISBEHAVING, /* written by the core about a plugin */
  LLS_LOG_HOST_MISBEHAVING,   /* written by a plugin about the core */
};

/* bits of lls_engine_caps.forms, elements, preempt_modes: 1u << enum value */
enum {
  LLS_BIT_KV = 1u << LLS_FORM_KV,
  LLS_BIT_HIDDEN = 1u << LLS_FORM_HIDDEN,
};

/* E1, E13: what the engine can do and its hard limits, checked by the core on every plan.
 */
struct lls_engine_caps {
  uint32_t size;
  uint32_t max_step_tokens; /* tokens computed in one step */
  uint32_t max_sequences;   /* sequences in one step */
  uint32_t max_context;     /* tokens of one sequence */
  uint32_t max_requests;    /* alive at once: waiting, running, preempted; bounds slot */
  uint32_t forms;           /* 1u << enum lls_form */
  uint32_t elements;        /* 1u << enum lls_element */
  uint32_t preempt_modes;   /* 1u << enum lls_preempt_mode the engine can carry out */
  bool mixed_batch;         /* E7 prefill and decode in one step */
  bool chunked_prefill;     /* E8 */
  bool right_to_left;       /* E10 block entries filled from the right */
  bool async_transfers;     /* E6 copies that overlap steps: OFFLOAD, UPLOAD, MIGRATE */
  uint32_t layers, hidden, heads, kv_heads, head_dim; /* of the model */
  double hidden_ratio; /* eta: bytes of X over bytes of K and V, per token */
  /* version 1 ends here */
};

enum lls_role { LLS_ROLE_MIXED, LLS_ROLE_PREFILL, LLS_ROLE_DECODE };

enum lls_link { LLS_LINK_HOST, LLS_LINK_PEER };

struct lls_instance_info {
  uint32_t index;
  uint32_t role;         /* enum lls_role */
  uint64_t device_bytes; /* of the pool */
  uint64_t host_bytes;
  double host_bytes_per_s; /* 0 = not measured */
  double peer_bytes_per_s;
};

struct lls_topology { /* E2 */
  uint32_t size;
  uint32_t n_instances;
  const struct lls_instance_info *instances; /* (n_instances) */
  /* version 1 ends here */
};

/* T1: the shape of a step whose time is asked for. */
struct lls_chunk_shape {
  uint32_t tokens, context;
};

struct lls_iteration_shape {
  uint32_t size;
  uint32_t n_chunks, n_decodes;
  const struct lls_chunk_shape *chunks; /* (n_chunks) prefill chunks */
  const uint32_t *decode_context;       /* (n_decodes) cached tokens */
  uint64_t hidden_tokens;               /* tokens restored from hidden form */
  uint64_t copy_bytes;                  /* between device and host */
  /* version 1 ends here */
};

struct lls_cost_sample { /* T6 */
  struct lls_iteration_shape shape;
  int64_t duration_ns;
};

struct lls_step_statistics { /* T7, of the last `steps` steps */
  uint32_t size;
  uint32_t steps;
  int64_t mean_ns, max_ns, p50_ns, p99_ns; /* of the whole step */
  double mean_batch;                       /* sequences */
  /* version 1 ends here */
};

/* The cost service. Every estimate is LLS_NEVER as long as the core has none. [step] */
struct lls_cost {
  uint32_t size;
  void *context; /* first argument of every function */
  int64_t (*iteration_ns)(void *, const struct lls_iteration_shape *);     /* T1 */
  int64_t (*prefill_ns)(void *, uint32_t tokens, uint32_t context_tokens); /* T2 */
  int64_t (*decode_ns)(void *, uint32_t context_tokens, uint32_t n);       /* T3 */
  int64_t (*remaining_ns)(void *, const struct lls_request *);             /* T4 */
  int64_t (*transfer_ns)(void *, uint64_t bytes, uint32_t link);           /* T5 */
  int (*fit)(void *, const struct lls_cost_sample *, size_t n);            /* T6 */
  int (*coefficients)(void *, double *out, size_t max); /* T6 how many were written */
  int (*set_coefficients)(void *, const double *, size_t n);                     /* T6 */
  void (*statistics)(void *, uint32_t last_steps, struct lls_step_statistics *); /* T7 */
  /* version 1 ends here */
};

struct lls_host {
  uint32_t api_version;
  uint32_t size;
  void *context; /* the core's; first argument of every function */

  int64_t (*now)(void *context);                      /* C1 [any] */
  uint64_t (*random)(void *context, uint32_t stream); /* C2 [step]; streams 0..15 */
  /* C7 [any] One line; the core adds time and the plugin's name. */
  void (*log)(void *context, uint32_t level, const char *format, ...)
      __attribute__((format(printf, 3, 4)));
  /* C7 [any] The sentence that goes with a failing create, import or audit; returns code.
   */
  int (*fail)(void *context, int code, const char *format, ...)
      __attribute__((format(printf, 3, 4)));
  void (*trace)(void *context, const char *event, uint64_t request,
                double value); /* C7 [step] */
  void (*count)(void *context, const char *counter,
                double add); /* C7 [step] a static string */

  /* C6 [step] on_timer(tag) is called once at or after now + delay_ns. -ENOSPC beyond 64.
   */
  int (*timer_start)(void *context, int64_t delay_ns, uint64_t tag);
  void (*timer_stop)(void *context, uint64_t tag);

  /* C4 [step] NULL if it is not alive. */
  const struct lls_request *(*find)(void *context, uint64_t request);
  /* C5, P3 [step] The predictor's new length for a request that outlived its prediction.
   */
  int (*overrun)(void *context, uint64_t request, struct lls_prediction *out);
  /* S5 [any] For predictors whose predict returned -EINPROGRESS. */
  int (*predicted)(void *context, uint64_t ticket, const struct lls_prediction *);

  const struct lls_engine_caps *engine;
  const struct lls_topology *topology;
  const struct lls_cost *cost;

  /* Whatever came later, by name; NULL if this core does not have it. [any] */
  const void *(*extension)(void *context, const char *id);
  /* version 1 ends here */
};

#ifdef __cplusplus
}
#endif

#endif
