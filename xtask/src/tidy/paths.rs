//! Rule for paths that text names: what is named is there.

use std::collections::BTreeSet;

use super::{File, at};

/// Where a path in backticks must begin to be taken for one of ours.
const ROOTS: &[&str] = &["crates/", "docs/", "examples/", "xtask/", "changelog.d/"];

/// The files that there are, and the folders above them.
pub(super) struct Known<'a>(BTreeSet<&'a str>);

impl<'a> Known<'a> {
    pub(super) fn new(files: impl Iterator<Item = &'a str>) -> Self {
        let mut known = BTreeSet::new();
        for file in files {
            known.insert(file);
            known.extend(file.match_indices('/').filter_map(|(slash, _)| file.get(..slash)));
        }
        Self(known)
    }

    fn has(&self, path: &str) -> bool {
        self.0.contains(path.trim_end_matches('/'))
    }
}

/// Paths in backticks, in Markdown and in the comments of Rust, and the targets of Markdown's links.
pub(super) fn check(file: &File, known: &Known<'_>) -> Vec<String> {
    let is_markdown = file.path.ends_with(".md");
    if !is_markdown && !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        if !is_markdown && !line.trim_start().starts_with("//") {
            continue;
        }
        let mut named = line.split('`').skip(1).step_by(2).flat_map(spell_out).collect::<Vec<_>>();
        named.retain(|path| is_ours(path));
        if is_markdown {
            named.extend(links(line).filter_map(|target| resolve(&file.path, target)));
        }
        let missing = named.iter().filter(|path| !known.has(path));
        complaints.extend(missing.map(|path| at(file, number, &format!("names `{path}`, which is not there"))));
    }
    complaints
}

/// `a/{b,c}.rs` is two paths.
fn spell_out(text: &str) -> Vec<String> {
    let braces = text.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)));
    match braces {
        Some((head, (names, tail))) => names.split(',').map(|name| format!("{head}{name}{tail}")).collect(),
        None => vec![text.to_owned()],
    }
}

/// A path, and no pattern: `crates/NAME` and `docs/decisions/NNNN-what-it-is.md` stand for many.
fn is_ours(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    let is_pattern = |part: &str| ["NAME", "NNNN", "VERB", "KIND"].iter().any(|word| part.starts_with(word));
    ROOTS.iter().any(|root| path.starts_with(root)) && path.chars().all(plain) && !path.split('/').any(is_pattern)
}

/// The targets of the links in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// A link's target from the root; `None`: it leads out of the repository, or to a heading of the same page.
fn resolve(from: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().filter(|target| !target.is_empty() && !target.contains(':'))?;
    let mut parts = from.split('/').collect::<Vec<_>>();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        let known =
            Known::new(["README.md", "docs/formats/cut.md", "crates/a/src/b.rs", "crates/a/src/c.rs"].into_iter());
        check(&file(path, text), &known)
    }

    #[test]
    fn files_and_folders_that_are_there_pass() {
        for text in [
            "`crates/a/src/b.rs` and `crates/a/src/{b,c}.rs` in `crates/a/`",
            "[formats](formats/cut.md#table), [up](../README.md), [here](#heading), [there](https://example.org/x)",
            "`crates/NAME`, `docs/decisions/NNNN-what-it-is.md`, `crates/*`, `cargo doc`, `src/gone.rs`",
        ] {
            assert_eq!(complaints("docs/page.md", text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn what_is_not_there_is_named_with_its_line() {
        let found = complaints("docs/page.md", "A page.\n\nSee `crates/a/src/{b,gone}.rs`.\n");
        assert_eq!(found, ["docs/page.md:3: names `crates/a/src/gone.rs`, which is not there"]);
        assert_eq!(complaints("docs/page.md", "[formats](formats/gone.md)\n").len(), 1);
        assert_eq!(complaints("README.md", "[formats](formats/cut.md)\n").len(), 1);
    }

    #[test]
    fn of_rust_the_comments_are_read() {
        assert_eq!(complaints("crates/a/src/b.rs", "//! See `docs/formats/gone.md`.\n").len(), 1);
        assert!(complaints("crates/a/src/b.rs", "let text = \"`docs/formats/gone.md`\";\n").is_empty());
    }
}
