/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step loop without an engine, for testing the front end alone: every tick of a timer
 * gives each request that runs one token, the next of its own prompt (BOS left out),
 * round and round. So a client that sends token ids decides what it gets. A vector is how
 * many tokens the prompt has, the first, the last, and 0.
 *
 * The request id (x-request-id) may ask for a special fate by how it begins:
 *   hold-      never scheduled       burst-   all tokens and the end in one batch
 *   pause-     a first token, and no more     last-   the same while others are alive
 *   fail-      the engine fails it after two tokens        full-   the queue is full
 *   failnow-   the same before any token                   reject- the scheduler refuses
 *   capacity-  never fits the cache                        break-  the whole engine fails
 *   odd-       the scheduler has a figure whose name and value are odd
 *
 * A line of a batch has no such id: its `priority` asks for a fate, 9001 for failnow-,
 * 9002 for reject-, 9003 for full-, 9004 for failnow- the first time only.
 */
#ifndef LLS_T_API_FAKE_LOOP_H
#define LLS_T_API_FAKE_LOOP_H

#include <uv.h>

#include "core/instance/policy_figures.h"
#include "core/loop/loop.h"
#include "core/record/snapshot.h"

#define FAKE_COLUMNS 4 /* of a vector */

struct fake_options {
  uv_loop_t *uv;
  uint64_t period_ms; /* of the timer; 0: a first token at once, then one each ms */
  uint32_t burst;     /* tokens of a request in a tick; 0: one */
  uint32_t together;  /* nobody runs before so many have come; 0: at once */
  uint32_t max_requests;
  uint32_t vocab, max_context;
  int32_t bos, eos;
  void (*wake)(void *context);
  void *wake_context;
};

struct lls_loop *fake_loop_create(const struct fake_options *options);
/* Stops the timer; the memory goes when the loop has closed it. */
void fake_loop_stop(struct lls_loop *loop);

#endif
