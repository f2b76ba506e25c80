/* SPDX-License-Identifier: Apache-2.0 */
/* Creates and ends the links of a process; see links.h. */
#include "core/cluster/links.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/error.h"
#include "core/cluster/links_internal.h"

static int take_rooms(struct lls_links *l, struct lls_link_end *end, size_t bytes)
{
  for (size_t i = 0; i < LLS_LINK_WINDOW; i++) {
    void *room;
    int rc = l->device->ops->alloc(l->device, LLS_MEMORY_PIECES, bytes, &room);
    if (rc < 0)
      return rc;
    end->rooms[i] = room;
  }
  return 0;
}

int lls_links_create(const struct lls_links_options *o, struct lls_links **out,
                     struct lls_error *err)
{
  const struct lls_link_ops *ops = o->device->ops->links;
  if (ops == NULL)
    return lls_fail(err, -ENOTSUP, "this device has no NCCL");
  int rc = ops->prepare(o->device, err);
  if (rc < 0)
    return rc;
  struct lls_links *l = calloc(1, sizeof *l);
  struct lls_link_other *others = calloc(o->n, sizeof *others);
  if (l == NULL || others == NULL) {
    free(l);
    free(others);
    return lls_fail(err, -ENOMEM, "out of memory");
  }
  *l = (struct lls_links){.device = o->device,
                          .ops = ops,
                          .self = o->self,
                          .n = o->n,
                          .timeout_ns = o->timeout_ns,
                          .others = others};
  for (uint32_t i = 0; i < o->n && rc == 0; i++) {
    others[i].out.sends = true;
    if (i != o->self)
      rc = take_rooms(l, &others[i].out, o->bytes);
    if (i != o->self && rc == 0)
      rc = take_rooms(l, &others[i].in, o->bytes);
  }
  if (rc < 0) {
    lls_links_destroy(l);
    return lls_fail(err, rc, "no memory on the device for pieces to %u others", o->n - 1);
  }
  *out = l;
  return 0;
}

void lls_link_stop(struct lls_links *l, struct lls_link_end *end)
{
  if (end->link != NULL)
    l->ops->close(end->link);
  end->link = NULL;
  end->state = LLS_LINK_NEVER;
  end->owed = LLS_LINK_SILENT;
}

static void drop_expected(struct lls_link_other *o)
{
  while (o->first != NULL) {
    struct lls_link_expected *next = o->first->next;
    free(o->first);
    o->first = next;
  }
}

static void release(struct lls_links *l, struct lls_link_end *end)
{
  lls_link_stop(l, end);
  for (size_t i = 0; i < LLS_LINK_WINDOW; i++)
    if (end->rooms[i] != NULL)
      l->device->ops->release(l->device, LLS_MEMORY_PIECES, end->rooms[i]);
}

void lls_links_destroy(struct lls_links *l)
{
  if (l == NULL)
    return;
  for (uint32_t i = 0; i < l->n; i++) {
    release(l, &l->others[i].out);
    release(l, &l->others[i].in);
    drop_expected(&l->others[i]);
  }
  free(l->others);
  free(l);
}

void lls_links_forget(struct lls_links *l, uint32_t index)
{
  struct lls_link_other *o = &l->others[index];
  lls_link_stop(l, &o->out);
  lls_link_stop(l, &o->in);
  o->in.n_received = o->in.n_given;
  drop_expected(o);
}
