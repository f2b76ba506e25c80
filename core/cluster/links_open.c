/* SPDX-License-Identifier: Apache-2.0 */
/* Opens links and gives them up, with the messages for both; see links.h. */
#include "core/cluster/links_internal.h"

#include <string.h>

#include "core/base/error.h"

void lls_link_give_up(struct lls_links *l, struct lls_link_end *end,
                      const struct lls_error *why)
{
  lls_link_stop(l, end);
  end->why = *why;
  end->has_news = end->sends;
  end->owed = end->sends ? LLS_LINK_WITHDRAWN : LLS_LINK_REFUSED;
}

static void open_end(struct lls_links *l, struct lls_link_end *end,
                     const struct lls_link_name *name)
{
  struct lls_error why = {0};
  if (l->ops->open(l->device, name, end->sends, &end->link, &why) < 0) {
    lls_link_give_up(l, end, &why);
    return;
  }
  end->state = LLS_LINK_OPENING;
  end->owed = end->sends ? LLS_LINK_SILENT : LLS_LINK_TAKEN;
}

void lls_link_offer(struct lls_links *l, struct lls_link_other *o)
{
  struct lls_error why = {0};
  o->out.state = LLS_LINK_OFFERED;
  o->out.owed = LLS_LINK_OFFER;
  if (l->ops->make_name(l->device, &o->name, &why) == 0)
    return;
  lls_link_give_up(l, &o->out, &why);
  o->out.owed = LLS_LINK_SILENT; /* the other end has no link, so it needs no message */
}

bool lls_links_has_word(const struct lls_links *l, uint32_t to)
{
  const struct lls_link_other *o = &l->others[to];
  return o->out.owed != LLS_LINK_SILENT || o->in.owed != LLS_LINK_SILENT;
}

void lls_links_take_word(struct lls_links *l, uint32_t to, struct lls_link_message *m)
{
  struct lls_link_other *o = &l->others[to];
  struct lls_link_end *end = o->out.owed != LLS_LINK_SILENT ? &o->out : &o->in;
  *m = (struct lls_link_message){.word = end->owed, .name = o->name};
  memcpy(m->why, end->why.text, sizeof m->why - 1);
  end->owed = LLS_LINK_SILENT;
}

void lls_links_hear(struct lls_links *l, uint32_t from, const struct lls_link_message *m)
{
  struct lls_link_other *o = &l->others[from];
  struct lls_error why = {0};
  switch (m->word) {
  case LLS_LINK_OFFER:
    if (o->in.state == LLS_LINK_UNTRIED)
      open_end(l, &o->in, &m->name);
    break;
  case LLS_LINK_TAKEN:
    if (o->out.state == LLS_LINK_OFFERED)
      open_end(l, &o->out, &o->name);
    break;
  case LLS_LINK_REFUSED:
    lls_fail(&why, 0, "%.*s, says the other process", (int)sizeof m->why, m->why);
    if (o->out.state != LLS_LINK_NEVER)
      lls_link_give_up(l, &o->out, &why);
    o->out.owed = LLS_LINK_SILENT;
    break;
  case LLS_LINK_WITHDRAWN:
    lls_link_stop(l, &o->in);
    break;
  default:
    break;
  }
}

bool lls_links_news(struct lls_links *l, uint32_t *to, struct lls_error *text)
{
  for (uint32_t i = 0; i < l->n; i++) {
    struct lls_link_end *out = &l->others[i].out;
    if (!out->has_news)
      continue;
    out->has_news = false;
    *to = i;
    if (out->state == LLS_LINK_NEVER)
      lls_fail(text, 0, "blocks go there without %s: %s", l->ops->text, out->why.text);
    else
      lls_fail(text, 0, "blocks go there from GPU to GPU, by %s", l->ops->text);
    return true;
  }
  return false;
}
