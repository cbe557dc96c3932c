//! Who is how many times as good as whom, and the floors that must be held.

use super::process::Fields;
use super::report::{Row, Spread, rows};
use super::workload::{MILLPOND, MILLPOND_SMALL, PEER, PEER_UNCACHED, RAW, Workload};

/// What a ratio must be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Floor {
    /// It is only told.
    None,
    AtLeast(f64),
    Below(f64),
}

/// A ratio of two medians, in every group that has both.
struct Comparison {
    workload: Workload,
    /// `None`: with every distribution.
    distribution: Option<&'static str>,
    field: &'static str,
    title: &'static str,
    of: &'static str,
    to: &'static str,
    floor: Floor,
}

const PER_S: (&str, &str) = ("records_per_s", "records/s");
const PER_CPU: (&str, &str) = ("records_per_cpu_s", "records/CPU-s");
const PEAK: (&str, &str) = ("peak_rss_mb", "peak memory");

const fn compare(
    workload: Workload,
    figure: (&'static str, &'static str),
    to: &'static str,
    floor: Floor,
) -> Comparison {
    let (field, title) = figure;
    Comparison { workload, distribution: None, field, title, of: MILLPOND, to, floor }
}

const fn with_keys(distribution: &'static str, comparison: Comparison) -> Comparison {
    Comparison { distribution: Some(distribution), ..comparison }
}

const COMPARISONS: &[Comparison] = &[
    compare(Workload::Copy, PER_CPU, RAW, Floor::AtLeast(0.6)),
    compare(Workload::Copy, PER_S, RAW, Floor::None),
    compare(Workload::Copy, PER_CPU, PEER, Floor::None),
    compare(Workload::Copy, PER_S, PEER, Floor::None),
    with_keys("uniform", compare(Workload::Count, PER_CPU, PEER, Floor::AtLeast(3.0))),
    with_keys("zipf", compare(Workload::Count, PER_CPU, PEER, Floor::AtLeast(2.0))),
    compare(Workload::Count, PEAK, PEER, Floor::Below(1.0)),
    compare(Workload::Count, PER_S, PEER, Floor::None),
    compare(Workload::Count, PER_CPU, PEER_UNCACHED, Floor::None),
    compare(Workload::Count, PEAK, PEER_UNCACHED, Floor::None),
    Comparison { of: MILLPOND_SMALL, ..compare(Workload::Count, PER_CPU, PEER, Floor::None) },
    Comparison { of: MILLPOND_SMALL, ..compare(Workload::Count, PEAK, PEER, Floor::None) },
    compare(Workload::Restore, ("restored_per_s", "restored/s"), PEER, Floor::None),
    compare(Workload::Restore, ("restored_per_cpu_s", "restored/CPU-s"), PEER, Floor::None),
    compare(Workload::Restore, PEAK, PEER, Floor::None),
    compare(Workload::Crash, ("kill_to_running_s", "time from kill to running"), PEER, Floor::None),
    compare(Workload::Crash, ("kill_to_first_record_s", "time from kill to first record"), PEER, Floor::None),
];

/// A line for each ratio, as a list in Markdown.
pub(super) fn render(lines: &[Fields]) -> String {
    let rows = rows(lines);
    COMPARISONS.iter().flat_map(|comparison| of_all_groups(comparison, &rows, lines)).collect()
}

fn of_all_groups(comparison: &Comparison, rows: &[Row<'_>], lines: &[Fields]) -> Vec<String> {
    let Comparison { workload, distribution, field, title, of, to, floor } = comparison;
    let mut text = Vec::new();
    for row in rows.iter().filter(|row| row.workload == workload.name() && row.contender == *of) {
        if distribution.is_some_and(|distribution| distribution != row.distribution) {
            continue;
        }
        let median = |row: Row<'_>| Some(Spread::of(row.values(lines, field))?.median);
        let Some((above, below)) = median(*row).zip(median(Row { contender: to, ..*row })) else { continue };
        let ratio = above / below;
        let Row { workload, distribution, guarantee, .. } = row;
        let verdict = verdict(*floor, ratio);
        text.push(format!("- {workload} {distribution} {guarantee}, {title}: {of} / {to} = {ratio:.2}{verdict}\n"));
    }
    text
}

fn verdict(floor: Floor, ratio: f64) -> String {
    let (met, words) = match floor {
        Floor::None => return String::new(),
        Floor::AtLeast(least) => (ratio >= least, format!("at least {least}")),
        Floor::Below(most) => (ratio < most, format!("below {most}")),
    };
    format!(" (floor: {words}; {})", if met { "met" } else { "**missed**" })
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::lines;
    use super::*;

    #[test]
    fn a_ratio_is_that_of_the_medians_and_tells_whether_its_floor_is_held() {
        let of = |name: &str, n: f64| lines(Workload::Count, name, &[("records_per_cpu_s", n)]);
        let all = [of(MILLPOND, 90.0), of(MILLPOND, 500.0), of(MILLPOND, 250.0), of(PEER, 100.0)].concat();
        let text = render(&all);
        for line in [
            "- count uniform alos, records/CPU-s: Millpond / Kafka Streams = 2.50 (floor: at least 3; **missed**)",
            "- count uniform eos, records/CPU-s: Millpond / Kafka Streams = 2.50 (floor: at least 3; **missed**)",
            "- count zipf alos, records/CPU-s: Millpond / Kafka Streams = 2.50 (floor: at least 2; met)",
            "- count zipf eos, records/CPU-s: Millpond / Kafka Streams = 2.50 (floor: at least 2; met)",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(text.lines().count(), 4, "what has no figures on both sides is left out\n{text}");
    }

    #[test]
    fn a_copy_is_measured_by_the_raw_loop_and_memory_must_be_less() {
        let figures = |n| [("records_per_cpu_s", n), ("peak_rss_mb", n)];
        let copies =
            [lines(Workload::Copy, MILLPOND, &figures(6.0)), lines(Workload::Copy, RAW, &figures(10.0))].concat();
        let text = render(&copies);
        assert!(
            text.contains("copy uniform eos, records/CPU-s: Millpond / raw loop = 0.60 (floor: at least 0.6; met)"),
            "{text}"
        );
        assert_eq!(verdict(Floor::Below(1.0), 1.0), " (floor: below 1; **missed**)");
        assert_eq!(verdict(Floor::Below(1.0), 0.99), " (floor: below 1; met)");
        assert_eq!(verdict(Floor::AtLeast(3.0), 2.999), " (floor: at least 3; **missed**)");
        assert_eq!(verdict(Floor::None, 9.0), "");
    }

    #[test]
    fn every_comparison_finds_its_figures() {
        for comparison in COMPARISONS {
            let figures = [(comparison.field, 1.0)];
            let both = [comparison.of, comparison.to].map(|name| lines(comparison.workload, name, &figures)).concat();
            let named = format!("{}: {} / {} = 1.00", comparison.title, comparison.of, comparison.to);
            assert!(render(&both).contains(&named), "{named}");
        }
    }
}
