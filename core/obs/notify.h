/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports the state of the server to the service manager with the protocol of
 * sd_notify(3): a datagram of VARIABLE=value lines to the socket in NOTIFY_SOCKET.
 * Without NOTIFY_SOCKET the functions do nothing. The protocol is documented as stable
 * and simple enough to implement directly, so that no library is needed and every build
 * has it.
 */
#ifndef LLS_OBS_NOTIFY_H
#define LLS_OBS_NOTIFY_H

#include <stdint.h>

/* [main] Sends a state such as "READY=1\nSTATUS=...". */
void lls_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* [main] Returns the interval within which WATCHDOG=1 must be sent again and again; 0 if
 * the watchdog is off. */
int64_t lls_notify_watchdog_ns(void);

#endif
