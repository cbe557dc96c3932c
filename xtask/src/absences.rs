//! What must not be in a crate's tree: checked in the tree that cargo resolves, not in the manifests.

use crate::cargo::{cargo, output};
use crate::error::Result;
use crate::report;

/// A tree, and the crates that must be missing from it.
struct Absence {
    package: &'static str,
    all_features: bool,
    missing: &'static [&'static str],
    because: &'static str,
}

const C_BUILDERS: &[&str] = &["cc", "cmake", "bindgen", "pkg-config"];
const TEST_TOOLS: &[&str] = &["proptest", "criterion"];

const ABSENCES: &[Absence] = &[
    Absence {
        package: "millpond-store-api",
        all_features: true,
        missing: &["tokio", "rdkafka", "rdkafka-sys", "rocksdb", "librocksdb-sys"],
        because: "who writes an engine compiles neither a runtime, nor Kafka, nor another engine",
    },
    Absence {
        package: "millpond",
        all_features: false,
        missing: C_BUILDERS,
        because: "an application on the default features needs nothing but Rust",
    },
    Absence {
        package: "millpond-example-flights",
        all_features: false,
        missing: C_BUILDERS,
        because: "the demo builds on a machine without a C compiler's friends",
    },
    Absence {
        package: "xtask",
        all_features: false,
        missing: &["clap", "libtest-mimic", "testcontainers", "tokio"],
        because: "the first `cargo xtask` on a machine is to start in seconds",
    },
    Absence {
        package: "millpond",
        all_features: true,
        missing: TEST_TOOLS,
        because: "a user does not compile our test tools",
    },
    Absence {
        package: "millpond-store-rocks",
        all_features: true,
        missing: TEST_TOOLS,
        because: "a user does not compile our test tools",
    },
];

/// Asks cargo for each tree.
pub(crate) fn run() -> Result<()> {
    let mut complaints = Vec::new();
    for absence in ABSENCES {
        let mut command = cargo(&["tree", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"]);
        command.args(["--package", absence.package]);
        if absence.all_features {
            command.arg("--all-features");
        }
        complaints.extend(check(absence, &output(&mut command)?));
    }
    report("absences", &complaints)
}

fn check(absence: &Absence, tree: &str) -> Vec<String> {
    let Absence { package, all_features, missing, because } = absence;
    let features = if *all_features { "all features" } else { "default features" };
    // Each line is `name version …`.
    let names = tree.lines().filter_map(|line| line.split_whitespace().next()).collect::<Vec<_>>();
    if names.first() != Some(package) {
        return vec![format!("{package}: cargo tree answered with something else")];
    }
    let found = missing.iter().filter(|name| names.contains(name));
    found
        .map(|name| format!("{package} ({features}): `{name}` is in the tree, but {because}; `cargo tree -p {package} -e normal,build -i {name}` shows how it came"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACADE: Absence =
        Absence { package: "millpond", all_features: false, missing: C_BUILDERS, because: "it shall not" };

    #[test]
    fn what_is_there_and_should_not_be_is_named() {
        let found = check(&FACADE, "millpond v0.1.0 (/x)\nlibz-sys v1.1.0\ncc v1.2.0\n");
        assert_eq!(found.len(), 1);
        assert!(found.first().unwrap().contains("`cc` is in the tree"), "{found:?}");
    }

    #[test]
    fn a_name_that_only_begins_alike_passes() {
        assert!(check(&FACADE, "millpond v0.1.0 (/x)\nccsds v1.0.0\n").is_empty());
    }

    #[test]
    fn an_answer_about_something_else_is_no_proof() {
        assert_eq!(check(&FACADE, "").len(), 1);
    }
}
