/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core's services for every plugin: clock, randomness, logging, request lookup, and
 * descriptions of the engine, the instances and the cost of work. A plugin receives one
 * struct lls_host in create; it and everything it points to are valid until destroy
 * returns.
 *
 * A plugin must read clocks, random numbers and configuration only through these
 * services: this makes a run under the simulator repeatable to the byte.
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
  LLS_LOG_PLUGIN_MISBEHAVING, /* written by the core, about a plugin */
  LLS_LOG_HOST_MISBEHAVING,   /* written by a plugin, about the core */
};

/* Bits of lls_engine_caps.forms. */
enum {
  LLS_BIT_KV = 1u << LLS_FORM_KV,
  LLS_BIT_HIDDEN = 1u << LLS_FORM_HIDDEN,
};

/* The engine's abilities and hard limits, which the core checks on every plan. */
struct lls_engine_caps {
  uint32_t size;
  uint32_t max_step_tokens; /* tokens computed in one step */
  uint32_t max_sequences;   /* sequences in one step */
  uint32_t max_context;     /* tokens of one sequence */
  uint32_t max_requests;    /* alive at once: waiting, running, preempted; bounds slot */
  uint32_t forms;           /* 1u << enum lls_form */
  uint32_t preempt_modes;   /* 1u << enum lls_preempt_mode the engine can carry out */
  bool mixed_batch;         /* prefill and decode in one step */
  bool chunked_prefill;     /* prompts in pieces, or after a cached prefix */
  bool right_to_left;       /* block entries filled from the right */
  /* OFFLOAD and UPLOAD are possible with this engine and cache manager. A scheduler's
   * create sees the value for the manager that it will run with; a reload of the
   * manager alone changes it between two steps. The manager itself need not read it. */
  bool async_transfers;
  /* The layers' groups; the first is the FULL group if there is one */
  uint32_t n_groups;
  const struct lls_group *const *groups; /* (n_groups) */
  uint32_t max_drafts; /* guesses verified for one sequence in a step; 0: none */
  /* work of encoders in one step; 0 in this version */
  uint32_t max_encode_units;
  /* version 1 ends here */
};

enum lls_role { LLS_ROLE_MIXED, LLS_ROLE_PREFILL, LLS_ROLE_DECODE };

enum lls_link {
  LLS_LINK_HOST,
  LLS_LINK_PEER
}; /* between a device and the host, or
    * another device */

struct lls_instance_info { /* an array element: it never grows */
  uint32_t index;
  uint32_t role; /* enum lls_role */
};

struct lls_topology {
  uint32_t size;
  uint32_t n_instances;
  const struct lls_instance_info *instances; /* (n_instances) */
  /* version 1 ends here */
};

struct lls_chunk_shape {    /* an array element: it never grows */
  uint32_t tokens, context; /* computed, after those that are cached */
};

/* A step whose time is to be estimated. */
struct lls_iteration_shape {
  uint32_t size;
  uint32_t n_chunks, n_decodes;
  const struct lls_chunk_shape *chunks; /* (n_chunks) prefill chunks */
  const uint32_t *decode_context;       /* (n_decodes) cached tokens */
  uint64_t hidden_tokens;               /* tokens in hidden form */
  uint64_t draft_tokens; /* guesses to verify, beside the decodes' own tokens */
  /* The estimates of this version ignore the following. */
  uint64_t encode_units; /* work of encoders */
  uint32_t n_states;     /* sequences with a state, in groups of kind STATE */
  /* version 1 ends here */
};

/* Statistics of the last `steps` steps. */
struct lls_step_statistics {
  uint32_t size;
  uint32_t steps;  /* 0: mean_ns is LLS_NEVER */
  int64_t mean_ns; /* forward pass and copies */
  /* version 1 ends here */
};

/*
 * The cost service, in [step] and in calibrate. Every estimate is LLS_NEVER while the
 * core has none. Estimates come from a device's profile, if one is configured, else
 * from a linear model fitted to the steps served so far:
 *
 *   ns = c0 + c1 prefill tokens + c2 (sum over chunks of tokens (context + tokens / 2))
 *      + c3 decodes + c4 their cached tokens + c5 tokens in hidden form + c6 guesses
 */
struct lls_cost {
  uint32_t size;
  void *context; /* first argument of every function */
  int64_t (*iteration_ns)(void *, const struct lls_iteration_shape *);
  /* Returns the time of one prompt alone, after context_tokens cached tokens. */
  int64_t (*prefill_ns)(void *, uint32_t tokens, uint32_t context_tokens);
  /* Returns the time of n consecutive decodes of one sequence alone. */
  int64_t (*decode_ns)(void *, uint32_t context_tokens, uint32_t n);
  int64_t (*transfer_ns)(void *, uint64_t bytes, uint32_t link); /* enum lls_link */
  /* Fills the statistics of at most last_steps steps: the core remembers 512. */
  void (*statistics)(void *, uint32_t last_steps, struct lls_step_statistics *);
  /* version 1 ends here */
};

struct lls_host {
  uint32_t api_version;
  uint32_t size;
  void *context; /* the core's context, the first argument of every function */

  int64_t (*now)(void *context); /* [any] nanoseconds of the instance's clock */
  /* [step] Returns 64 random bits of stream 0..15; the same seed gives the same bits. */
  uint64_t (*random)(void *context, uint32_t stream);
  /* [any] Writes one line; the core adds time and the plugin's name. */
  void (*log)(void *context, uint32_t level, const char *format, ...)
      __attribute__((format(printf, 3, 4)));
  /* [any] Sets the sentence for a failing create, reconfigure, import_state or admit.
   * Returns code. */
  int (*fail)(void *context, int code, const char *format, ...)
      __attribute__((format(printf, 3, 4)));
  /* [step] Adds to a counter of events, shown by /metrics and /admin/status; at most 32
   * counters. Its name must be a string that stays valid, of at most 31 letters a to z,
   * digits and _. */
  void (*count)(void *context, const char *counter, double add);

  /* [step] Returns NULL if the request is not alive. */
  const struct lls_request *(*find)(void *context, uint64_t request);
  /* [step] Asks the predictor for a new length of a request that exceeded its
   * prediction; the request's view has it from then on. Returns -ENOENT if the request
   * is not alive; -ENOTSUP if this predictor has no overrun. */
  int (*overrun)(void *context, uint64_t request, struct lls_prediction *out);
  /* [any] For predictors whose predict returned -EINPROGRESS: copies the prediction.
   * The request may have ended meanwhile. Returns -ENOSPC if more predictions wait than
   * requests can be alive. */
  int (*predicted)(void *context, uint64_t ticket, const struct lls_prediction *);

  const struct lls_engine_caps *engine;
  const struct lls_topology *topology;
  const struct lls_cost *cost;

  /* [any] Returns a service added later, by name (embed.h); NULL if this core lacks
   * it. */
  const void *(*extension)(void *context, const char *id);
  /* version 1 ends here */
};

#ifdef __cplusplus
}
#endif

#endif
