/* SPDX-License-Identifier: Apache-2.0 */
/* A reload in a process without a front end. Process 0 reads the file and leads; here
 * as there the thread of reload_prepare.c creates the policies. */
#include <errno.h>

#include "core/serve/daemon.h"

/* Gives up the reload in progress; it is freed once its thread has returned. */
static void give_up(struct server *s)
{
  if (s->reload != NULL)
    s->reload->given_up = true;
  s->reload = NULL;
  server_forget_reloads(s);
}

static int prepare(void *context, const char *data, size_t n,
                   struct lls_loop_prepared **out, struct lls_error *err)
{
  struct server *s = context;
  if (data != NULL) {
    give_up(s);
    int rc = server_prepare_packed(s, data, n, &s->reload, err);
    return rc < 0 ? rc : -EINPROGRESS;
  }
  struct reload *r = s->reload;
  if (!r->done)
    return -EINPROGRESS;
  if (r->status < 0) {
    bool of_file = !r->read && r->errors.n > 0;
    *err = of_file ? r->errors.list[0].error : r->error;
    return r->status;
  }
  *out = r->prepared;
  r->prepared = NULL;
  return 0;
}

static void over(void *context, bool runs)
{
  struct server *s = context;
  struct reload *r = s->reload;
  if (r == NULL || !runs) {
    give_up(s);
    return;
  }
  s->reload = NULL;
  server_take_over(s, r);
  server_free_reload(s, r);
  lls_log(&s->log, LLS_LOG_DEBUG, "reload",
          "instance %u goes on with the configuration of process 0", s->channel->self);
}

struct lls_loop_change_ops server_change_ops(struct server *s)
{
  return (struct lls_loop_change_ops){.context = s, .prepare = prepare, .over = over};
}
