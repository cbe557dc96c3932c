//! The allowed arrows between our crates: one table, and its comparison with the manifests.
//!
//! A new arrow is a change of this table, and so a decision that a reviewer sees.

use crate::cargo::{Dependency, Kind, Package, workspace};
use crate::error::Result;
use crate::report;

/// What one crate may use of ours. Names are those of the folders, `millpond-` is left out.
struct Row {
    name: &'static str,
    /// Ordinary dependencies.
    uses: &'static [&'static str],
    /// Ordinary dependencies that a feature, off by default, must switch on.
    optional: &'static [&'static str],
    /// What its tests, examples and benches may use besides.
    tests: &'static [&'static str],
    /// Whether it links C; plain `cargo build` leaves such a crate out.
    links_c: bool,
}

const NOTHING: &[&str] = &[];

/// A row without optional arrows, for a crate that links no C.
const fn row(name: &'static str, uses: &'static [&'static str], tests: &'static [&'static str]) -> Row {
    Row { name, uses, optional: NOTHING, tests, links_c: false }
}

const TABLE: &[Row] = &[
    // The seams use nothing of ours: who implements an engine must not compile a stream processor.
    row("store-api", NOTHING, NOTHING),
    row("broker-api", NOTHING, NOTHING),
    // Implementations know their seam and nothing else.
    row("store-mem", &["store-api"], &["store-conformance"]),
    // Its tests put the full stack over it, which `testkit` has, and random topologies; so they stand beside the engine's other
    // tests, and what links C stays out of the tests of `testkit`.
    Row {
        name: "store-rocks",
        uses: &["store-api"],
        optional: NOTHING,
        tests: &["runtime", "store-conformance", "testkit", "topology"],
        links_c: true,
    },
    row("store-conformance", &["store-api"], &["store-mem"]),
    row("broker-mem", &["broker-api"], NOTHING),
    Row { name: "broker-kafka", uses: &["broker-api"], optional: NOTHING, tests: &["kafka-dev"], links_c: true },
    // Starts real brokers; knows nothing of what is tested on them.
    row("kafka-dev", NOTHING, NOTHING),
    // The C is in its Docker client's cryptography. Apart from all other crates: see `cargo::WORKSPACE`.
    Row { name: "kafka-docker", uses: &["kafka-dev"], optional: NOTHING, tests: NOTHING, links_c: true },
    row("topology", &["store-api"], NOTHING),
    // Its tests read the formats of serdes as well, so that all golden bytes are counted in one place.
    row("changelog", &["broker-api", "store-api"], &["topology"]),
    row("runtime", &["broker-api", "changelog", "store-api", "topology"], &["broker-mem", "store-mem"]),
    // It joins the two halves that know nothing of each other: the cases, which are for engines, and the overlay, through which
    // they run for the full stack. By a feature: who tests a topology compiles no cases.
    Row {
        name: "testkit",
        uses: &["broker-api", "broker-mem", "changelog", "runtime", "store-api", "store-mem", "topology"],
        optional: &["store-conformance"],
        tests: NOTHING,
        links_c: false,
    },
    Row {
        name: "millpond",
        uses: &["broker-api", "broker-mem", "changelog", "runtime", "store-api", "store-mem", "topology"],
        optional: &["broker-kafka", "store-rocks"],
        tests: &["testkit"],
        links_c: false,
    },
    // What a stranger copies for an engine, so it has what a stranger's engine has.
    row("example-custom-engine", &["store-api"], &["millpond", "store-conformance", "store-mem", "testkit"]),
    Row {
        name: "bench",
        uses: &[
            "broker-api",
            "broker-kafka",
            "broker-mem",
            "changelog",
            "example-custom-engine",
            "kafka-dev",
            "millpond",
            "runtime",
            "store-api",
            "store-mem",
            "store-rocks",
            "testkit",
            "topology",
        ],
        optional: NOTHING,
        tests: NOTHING,
        links_c: true,
    },
    row("example-flights", &["example-custom-engine", "millpond"], &["kafka-dev"]),
    // Any other example shows what a user writes: the facade, and the test driver for its tests.
    row("example-*", &["millpond"], &["kafka-dev", "testkit"]),
    row("xtask", &["kafka-dev"], NOTHING),
];

/// Compares the workspace with the table.
pub(crate) fn run() -> Result<()> {
    report("layers", &check(&workspace()?))
}

fn check(packages: &[Package]) -> Vec<String> {
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<String> {
    let name = short(&package.name);
    let Some(row) = TABLE.iter().find(|row| matches(row.name, name)) else {
        return vec![format!("{name}: has no row in the table of xtask/src/layers.rs; add one that lists its arrows")];
    };
    let mut complaints = Vec::new();
    if package.is_default == row.links_c {
        let verb = if row.links_c { "must not be" } else { "must be" };
        complaints
            .push(format!("{name}: {verb} in `default-members` of the root Cargo.toml (links_c = {})", row.links_c));
    }
    let ours = package.dependencies.iter().filter(|dependency| is_ours(&dependency.name));
    complaints.extend(ours.filter_map(|dependency| refuse(row, dependency).map(|why| format!("{name}: {why}"))));
    complaints
}

/// Why an arrow is not allowed, if it is not.
fn refuse(row: &Row, dependency: &Dependency) -> Option<String> {
    let target = short(&dependency.name);
    let allowed = match dependency.kind {
        Kind::Normal if row.uses.contains(&target) => true,
        Kind::Normal if row.optional.contains(&target) => {
            if !dependency.optional {
                return Some(format!("`{target}` must be optional, switched on by a feature that is off by default"));
            }
            true
        }
        Kind::Dev => [row.uses, row.optional, row.tests].iter().any(|list| list.contains(&target)),
        Kind::Normal | Kind::Build => false,
    };
    let kind = match dependency.kind {
        Kind::Normal => "dependency",
        Kind::Build => "build-dependency",
        Kind::Dev => "dev-dependency",
    };
    (!allowed).then(|| format!("the {kind} `{target}` is no allowed arrow, see the table in xtask/src/layers.rs"))
}

fn is_ours(name: &str) -> bool {
    name == "xtask" || name == "millpond" || name.starts_with("millpond-")
}

fn short(name: &str) -> &str {
    name.strip_prefix("millpond-").unwrap_or(name)
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Kind)]) -> Package {
        let dependency = |&(name, kind): &(&str, Kind)| Dependency {
            name: name.to_owned(),
            kind,
            optional: false,
            features: Vec::new(),
        };
        Package {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml").into(),
            has_library: true,
            is_default: true,
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    fn complaints(name: &str, dependencies: &[(&str, Kind)]) -> Vec<String> {
        check(&[package(name, dependencies)])
    }

    #[test]
    fn a_crate_without_a_row_is_refused() {
        assert!(complaints("millpond-util", &[]).first().unwrap().contains("has no row"));
    }

    #[test]
    fn a_listed_arrow_passes_and_foreign_crates_are_not_looked_at() {
        let arrows = [("millpond-store-api", Kind::Normal), ("serde", Kind::Normal), ("millpond-store-api", Kind::Dev)];
        assert_eq!(complaints("millpond-topology", &arrows), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_that_is_not_listed_is_refused() {
        let refused = complaints("millpond-store-api", &[("millpond-topology", Kind::Normal)]);
        assert!(refused.first().unwrap().contains("dependency `topology`"), "{refused:?}");
    }

    #[test]
    fn what_tests_may_use_the_crate_may_not() {
        assert!(complaints("millpond-store-mem", &[("millpond-store-conformance", Kind::Dev)]).is_empty());
        assert_eq!(complaints("millpond-store-mem", &[("millpond-store-conformance", Kind::Normal)]).len(), 1);
        assert_eq!(complaints("millpond-store-mem", &[("millpond-store-api", Kind::Build)]).len(), 1);
    }

    #[test]
    fn the_facade_takes_rocks_only_behind_a_feature() {
        let mut facade = package("millpond", &[("millpond-store-rocks", Kind::Normal)]);
        assert!(check(&[facade.clone()]).first().unwrap().contains("must be optional"));
        facade.dependencies.iter_mut().for_each(|dependency| dependency.optional = true);
        assert!(check(&[facade]).is_empty());
    }

    #[test]
    fn what_links_c_is_no_default_member_and_the_rest_is() {
        let mut rocks = package("millpond-store-rocks", &[]);
        assert!(check(&[rocks.clone()]).first().unwrap().contains("must not be in `default-members`"));
        rocks.is_default = false;
        assert!(check(&[rocks]).is_empty());
        let mut example = package("millpond-example-flights", &[]);
        example.is_default = false;
        assert!(check(&[example]).first().unwrap().contains("must be in `default-members`"));
    }

    #[test]
    fn the_table_has_no_cycle() {
        // In table order a crate may only use what stands above it, but for the tests' arrows.
        for (index, row) in TABLE.iter().enumerate() {
            for used in row.uses.iter().chain(row.optional) {
                let position = TABLE.iter().position(|other| other.name == *used);
                assert!(position.is_some_and(|position| position < index), "{} uses {used}", row.name);
            }
        }
    }
}
