//! Rules for every text file, and for what starts CI.

use super::{File, at};

/// The whole of `.ci/run`: what CI runs is what a developer runs.
const ENTRY: &str = "#!/usr/bin/env bash\nset -euo pipefail\ncd \"$(dirname \"$0\")/..\"\nexec cargo xtask ci\n";

/// Where written text ends, as against data, which keeps its bytes.
const WRITTEN: &[&str] = &[".rs", ".md", ".toml", ".sh", ".yml", "/run"];

/// Files that name registries because that is what they are for.
const MAY_NAME_REGISTRIES: &[&str] = &["Cargo.lock", "deny.toml"];

/// Registries and their mirrors are the business of who builds. Put together, so that this file passes its own rule.
const REGISTRIES: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("pypi", ".org"),
    concat!("files.", "pythonhosted.org"),
];

/// Directories that exist on one machine only.
const PRIVATE: &[&str] = &[concat!("/", "work"), concat!("/", "root")];

pub(super) fn check(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    let is_written = WRITTEN.iter().any(|end| file.path.ends_with(end));
    let is_excused = MAY_NAME_REGISTRIES.contains(&file.path.as_str());
    for (number, line) in file.text.split('\n').enumerate() {
        if is_written && line.ends_with([' ', '\t', '\r']) {
            complaints.push(at(file, number, "white space at the end of the line"));
        }
        if !is_excused {
            let registry = REGISTRIES.iter().find(|host| line.contains(**host));
            complaints.extend(registry.map(|host| at(file, number, &format!("names the registry host `{host}`"))));
            let private = PRIVATE.iter().find(|path| names_path(line, path));
            complaints.extend(private.map(|path| at(file, number, &format!("names the private path `{path}`"))));
        }
    }
    if is_written && !file.text.is_empty() && !file.text.ends_with('\n') {
        complaints.push(format!("{}: the last line does not end", file.path));
    }
    complaints
}

/// Whether the path stands there as an absolute one: not as the end of a longer path, nor the start of a longer name.
fn names_path(line: &str, path: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    line.match_indices(path).any(|(start, _)| {
        let before = line.get(..start).and_then(|head| head.chars().next_back());
        let after = line.get(start + path.len()..).and_then(|tail| tail.chars().next());
        !before.is_some_and(|c| part_of_name(c) || matches!(c, '}' | ')' | '>' | '~' | '*'))
            && !after.is_some_and(part_of_name)
    })
}

/// `.ci/run` is there and does nothing but call xtask.
pub(super) fn check_entry(files: &[File]) -> Option<String> {
    match files.iter().find(|file| file.path == ".ci/run") {
        Some(file) if file.text == ENTRY => None,
        Some(_) => Some(
            ".ci/run: holds something else than the call of `cargo xtask ci`; jobs belong to xtask/src/ci.rs"
                .to_owned(),
        ),
        None => Some(".ci/run: is missing".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn white_space_at_the_end_is_found_in_what_people_write() {
        for end in [" ", "\t", "\r"] {
            assert_eq!(check(&file("a.md", &format!("text{end}\n"))).len(), 1, "{end:?}");
        }
        assert!(check(&file("data/flights.csv", "a,b, \r\n")).is_empty());
    }

    #[test]
    fn a_last_line_without_an_end_is_found() {
        assert_eq!(check(&file("a.toml", "a = 1")).len(), 1);
        assert!(check(&file("a.toml", "")).is_empty());
    }

    #[test]
    fn registry_hosts_are_found_but_where_they_belong() {
        for host in REGISTRIES {
            let text = format!("see https://{host}/simple\n");
            assert_eq!(check(&file("README.md", &text)).len(), 1, "{host}");
            assert!(check(&file("deny.toml", &text)).is_empty(), "{host}");
        }
    }

    #[test]
    fn private_paths_are_found() {
        for path in PRIVATE {
            for text in [format!("cd {path}/x\n"), format!("`{path}`\n"), format!("path={path}\n")] {
                assert_eq!(check(&file("README.md", &text)).len(), 1, "{text}");
            }
            for text in [format!("target{path}/x\n"), format!("${{dir}}{path}\n"), format!("{path}ers/x\n")] {
                assert!(check(&file("README.md", &text)).is_empty(), "{text}");
            }
        }
    }

    #[test]
    fn what_starts_ci_holds_the_one_call() {
        assert_eq!(check_entry(&[file(".ci/run", ENTRY)]), None);
        let more = ENTRY.replace("exec cargo", "cargo fetch\nexec cargo");
        assert!(check_entry(&[file(".ci/run", &more)]).unwrap().contains("something else"));
        assert!(check_entry(&[]).unwrap().contains("missing"));
    }
}
