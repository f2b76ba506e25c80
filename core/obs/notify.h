/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling the service manager how it goes: sd_notify(3)'s protocol, a datagram of
 * VARIABLE=value lines to the socket that NOTIFY_SOCKET names. Without one everything
 * here does nothing. The protocol is documented as stable and to be spoken by oneself, so
 * that no library is needed and every build has it.
 */
#ifndef LLS_OBS_NOTIFY_H
#define LLS_OBS_NOTIFY_H

#include <stdint.h>

/* [main] "READY=1\nSTATUS=..." */
void lls_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* [main] Nanoseconds within which WATCHDOG=1 is expected again and again; 0 =
 * it isn't. */
int64_t lls_notify_watchdog_ns(void);

#endif
