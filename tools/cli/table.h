/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short names for the rows of an option table. The file with the table defines OPTIONS
 * as the struct that its options are bound to, and includes this header last. No other
 * file includes it.
 */
#define INT(member, fallback, least, most, unit, ...)                                    \
  LLS_PARAM_INT(OPTIONS, member, fallback, least, most, unit, __VA_ARGS__)
#define REAL(member, fallback, least, most, ...)                                         \
  LLS_PARAM_FLOAT(OPTIONS, member, fallback, least, most, "", __VA_ARGS__)
#define TEXT(member, fallback, ...)                                                      \
  LLS_PARAM_STRING(OPTIONS, member, fallback, __VA_ARGS__)
#define FLAG(member, fallback, ...) LLS_PARAM_BOOL(OPTIONS, member, fallback, __VA_ARGS__)
#define TIME(member, fallback, ...)                                                      \
  LLS_PARAM_DURATION(OPTIONS, member, fallback, 0, TIME_MAX, __VA_ARGS__)
#define CHOICE(member, fallback, choices, ...)                                           \
  LLS_PARAM_CHOICE(OPTIONS, member, fallback, choices, __VA_ARGS__)
#define LIST(member, ...)                                                                \
  LLS_PARAM_STRING(OPTIONS, member, "", __VA_ARGS__, .flags = LLS_OPTION_LIST)
#define AUTO          .flags = LLS_PARAM_AUTO
#define APART         .flags = LLS_OPTION_APART
#define OUTPUT        .flags = LLS_OPTION_APART | LLS_OPTION_FILE
#define FOLDER_OPTION .flags = LLS_OPTION_FOLDER
#define FILE_OPTION   .flags = LLS_OPTION_FILE
#define TIME_MAX      (366.0 * 86400 * LLS_NS_PER_S) /* a year */
