//! The tables in Markdown: minimum, median and maximum of each figure.

use super::process::Fields;
use super::report::{Row, Spread, rows};
use super::workload::Workload;

/// A figure, shown divided by `unit`.
struct Column {
    title: &'static str,
    field: &'static str,
    unit: f64,
    decimals: usize,
}

/// Workloads that have the same figures.
struct Table {
    workloads: &'static [Workload],
    columns: &'static [Column],
}

const fn column(title: &'static str, field: &'static str, unit: f64, decimals: usize) -> Column {
    Column { title, field, unit, decimals }
}

const PEAK: Column = column("peak RSS MB", "peak_rss_mb", 1.0, 0);

const TABLES: &[Table] = &[
    Table {
        workloads: &[Workload::Copy, Workload::Count],
        columns: &[
            column("k records/s", "records_per_s", 1e3, 1),
            column("k records/CPU-s", "records_per_cpu_s", 1e3, 1),
            column("2nd half k records/CPU-s", "half2_records_per_cpu_s", 1e3, 1),
            PEAK,
        ],
    },
    Table {
        workloads: &[Workload::Restore],
        columns: &[
            column("start → running s", "seconds_to_running", 1.0, 1),
            column("k restored/s", "restored_per_s", 1e3, 1),
            column("k restored/CPU-s", "restored_per_cpu_s", 1e3, 1),
            PEAK,
        ],
    },
    Table {
        workloads: &[Workload::Crash],
        columns: &[
            column("kill → running s", "kill_to_running_s", 1.0, 1),
            column("kill → first record s", "kill_to_first_record_s", 1.0, 1),
            column("k restored", "restored", 1e3, 1),
            column("restoring s", "restore_s", 1.0, 1),
            PEAK,
        ],
    },
];

/// All tables that have a row.
pub(super) fn render(lines: &[Fields]) -> String {
    TABLES.iter().filter_map(|table| render_table(table, lines)).collect()
}

fn render_table(table: &Table, lines: &[Fields]) -> Option<String> {
    let all = rows(lines);
    let ours = |row: &&Row<'_>| table.workloads.iter().any(|workload| workload.name() == row.workload);
    let rows: Vec<&Row<'_>> = all.iter().filter(ours).collect();
    rows.first()?;
    let titles: Vec<&str> = table.columns.iter().map(|column| column.title).collect();
    let mut text = format!("| workload | keys | guarantee | who | {} |\n", titles.join(" | "));
    text.push_str(&"|---".repeat(4 + titles.len()));
    text.push_str("|\n");
    for row in rows {
        let Row { workload, distribution, guarantee, contender } = row;
        let cells: Vec<String> = table.columns.iter().map(|column| cell(column, row, lines)).collect();
        text.push_str(&format!(
            "| {workload} | {distribution} | {guarantee} | {contender} | {} |\n",
            cells.join(" | ")
        ));
    }
    text.push('\n');
    Some(text)
}

fn cell(column: &Column, row: &Row<'_>, lines: &[Fields]) -> String {
    let Column { unit, decimals, .. } = column;
    let values = row.values(lines, column.field);
    match (Spread::of(values.clone()), values.as_slice()) {
        (None, _) => "–".to_owned(),
        (Some(_), [one]) => format!("{:.decimals$}", one / unit),
        (Some(Spread { min, median, max }), _) => {
            format!("{:.decimals$} / {:.decimals$} / {:.decimals$}", min / unit, median / unit, max / unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::lines;
    use super::*;

    #[test]
    fn a_row_has_minimum_median_and_maximum_of_its_turns() {
        let turn = |n: f64| lines(Workload::Copy, "Millpond", &[("records_per_s", n), ("peak_rss_mb", 80.4)]);
        let text = render(&[turn(3_000.0), turn(1_000.0), turn(2_500.0)].concat());
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 5, "{text}");
        assert_eq!(rows[2], "| copy | uniform | alos | Millpond | 1.0 / 2.5 / 3.0 | – | – | 80 / 80 / 80 |");
        assert!(rows[3].starts_with("| copy | uniform | eos | Millpond |"), "{text}");
    }

    #[test]
    fn a_single_turn_is_one_number_and_a_table_without_rows_is_left_out() {
        let text =
            render(&lines(Workload::Crash, "Kafka Streams", &[("kill_to_running_s", 11.26), ("restored", 500.0)]));
        assert!(text.contains("| crash | uniform | alos | Kafka Streams | 11.3 | – | 0.5 | – | – |"), "{text}");
        assert!(!text.contains("records/s"), "{text}");
        assert_eq!(render(&[]), "");
    }

    #[test]
    fn all_rows_of_a_table_are_as_wide_as_its_head() {
        for workload in Workload::ALL {
            let text = render(&lines(workload, "Millpond", &[("records", 1.0)]));
            let bars: Vec<usize> = text.trim().lines().map(|line| line.matches('|').count()).collect();
            assert!(bars.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
        }
    }
}
