/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's abilities, read from an INI file: datasheet numbers, of its disk too, the
 * fraction of them that programs reach, the fixed costs of a step, and, for a device that
 * was measured (llmserve-profile), the time of a weight by the number of rows. model.h
 * combines a profile and a model's shape into the time of a step; etc/profiles has the
 * published ones.
 *
 * Every number in a profile describes one device; a model on several ranks divides its
 * work.
 */
#ifndef LLS_COST_PROFILE_H
#define LLS_COST_PROFILE_H

#include <stdint.h>

#include "core/base/error.h"

struct lls_profile_device { /* [device]: the datasheet */
  const char *name;         /* the device's name in messages */
  int64_t memory;           /* bytes */
  double bandwidth;         /* bandwidth of the device's memory, GB/s */
  double matrix;            /* dense products in the model's type, TFLOP/s */
};

struct lls_profile_link { /* [host_link] and [peer_link] */
  double bandwidth;       /* GB/s in one direction; 0 = no link */
  int64_t latency;        /* ns of each transfer or collective */
};

struct lls_profile_disk { /* [disk]: of the machine */
  double read, write;     /* GB/s; 0 = there is none */
  int64_t latency;        /* ns of each block */
};

#define LLS_PROFILE_LEAST_MEMORY 0.01

struct lls_profile_efficiency { /* [efficiency]: fractions of the datasheet numbers
                                 * that are reached */
  double memory;                /* usable for weights and cache */
  double matrix;                /* products of many rows, of .matrix */
  double prefill_attention;     /* scores and values of a prompt, of .matrix */
  double weights;               /* reading weights, of .bandwidth */
  double cache;                 /* reading cached keys and values, of .bandwidth */
  /* The fraction of .cache that a single sequence can reach, since the units that read
   * it are the heads of one sequence: the straggler. 1 = as much as all sequences
   * together. */
  double one_sequence;
  /* How much faster K and V are restored from hidden form than by products of as many
   * rows (Apt-Serve, section 4): 1, until a kernel is measured to be faster. */
  double restore;
  double tail; /* fraction of the longest sequence's time in which it is read alone,
                * after all others */
  /* Attention over hidden form itself, relative to .matrix; 0: this device always
   * restores. */
  double absorb;
};

struct lls_profile_overhead { /* [overhead] */
  int64_t step;               /* ns of a step, independent of its work */
  int64_t layer;              /* ns of each layer: launches, barriers */
  int64_t sequence;           /* ns of each sequence of the step */
  int64_t row;                /* ns of each token computed */
  int64_t token;              /* ns of each token sampled */
};

/* Points of the measured curve. */
#define LLS_PROFILE_POINTS 32

struct lls_profile_curve { /* [projection], if measured; else the roofline is used */
  uint32_t n;              /* points, rows increasing */
  double rows[LLS_PROFILE_POINTS];
  double ns[LLS_PROFILE_POINTS]; /* time for a million weights at that many rows */
};

struct lls_profile {
  struct lls_profile_device device;
  struct lls_profile_link host_link, peer_link;
  struct lls_profile_disk disk;
  struct lls_profile_efficiency efficiency;
  struct lls_profile_overhead overhead;
  struct lls_profile_curve projection;
};

/*
 * Reads a profile. Returns 0; or -errno with the first fault as "FILE:LINE: sentence",
 * and nothing to free.
 */
int lls_profile_read(const char *path, struct lls_profile *out, struct lls_error *err);
void lls_profile_free(struct lls_profile *);

/* Writes a profile in the form that lls_profile_read reads; `comment` becomes its first
 * line. */
int lls_profile_write(const char *path, const struct lls_profile *, const char *comment,
                      struct lls_error *err);

#endif
