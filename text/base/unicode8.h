/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Characters without a category in BERT's reference implementation, whose tables (the
 * crate unicode_categories 0.1.1) are those of Unicode 8.0: the nonspacing marks,
 * punctuation and format characters added to Unicode since, up to 18.0.0. An unassigned
 * character has no category in the reference either.
 *
 * tools/unicode8.py generates this file; it queries tokenizers 0.23.3 about every
 * character.
 */
#ifndef LLS_TEXT_UNICODE8_H
#define LLS_TEXT_UNICODE8_H

/* clang-format off */
/* Each macro is a list of range(first, last), in hexadecimal without 0x. */
/* Nonspacing marks added after Unicode 8.0. */
#define LLS_MARKS_SINCE_8(range)                                                       \
  range(5c8, 5c9) range(7fd, 7fd) range(897, 89f) range(8ca, 8e1) range(9fe, 9fe)      \
  range(afa, aff) range(b53, b55) range(c04, c04) range(c3c, c3c) range(d00, d00)      \
  range(d3b, d3c) range(d81, d81) range(eba, eba) range(ece, ece)                      \
  range(180f, 180f) range(1885, 1886) range(1abf, 1af0) range(1df6, 1dfb)              \
  range(a82c, a82c) range(a8c5, a8c5) range(a8ff, a8ff) range(a9bd, a9bd)              \
  range(10d24, 10d27) range(10d69, 10d6d) range(10eab, 10eac) range(10ecb, 10ecf)      \
  range(10ef0, 10eff) range(10f46, 10f50) range(10f82, 10f85) range(11070, 11070)      \
  range(11073, 11074) range(110c2, 110c2) range(111c9, 111c9) range(111cf, 111cf)      \
  range(1123e, 1123e) range(11241, 11241) range(1133b, 1133b) range(113bb, 113c0)      \
  range(113ce, 113ce) range(113d0, 113d0) range(113d2, 113d2) range(113e1, 113e2)      \
  range(11438, 1143f) range(11442, 11444) range(11446, 11446) range(1145e, 1145e)      \
  range(1182f, 11837) range(11839, 1183a) range(1193b, 1193c) range(1193e, 1193e)      \
  range(11943, 11943) range(119d4, 119d7) range(119da, 119db) range(119e0, 119e0)      \
  range(11a01, 11a0a) range(11a33, 11a38) range(11a3b, 11a3e) range(11a47, 11a47)      \
  range(11a51, 11a56) range(11a59, 11a5b) range(11a8a, 11a96) range(11a98, 11a99)      \
  range(11b60, 11b60) range(11b62, 11b64) range(11b66, 11b66) range(11c30, 11c36)      \
  range(11c38, 11c3d) range(11c3f, 11c3f) range(11c92, 11ca7) range(11caa, 11cb0)      \
  range(11cb2, 11cb3) range(11cb5, 11cb6) range(11d31, 11d36) range(11d3a, 11d3a)      \
  range(11d3c, 11d3d) range(11d3f, 11d45) range(11d47, 11d47) range(11d90, 11d91)      \
  range(11d95, 11d95) range(11d97, 11d97) range(11df0, 11df0) range(11ef3, 11ef4)      \
  range(11f00, 11f01) range(11f36, 11f3a) range(11f40, 11f40) range(11f42, 11f42)      \
  range(11f5a, 11f5a) range(13440, 13440) range(13447, 13455) range(1611e, 16120)      \
  range(16129, 16129) range(1612d, 1612f) range(16f4f, 16f4f) range(16fe4, 16fe4)      \
  range(1cf00, 1cf2d) range(1cf30, 1cf46) range(1d127, 1d128) range(1d25b, 1d25c)      \
  range(1e000, 1e006) range(1e008, 1e018) range(1e01b, 1e021) range(1e023, 1e024)      \
  range(1e026, 1e02a) range(1e08f, 1e08f) range(1e130, 1e136) range(1e2ae, 1e2ae)      \
  range(1e2ec, 1e2ef) range(1e4ec, 1e4ef) range(1e5ee, 1e5ef) range(1e6e3, 1e6e3)      \
  range(1e6e6, 1e6e6) range(1e6ee, 1e6ef) range(1e6f5, 1e6f5) range(1e944, 1e94a)

/* Nonspacing marks in Unicode 8.0 that have another category now. */
#define LLS_MARKS_OF_8(range)                                                          \
  range(1734, 1734) range(1171e, 1171e)

/* Punctuation added after Unicode 8.0. */
#define LLS_PUNCTUATION_SINCE_8(range)                                                 \
  range(61d, 61d) range(9fd, 9fd) range(a76, a76) range(c77, c77) range(c84, c84)      \
  range(1b4e, 1b4f) range(1b7d, 1b7f) range(2e43, 2e4f) range(2e52, 2e5d)              \
  range(2e60, 2e63) range(10d6e, 10d6e) range(10ead, 10ead) range(10ed0, 10ed0)        \
  range(10f55, 10f59) range(10f86, 10f89) range(113d4, 113d5) range(113d7, 113d8)      \
  range(1144b, 1144f) range(1145a, 1145b) range(1145d, 1145d) range(11660, 1166c)      \
  range(116b9, 116b9) range(1183b, 1183b) range(11944, 11946) range(119e2, 119e2)      \
  range(11a3f, 11a46) range(11a9a, 11a9c) range(11a9e, 11aa2) range(11b00, 11b09)      \
  range(11be1, 11be1) range(11c41, 11c45) range(11c70, 11c71) range(11ef7, 11ef8)      \
  range(11f43, 11f4f) range(11fff, 11fff) range(12ff1, 12ff2) range(16d6d, 16d6f)      \
  range(16e97, 16e9a) range(16fe2, 16fe2) range(1e5ff, 1e5ff) range(1e95e, 1e95f)

/* Punctuation in Unicode 8.0 that has another category now. */
#define LLS_PUNCTUATION_OF_8(range)                                                    \
  range(166d, 166d) range(111c9, 111c9)

/* Format characters added after Unicode 8.0. */
#define LLS_FORMAT_SINCE_8(range)                                                      \
  range(890, 891) range(8e2, 8e2) range(110cd, 110cd) range(13430, 1343f)

/* clang-format on */
#endif
