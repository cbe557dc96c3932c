//! Rules for the manifests of our packages.

use std::fs;
use std::path::Path;

use crate::cargo::Package;
use crate::error::{Error, Result};

/// The packages that may hold `unsafe`, in a module `ffi`. They cannot inherit lints that forbid it, so they repeat them.
pub(super) const UNSAFE_PACKAGES: &[&str] = &["millpond-broker-kafka", "millpond-store-rocks"];

/// What every package takes from the workspace.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

pub(super) fn check(package: &Package, root: &Path) -> Result<Vec<String>> {
    let path = &package.manifest;
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| Error::io("cannot read", path, &error));
    let (text, workspace) = (read(path)?, read(&root.join("Cargo.toml"))?);
    let path = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
    let mut complaints = check_text(&package.name, &path, &text);
    complaints.extend(check_lints(&package.name, &path, &text, &workspace));
    Ok(complaints)
}

/// Lints are inherited, or repeated with `unsafe_code` denied where the package may hold some.
fn check_lints(name: &str, path: &str, text: &str, workspace: &str) -> Option<String> {
    let entries = entries(text);
    if entries.iter().any(|entry| entry.table == "lints" && entry.line == "workspace = true") {
        return None;
    }
    if !UNSAFE_PACKAGES.contains(&name) {
        return Some(format!("{path}: needs `[lints]` with `workspace = true`"));
    }
    let expected = lints(workspace, "workspace.lints.").replace("unsafe_code = \"forbid\"", "unsafe_code = \"deny\"");
    (lints(text, "lints.") != expected).then(|| {
        format!("{path}: `[lints.…]` must repeat the workspace's, with `unsafe_code = \"deny\"` as the only difference")
    })
}

fn lints(text: &str, prefix: &str) -> String {
    let lints = entries(text)
        .into_iter()
        .filter_map(|entry| entry.table.strip_prefix(prefix).map(|table| format!("{table}: {}", entry.line)));
    let mut lines = lints.collect::<Vec<_>>();
    lines.sort();
    lines.join("\n")
}

fn check_text(name: &str, path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    match expected_name(path) {
        Some(expected) if expected == name => {}
        Some(expected) => {
            complaints.push(format!("{path}: the package is called `{name}`, its folder says `{expected}`"))
        }
        None => complaints.push(format!("{path}: packages lie flat in crates/ or examples/, and xtask in the root")),
    }
    let entries = entries(text);
    let has = |line: &str| entries.iter().any(|entry| entry.table == "package" && entry.line == line);
    for field in INHERITED {
        if !has(&format!("{field}.workspace = true")) {
            complaints.push(format!("{path}: [package] needs `{field}.workspace = true`"));
        }
    }
    if !entries.iter().any(|entry| entry.table == "package" && entry.line.starts_with("description = ")) {
        complaints.push(format!("{path}: [package] needs a `description`"));
    }
    let dependencies = entries.iter().filter(|entry| entry.table.ends_with("dependencies"));
    let versioned = dependencies.filter(|entry| !entry.line.contains("workspace = true"));
    complaints.extend(versioned.map(|entry| {
        format!(
            "{path}: `{}`: versions and paths belong to [workspace.dependencies], here `workspace = true`",
            entry.line
        )
    }));
    complaints
}

/// `crates/store-api/Cargo.toml` is `millpond-store-api`; the facade's folder is its name.
fn expected_name(path: &str) -> Option<String> {
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["crates", "millpond", "Cargo.toml"] => Some("millpond".to_owned()),
        ["crates", folder, "Cargo.toml"] => Some(format!("millpond-{folder}")),
        ["examples", folder, "Cargo.toml"] => Some(format!("millpond-example-{folder}")),
        ["xtask", "Cargo.toml"] => Some("xtask".to_owned()),
        _ => None,
    }
}

/// A line of a table. Our manifests are plain: one entry a line, or one that goes on over lines in brackets.
struct Entry<'a> {
    table: &'a str,
    line: String,
}

fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut table = "";
    let mut entries = Vec::<Entry<'_>>::new();
    let mut open = 0;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if open > 0 {
            entries.last_mut().expect("an open bracket began an entry").line.push_str(line);
        } else if let Some(name) = line.strip_prefix('[') {
            table = name.trim_matches(['[', ']']);
            continue;
        } else {
            entries.push(Entry { table, line: line.to_owned() });
        }
        open += line.matches(['[', '{']).count();
        open = open.saturating_sub(line.matches([']', '}']).count());
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
[package]
name = \"millpond-topology\"
description = \"The graph.\"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true

[features]
default = [
    \"a\",
]

[dependencies]
# A comment.
bytes.workspace = true
serde = { workspace = true, optional = true }
tracing = { workspace = true, features = [
    \"std\",
] }

[lints]
workspace = true
";

    fn complaints(text: &str) -> Vec<String> {
        check_text("millpond-topology", "crates/topology/Cargo.toml", text)
    }

    #[test]
    fn a_good_manifest_passes() {
        assert_eq!(complaints(GOOD), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_inherited_is_found() {
        for field in INHERITED {
            let text = GOOD.replace(&format!("\n{field}.workspace = true\n"), &format!("\n{field} = \"1\"\n"));
            assert_eq!(complaints(&text).len(), 1, "{field}");
        }
        assert_eq!(complaints(&GOOD.replace("description", "summary")).len(), 1);
    }

    #[test]
    fn lints_are_inherited_or_repeated_where_unsafe_is_allowed() {
        let workspace = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\nmissing_docs = \"warn\"\n\
                         [workspace.lints.clippy]\ntodo = \"warn\"\n";
        let check = |name: &str, text: &str| check_lints(name, "Cargo.toml", text, workspace);
        assert_eq!(check("millpond-topology", GOOD), None);
        assert!(check("millpond-topology", "").unwrap().contains("workspace = true"));

        let repeated =
            "[lints.rust]\nmissing_docs = \"warn\"\nunsafe_code = \"deny\"\n[lints.clippy]\ntodo = \"warn\"\n";
        assert_eq!(check("millpond-store-rocks", repeated), None);
        assert!(check("millpond-topology", repeated).is_some());
        for weaker in [repeated.replace("deny", "warn"), repeated.replace("todo", "dbg_macro"), String::new()] {
            assert!(check("millpond-store-rocks", &weaker).unwrap().contains("must repeat"), "{weaker}");
        }
    }

    #[test]
    fn a_dependency_with_its_own_version_is_found() {
        for line in ["rand = \"0.9\"", "rand = { version = \"0.9\" }", "other = { path = \"../other\" }"] {
            for table in ["dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"] {
                let found = complaints(&format!("{GOOD}\n[{table}]\n{line}\n"));
                assert_eq!(found.len(), 1, "{line}: {found:?}");
            }
        }
    }

    #[test]
    fn the_folder_names_the_package() {
        assert_eq!(check_text("topology", "crates/topology/Cargo.toml", GOOD).len(), 1);
        assert_eq!(check_text("millpond-topology", "crates/deep/topology/Cargo.toml", GOOD).len(), 1);
        assert_eq!(expected_name("crates/millpond/Cargo.toml").unwrap(), "millpond");
        assert_eq!(expected_name("examples/flights/Cargo.toml").unwrap(), "millpond-example-flights");
    }
}
