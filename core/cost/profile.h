/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's abilities, read from an INI file: datasheet numbers, the share of them
 * that programs reach, what is paid per step whatever it computes, and, for a device that
 * was measured (llmserve-profile), the time of a weight by rows. model.h turns a profile
 * and a model's shape into the time of a step; etc/profiles has the published ones.
 *
 * Every number of a profile is one device's; a model on several ranks divides its work.
 */
#ifndef LLS_COST_PROFILE_H
#define LLS_COST_PROFILE_H

#include <stdint.h>

#include "core/base/error.h"

struct lls_profile_device { /* [device]: the datasheet */
  const char *name;         /* for people */
  int64_t memory;           /* bytes */
  double bandwidth;         /* of its memory, GB/s */
  double matrix;            /* dense products in the model's type, TFLOP/s */
};

struct lls_profile_link { /* [host_link] and [peer_link] */
  double bandwidth;       /* GB/s in one direction; 0 = there is none */
  int64_t latency;        /* ns of each transfer or collective */
};

#define LLS_PROFILE_LEAST_MEMORY 0.01

struct lls_profile_efficiency { /* [efficiency]: shares of the above that are reached */
  double memory;                /* usable for weights and cache */
  double matrix;                /* products of many rows, of .matrix */
  double prefill_attention;     /* scores and values of a prompt, of .matrix */
  double weights;               /* reading weights, of .bandwidth */
  double cache;                 /* reading cached keys and values, of .bandwidth */
  /* The part of .cache that one sequence can draw alone, since the units that read it are
   * the heads of one sequence: the straggler. 1 = as much as all together. */
  double one_sequence;
  /* How much faster restoring K and V from hidden form is than products of that many rows
   * (Apt-Serve, section 4): 1, until a kernel shows otherwise. */
  double restore;
  double tail; /* part of the longest sequence's time that it is read after all others */
  /* Attention over hidden form itself, of .matrix; 0: this device always restores. */
  double absorb;
};

struct lls_profile_overhead { /* [overhead] */
  int64_t step;               /* ns of a step whatever it computes */
  int64_t layer;              /* ns of each layer: launches, barriers */
  int64_t sequence;           /* ns of each sequence of the step */
  int64_t row;                /* ns of each token computed */
  int64_t token;              /* ns of each token drawn */
};

/* Points of the measured curve. */
#define LLS_PROFILE_POINTS 32

struct lls_profile_curve { /* [projection], if measured; else the roofline is taken */
  uint32_t n;              /* points, rows increasing */
  double rows[LLS_PROFILE_POINTS];
  double ns[LLS_PROFILE_POINTS]; /* of a million weights at that many rows */
};

struct lls_profile {
  struct lls_profile_device device;
  struct lls_profile_link host_link, peer_link;
  struct lls_profile_efficiency efficiency;
  struct lls_profile_overhead overhead;
  struct lls_profile_curve projection;
};

/*
 * Reads a profile. -errno with the first thing wrong as "FILE:LINE: sentence"; there is
 * nothing to free then.
 */
int lls_profile_read(const char *path, struct lls_profile *out, struct lls_error *err);
void lls_profile_free(struct lls_profile *);

/* Writes what lls_profile_read reads; `comment` is a line at its top. */
int lls_profile_write(const char *path, const struct lls_profile *, const char *comment,
                      struct lls_error *err);

#endif
