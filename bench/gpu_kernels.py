# SPDX-License-Identifier: Apache-2.0
# bench/gpu_kernels.py: reads the output of `ncu --csv --page raw` for one step from standard input and
# prints a line for each kernel: calls, microseconds in all, bytes of DRAM a second. Runs on the machine
# with the GPU.
import csv
import re
import sys

rows = list(csv.reader(line for line in sys.stdin if line.startswith('"')))
if len(rows) < 3:
    sys.exit("no kernels")
names, units = rows[0], rows[1]
at = {name: i for i, name in enumerate(names)}
TIME, BYTES = at["gpu__time_duration.sum"], at["dram__bytes.sum"]
to_us = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3}[units[TIME]]
to_mb = {"byte": 1e-6, "Kbyte": 1e-3, "Mbyte": 1, "Gbyte": 1e3}[units[BYTES]]
total = {}
for row in rows[2:]:
    name = re.sub(r"^void |\(.*|<unnamed>::", "", row[at["Kernel Name"]])
    key = name[:70], row[at["Grid Size"]]
    n, us, mb = total.get(key, (0, 0, 0))
    total[key] = (
        n + 1,
        us + float(row[TIME].replace(",", "")) * to_us,
        mb + float(row[BYTES].replace(",", "")) * to_mb,
    )
print(f"{'kernel':70} {'grid':>16} {'n':>4} {'us':>9} {'GB/s':>6}")
for (name, grid), (n, us, mb) in sorted(total.items(), key=lambda x: -x[1][1]):
    print(f"{name:70} {grid:>16} {n:4} {us:9.1f} {mb * 1e3 / us if us else 0:6.0f}")
print(f"{'all':70} {'':>16} {sum(x[0] for x in total.values()):4} {sum(x[1] for x in total.values()):9.1f}")
