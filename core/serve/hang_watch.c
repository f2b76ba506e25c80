/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin's callback that does not return: the step thread cannot be stopped, but main
 * notices, logs it once, and makes /live, /health and the service manager report it; a
 * reload is refused. A process that is asked to stop does not wait for such a callback
 * forever.
 */
#include <stdlib.h>
#include <unistd.h>

#include "core/obs/log_sink.h"
#include "core/serve/daemon.h"

/* Time for the last step to end, in addition to drain_timeout. */
#define LAST_STEP_NS (10 * LLS_NS_PER_S)

static void on_look(uv_timer_t *timer)
{
  struct server *s = timer->data;
  struct lls_error why;
  int64_t now_ns = (int64_t)uv_hrtime();
  server_look_at_reload(s, now_ns);
  if (!lls_loop_look(s->loop, now_ns, s->config->server.watchdog))
    return;
  if (lls_loop_hangs(s->loop, &why))
    lls_log(&s->log, LLS_LOG_ERROR, "watchdog",
            "%s: requests stand still, /live answers 503 until it does", why.text);
  else
    lls_log(&s->log, LLS_LOG_WARNING, "watchdog", "it has returned: requests go on");
}

/* Checks four times within the limit, so that a hang is noticed after one and a half
 * limits at most. */
void server_look(struct server *s)
{
  uint64_t every_ms = (uint64_t)s->config->server.watchdog / 1000000 / 4;
  on_look(&s->look);
  if (s->config->server.watchdog > 0)
    uv_timer_start(&s->look, on_look, every_ms, every_ms > 0 ? every_ms : 1);
  else
    uv_timer_stop(&s->look);
}

/* Exits without destructors, because the objects that a hung thread uses cannot be
 * freed. */
__attribute__((noreturn)) static void end_without(struct server *s, const char *what)
{
  lls_log(&s->log, LLS_LOG_ERROR, "server", "%s: ending without it", what);
  lls_log_sink_flush(s->log.sink);
  _exit(EXIT_FAILURE);
}

void server_end_steps(struct server *s)
{
  struct lls_error why;
  if (s->loop == NULL)
    return;
  bool hangs = lls_loop_hangs(s->loop, &why);
  int64_t now_ns = (int64_t)uv_hrtime(), wait_ns = hangs ? 0 : LAST_STEP_NS;
  lls_loop_look(s->loop, now_ns, LAST_STEP_NS);
  if (lls_loop_stop(s->loop, wait_ns)) {
    if (!server_end_reloads(s, LAST_STEP_NS))
      end_without(s, "a plugin is still being created for a reload");
    return;
  }
  lls_loop_look(s->loop, now_ns + LAST_STEP_NS, LAST_STEP_NS);
  end_without(s, lls_loop_hangs(s->loop, &why) ? why.text : "a step takes too long");
}
